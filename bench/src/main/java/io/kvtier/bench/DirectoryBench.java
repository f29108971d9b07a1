package io.kvtier.bench;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.policies.eviction.LruPolicy;
import io.kvtier.protocol.linux.PrivateMemory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;

/**
 * The daemon's directory and its LRU order with so many blocks, against a chain of dependent loads
 * through memory of the same size and kind: what one random access to it must cost.
 */
final class DirectoryBench {
  private static final int QUERIES = 1 << 16;
  private static final String RANDOM = "random_access_ns";
  private static final int BATCH = 256;
  private static final int NAMESPACE = 1;
  private static final int LINE_BYTES = Directory.RECORD_BYTES;
  private static final double MIB = 1 << 20;
  private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;

  private final int entries;
  private final String name;
  private final int rounds;
  private final SplittableRandom random = new SplittableRandom(1);
  private long sink;

  /**
   * Measures nothing yet.
   *
   * @param entries a power of ten from a thousand on
   */
  DirectoryBench(int entries, boolean quick) {
    this.entries = entries;
    this.name =
        "directory_" + (entries < 1_000_000 ? entries / 1000 + "K" : entries / 1_000_000 + "M");
    this.rounds = quick ? 5 : 21;
  }

  void run(Report report) throws Exception {
    long memoryBefore = memoryBytes();
    try (Directory directory = new Directory(entries, random.nextLong());
        Arena arena = Arena.ofShared()) {
      LruPolicy policy = new LruPolicy(entries);
      MemorySegment key = arena.allocate(BenchKeys.KEY_BYTES, 8);
      long started = System.nanoTime();
      for (int i = 0; i < entries; i++) {
        randomKey(key, 0, i);
        if (directory.find(NAMESPACE, 0, BenchKeys.KEY_BYTES, key, 0) != Directory.NONE) {
          throw new IllegalStateException("key " + i + " is there before it was inserted");
        }
        int block = directory.insertSought(NAMESPACE, 0, BenchKeys.KEY_BYTES);
        policy.onInsert(block, 4096, BenchKeys.mix(i), 0, LruPolicy.NO_PARENT);
      }
      double insertNs = (System.nanoTime() - started) / (double) entries;
      long memoryTaken = memoryBytes() - memoryBefore;

      MemorySegment chain = chain(directory.metadataBytes(), arena);
      MemorySegment hits = arena.allocate((long) QUERIES * BenchKeys.KEY_BYTES, 8);
      MemorySegment misses = arena.allocate((long) QUERIES * BenchKeys.KEY_BYTES, 8);
      Rounds measured =
          Rounds.measure(
              2,
              rounds,
              into -> {
                for (int i = 0; i < QUERIES; i++) {
                  long at = (long) i * BenchKeys.KEY_BYTES;
                  randomKey(hits, at, random.nextInt(entries));
                  randomKey(misses, at, entries + (long) random.nextInt(entries));
                }
                into.add(RANDOM, chase(chain));
                into.add(name + "_find_hit_ns", find(directory, hits, QUERIES));
                into.add(RANDOM, chase(chain));
                into.add(name + "_find_miss_ns", find(directory, misses, 0));
                into.add(name + "_lookup_256_us", lookup(directory, hits));
                into.add(name + "_lru_hit_ns", touch(policy));
              });

      double metadata = directory.metadataBytes() + policy.metadataBytes();
      report.add(
          new Row(
              name + "_bytes_per_entry",
              metadata / entries,
              "B",
              "the record alone, one cache line",
              LINE_BYTES));
      report.add(
          new Row(
              name + "_memory_MiB",
              memoryTaken / MIB,
              "MiB",
              "what directory and policy say they take",
              metadata / MIB));
      report.add(new Row(name + "_insert_ns", insertNs, "ns", RANDOM, measured.median(RANDOM)));
      report.add(measured.row(name + "_find_hit_ns", "ns", RANDOM));
      report.add(measured.row(name + "_find_miss_ns", "ns", RANDOM));
      report.add(
          measured.row(
              name + "_lookup_256_us", "us", "256 x " + RANDOM, RANDOM, ns -> ns * BATCH / 1000));
      report.add(measured.row(name + "_lru_hit_ns", "ns", RANDOM));
      report.add(Row.plain(name + "_" + RANDOM, measured.median(RANDOM), "ns"));
      if (sink == 42) {
        throw new IllegalStateException("no computation may be left out");
      }
    }
  }

  /** What the process has taken, the Java heap with all that was ever in use of it. */
  private static long memoryBytes() throws IOException {
    return Machine.ownMemoryBytes("RssAnon");
  }

  private static void randomKey(MemorySegment target, long offset, long number) {
    for (int word = 0; word < BenchKeys.KEY_BYTES / 8; word++) {
      target.set(LONG, offset + 8L * word, BenchKeys.mix(number * 4 + word));
    }
  }

  /**
   * Lines of memory as the directory's, each holding the number of the next, in one random cycle.
   */
  private MemorySegment chain(long bytes, Arena arena) throws IOException {
    int lines = Math.toIntExact(bytes / LINE_BYTES);
    MemorySegment memory = PrivateMemory.map(bytes, arena);
    lines = Math.min(lines, Math.toIntExact(memory.byteSize() / LINE_BYTES));
    for (int i = 0; i < lines; i++) {
      memory.set(LONG, (long) i * LINE_BYTES, i);
    }
    for (int i = lines - 1; i > 0; i--) {
      long a = (long) i * LINE_BYTES;
      long b = (long) random.nextInt(i) * LINE_BYTES;
      long next = memory.get(LONG, a);
      memory.set(LONG, a, memory.get(LONG, b));
      memory.set(LONG, b, next);
    }
    return memory;
  }

  private double chase(MemorySegment chain) {
    long line = random.nextInt(Math.toIntExact(chain.byteSize() / LINE_BYTES));
    long started = System.nanoTime();
    for (int i = 0; i < QUERIES; i++) {
      line = chain.get(LONG, line * LINE_BYTES);
    }
    long took = System.nanoTime() - started;
    sink += line;
    return took / (double) QUERIES;
  }

  private double find(Directory directory, MemorySegment keys, int expected) {
    int found = 0;
    long started = System.nanoTime();
    for (int i = 0; i < QUERIES; i++) {
      int block =
          directory.find(NAMESPACE, 0, BenchKeys.KEY_BYTES, keys, (long) i * BenchKeys.KEY_BYTES);
      if (block != Directory.NONE) {
        found++;
      }
    }
    long took = System.nanoTime() - started;
    if (found != expected) {
      throw new IllegalStateException("found " + found + " keys, expected " + expected);
    }
    return took / (double) QUERIES;
  }

  /** What the index does for a lookup: find, and read the record's states. */
  private double lookup(Directory directory, MemorySegment keys) {
    int batches = QUERIES / BATCH;
    long[] took = new long[batches];
    for (int batch = 0; batch < batches; batch++) {
      long from = (long) batch * BATCH * BenchKeys.KEY_BYTES;
      long started = System.nanoTime();
      for (int i = 0; i < BATCH; i++) {
        int place = i % Directory.APPROACHED_MAX;
        if (place == 0) {
          directory.approach(
              NAMESPACE,
              0,
              BenchKeys.KEY_BYTES,
              keys,
              from + (long) i * BenchKeys.KEY_BYTES,
              BenchKeys.KEY_BYTES,
              Math.min(Directory.APPROACHED_MAX, BATCH - i));
        }
        int block = directory.findApproached(NAMESPACE, 0, BenchKeys.KEY_BYTES, place);
        sink += directory.checksum(block);
      }
      took[batch] = System.nanoTime() - started;
    }
    return Statistics.percentile(took, batches, 0.5) / 1000.0;
  }

  private double touch(LruPolicy policy) {
    int[] blocks = new int[QUERIES];
    for (int i = 0; i < QUERIES; i++) {
      blocks[i] = random.nextInt(entries);
    }
    long started = System.nanoTime();
    for (int block : blocks) {
      policy.onHit(block);
    }
    return (System.nanoTime() - started) / (double) QUERIES;
  }
}
