package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import io.kvtier.client.BatchResult;
import io.kvtier.client.BlockingClient;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.ValueResult;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** A quick measurement of a running daemon, over the socket that clients use. */
@Command(
    name = "bench",
    description = {
      "Measures a running daemon as a client sees it: round trips, puts and gets of blocks. It is"
          + " a quick look and no benchmark: other load on the machine changes the figures.",
      "It stores blocks in a namespace of its own, 'kvtier-bench', checks each byte that it gets"
          + " back, and deletes the blocks. If memory is full, cached blocks of the same total size"
          + " are evicted for them. If no slab (a piece of memory for blocks of one size) holds"
          + " blocks of this size yet, the daemon empties a slab that has few bytes in use: all"
          + " blocks in it are evicted."
    })
final class BenchCommand extends DaemonCommand {
  private static final String NAME = "kvtier-bench";
  private static final int PINGS = 2000;
  private static final int KEY_BYTES = 16;
  private static final Duration LIMIT = Duration.ofSeconds(60);

  @Option(
      names = "--blocks",
      paramLabel = "N",
      defaultValue = "64",
      description = "Number of blocks, 1 to 4096. Default: ${DEFAULT-VALUE}.")
  private int count;

  @Option(
      names = "--block-kib",
      paramLabel = "N",
      defaultValue = "1024",
      description = "Size of a block in KiB. Default: ${DEFAULT-VALUE}.")
  private int blockKib;

  @Option(
      names = "--rounds",
      paramLabel = "N",
      defaultValue = "5",
      description = "Number of times that all blocks are read. Default: ${DEFAULT-VALUE}.")
  private int rounds;

  @Override
  int run(KvtierClient client) {
    if (count < 1 || count > 4096 || blockKib < 1 || blockKib > 1 << 20 || rounds < 1) {
      throw new Failure(
          Failure.USAGE,
          "--blocks must be 1 to 4096, --block-kib 1 or more, and --rounds 1 or more");
    }
    if ((long) count * blockKib > 4L << 20) {
      throw new Failure(
          Failure.USAGE, "--blocks and --block-kib come to more than 4 GiB: lower one of them");
    }
    int bytes = blockKib << 10;
    BlockingClient blocking = client.blocking();
    long[] trips = new long[PINGS];
    for (int i = 0; i < PINGS; i++) {
      trips[i] = blocking.ping().roundTripNs();
    }
    Arrays.sort(trips);
    Options options = Options.DEFAULT.withTimeout(LIMIT);
    Namespace namespace = client.namespace(NAME, bytes, Map.of("purpose", "kvtier bench"));
    long seed = System.nanoTime();
    Keys keys = keys(seed);
    JsonObject result = new JsonObject();
    result.add("ping_ns_p50", trips[PINGS / 2]).add("ping_ns_p99", trips[PINGS * 99 / 100]);
    try (Arena arena = Arena.ofConfined()) {
      List<MemorySegment> sources = blocks(arena, bytes, seed);
      long began = System.nanoTime();
      BatchResult put = blocking.put(namespace, keys, sources, options);
      long putNs = System.nanoTime() - began;
      requireComplete(put, "put");
      List<MemorySegment> targets = blocks(arena, bytes, seed + 1);
      long best = Long.MAX_VALUE;
      for (int round = 0; round < rounds; round++) {
        began = System.nanoTime();
        BatchResult got = blocking.get(namespace, keys, targets, options);
        best = Math.min(best, System.nanoTime() - began);
        requireComplete(got, "get");
      }
      for (int i = 0; i < count; i++) {
        if (sources.get(i).mismatch(targets.get(i)) >= 0) {
          throw new Failure(Failure.NEGATIVE, "block " + i + " came back with other bytes");
        }
      }
      double total = (double) count * bytes;
      result.add("put_gib_per_s", total / putNs * 1e9 / (1 << 30));
      result.add("get_gib_per_s", total / best * 1e9 / (1 << 30));
      result.add("get_ns_per_block", best / count);
    } finally {
      ValueResult cleared = blocking.clear(namespace, options);
      result.add("deleted", cleared.value());
    }
    if (isJson()) {
      line(result.toString());
    } else {
      line(
          "round trip   "
              + Units.nanoseconds(trips[PINGS / 2])
              + " (median), 99 % took at most "
              + Units.nanoseconds(trips[PINGS * 99 / 100]));
      rate("put", result.getDouble("put_gib_per_s", 0));
      rate("get", result.getDouble("get_gib_per_s", 0));
      line("all bytes came back unchanged");
    }
    return 0;
  }

  private void rate(String what, double gib) {
    line(
        String.format(
            Locale.ROOT,
            "%-13s%.2f GiB/s, %s of %d KiB",
            what,
            gib,
            Units.counted(count, "block"),
            blockKib));
  }

  private static void requireComplete(BatchResult result, String what) {
    KeyedCommand.requireDone(result.status(), "the " + what, result.detail());
    if (!result.isComplete()) {
      throw new Failure(
          Failure.NEGATIVE,
          "the "
              + what
              + " was not complete ("
              + result.blocks().count(Status.OK)
              + " of "
              + result.blocks().count()
              + " blocks): the daemon is full, drained, or too small; try fewer --blocks");
    }
  }

  private Keys keys(long seed) {
    List<byte[]> keys = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      keys.add(ByteBuffer.allocate(KEY_BYTES).putLong(seed).putLong(i).array());
    }
    return Keys.of(keys);
  }

  private List<MemorySegment> blocks(Arena arena, int bytes, long seed) {
    SplittableRandom random = new SplittableRandom(seed);
    List<MemorySegment> blocks = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      byte[] block = new byte[bytes];
      random.nextBytes(block);
      blocks.add(arena.allocate(bytes, 64).copyFrom(MemorySegment.ofArray(block)));
    }
    return blocks;
  }
}
