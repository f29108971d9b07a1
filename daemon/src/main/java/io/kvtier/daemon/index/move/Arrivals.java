package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.protocol.Status;
import java.util.List;
import java.util.function.IntConsumer;

/** How a block becomes resident in the first tier, wherever it came from. Confined to the index. */
final class Arrivals {
  private final Directory directory;
  private final Copies copies;
  private final ResidentTier first;
  private final Ingestion[] targets;
  private final IntConsumer storeEarly;
  private final Counters counters;
  private final BlockListener listener;

  /**
   * Tells the tiers below of blocks that arrive.
   *
   * @param targets decide which blocks are copied there
   * @param storeEarly has a retained block copied there
   */
  Arrivals(MoveParts parts, List<Ingestion> targets, IntConsumer storeEarly) {
    directory = parts.core().directory();
    counters = parts.core().counters();
    copies = parts.copies();
    first = parts.stack().first();
    listener = parts.listener();
    this.targets = targets.toArray(Ingestion[]::new);
    this.storeEarly = storeEarly;
  }

  /** A block is in its first slot, and verified. */
  void becomeResident(int block) {
    int length = copies.storedBytes(block);
    first.becomeResident(block);
    directory.clearHits(block);
    for (Ingestion target : targets) {
      // Also a block that is known to be an object: an accepted block must not be lost because that
      // knowledge is wrong.
      target.inserted(block);
    }
    if (directory.has(Directory.FLAG_RETAINED, block)) {
      storeEarly.accept(block);
    }
    counters.add(first.traits().counts().writtenBytes(), length);
    listener.onFirstSettled(block, Status.OK);
  }

  /** A resident block was used; {@code hits} counts its uses since it became resident. */
  void used(int block, int hits) {
    for (Ingestion target : targets) {
      target.used(block, hits);
    }
  }
}
