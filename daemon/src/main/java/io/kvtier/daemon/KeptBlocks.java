package io.kvtier.daemon;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.protocol.Counted;
import io.kvtier.protocol.Counter;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;

/** Describes the blocks that stay in memory when the daemon stops. */
final class KeptBlocks {
  private static final String NOTHING_KEPT = "no block is kept in memory";

  private final long keepNs;
  private volatile String words = NOTHING_KEPT;

  /** No block is kept while the daemon runs. */
  KeptBlocks(long keepNs) {
    this.keepNs = keepNs;
  }

  /** The blocks that stay in memory, in words: how many, where and until when. */
  String words() {
    return words;
  }

  /**
   * Notes the blocks, when the index has stopped and the memory is still there. Memory without a
   * block is given back.
   */
  void note(HostTier memory, Counters counters) {
    if (memory.isEmpty()) {
      memory.letGo();
      Path notes = memory.directory();
      words = NOTHING_KEPT + (notes == null ? "" : " (its notes stay in " + notes + ")");
      return;
    }
    String failure = memory.requireKeeper();
    long keeper = memory.keeperProcess();
    if (!failure.isEmpty()) {
      words = NOTHING_KEPT + ", as no process can hold it: " + failure;
    } else if (keeper != 0) {
      Instant until = Instant.now().plusNanos(keepNs).truncatedTo(ChronoUnit.SECONDS);
      words =
          keptBlocks(counters.get(Counter.GAUGE_HOST_SLOTS_RESIDENT))
              + " kept in memory until "
              + until
              + " for the next start, by process "
              + keeper
              + " (noted in "
              + memory.directory()
              + "): end that to have the memory back now";
    }
  }

  private static String keptBlocks(long blocks) {
    return Counted.of(blocks, "block") + (blocks == 1 ? " is" : " are");
  }
}
