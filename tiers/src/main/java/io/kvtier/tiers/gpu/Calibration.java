package io.kvtier.tiers.gpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/**
 * Measures the strategies on a GPU: each direction, some lengths of runs, a little to copy and
 * much. Takes a fraction of a second, and scratch memory on both sides for that time.
 */
public final class Calibration {
  private static final int[] RUN_BYTES = {4 << 10, 8 << 10, 32 << 10, 64 << 10, 512 << 10, 2 << 20};
  private static final int SMALL_BYTES = 128 << 10;
  private static final int BLOCK_BYTES = 2 << 20;
  private static final int MANY_BLOCKS = 16;
  private static final int ROUNDS = 4;

  /** No further round once those of a strategy have taken this long: they vary less then, too. */
  private static final long ROUNDS_NS = 4_000_000;

  /** Until the strategies' code is compiled: what is cold favours those that have little of it. */
  private static final long WARM_UP_NS = 100_000_000;

  private static final int WARM_UP_RUN_BYTES = 8 << 10;

  /** One round is enough for a strategy that is slower than another by this factor. */
  private static final double HOPELESS = 4;

  private final CopyEngine engine;
  private final long device;
  private final long host;

  private Calibration(CopyEngine engine, long device, long host) {
    this.engine = engine;
    this.device = device;
    this.host = host;
  }

  /**
   * Measures, and lets the engine choose by the result.
   *
   * @param engine with nothing in flight
   * @param enough as {@link StrategyTable} wants it
   */
  public static StrategyTable calibrate(Gpu gpu, CopyEngine engine, double enough) {
    long bytes = (long) MANY_BLOCKS * BLOCK_BYTES;
    // Runs are as far apart as they are long, so that none joins the next.
    long device = gpu.allocate(2 * bytes);
    try (Arena arena = Arena.ofShared()) {
      MemorySegment memory = arena.allocate(bytes, 4096);
      long host = gpu.register(memory);
      try {
        StrategyTable table =
            new StrategyTable(
                new Calibration(engine, device, host).measure(gpu.hasBatchCopies()), enough);
        engine.use(table);
        return table;
      } finally {
        gpu.unregister(memory);
      }
    } finally {
      gpu.free(device);
    }
  }

  private List<StrategyTable.Measured> measure(boolean hasBatchCopies) {
    warmUp(hasBatchCopies);
    List<StrategyTable.Measured> all = new ArrayList<>();
    for (int runBytes : RUN_BYTES) {
      if (runBytes <= SMALL_BYTES) {
        all.add(measure(runBytes, SMALL_BYTES, 1, hasBatchCopies));
      }
      all.add(measure(runBytes, BLOCK_BYTES, 1, hasBatchCopies));
      all.add(measure(runBytes, BLOCK_BYTES, MANY_BLOCKS, hasBatchCopies));
    }
    return all;
  }

  private StrategyTable.Measured measure(
      int runBytes, int blockBytes, int blocks, boolean hasBatchCopies) {
    List<Copy> copies = copies(runBytes, blockBytes, blocks);
    Map<CopyStrategy, Double> rates = new EnumMap<>(CopyStrategy.class);
    double fastest = 0;
    // Those that are slow with short runs come last.
    for (CopyStrategy strategy : List.of(CopyStrategy.values()).reversed()) {
      if (strategy != CopyStrategy.BATCH || hasBatchCopies) {
        engine.use(StrategyTable.only(strategy));
        // The best round: whatever else the machine does makes others slower, and none faster.
        long start = System.nanoTime();
        double rate = rate(copies);
        for (int round = 0; round < ROUNDS; round++) {
          if (HOPELESS * rate < fastest || System.nanoTime() - start > ROUNDS_NS) {
            break;
          }
          rate = Math.max(rate, rate(copies));
        }
        rates.put(strategy, rate);
        fastest = Math.max(fastest, rate);
      }
    }
    return new StrategyTable.Measured(runBytes, (long) blocks * blockBytes, rates);
  }

  private void warmUp(boolean hasBatchCopies) {
    List<Copy> copies = copies(WARM_UP_RUN_BYTES, BLOCK_BYTES, MANY_BLOCKS);
    long start = System.nanoTime();
    do {
      for (CopyStrategy strategy : CopyStrategy.values()) {
        boolean isThere = strategy != CopyStrategy.BATCH || hasBatchCopies;
        if (strategy != CopyStrategy.PLAIN && isThere) {
          engine.use(StrategyTable.only(strategy));
          double ignored = rate(copies);
        }
      }
    } while (System.nanoTime() - start < WARM_UP_NS);
  }

  private List<Copy> copies(int runBytes, int blockBytes, int blocks) {
    List<Copy> copies = new ArrayList<>();
    for (int block = 0; block < blocks; block++) {
      Copy copy = new Copy();
      long first = (long) block * blockBytes;
      for (long at = first; at < first + blockBytes; at += runBytes) {
        copy.runs.add(device + 2 * at, host + at, runBytes);
      }
      copies.add(copy);
    }
    return copies;
  }

  /** Copies once; bytes a nanosecond. */
  private double rate(List<Copy> copies) {
    long bytes = 0;
    long start = System.nanoTime();
    for (Copy copy : copies) {
      bytes += copy.runs.totalBytes();
      if (!engine.submit(copy)) {
        throw new IllegalStateException("the engine has no room for " + copies.size() + " copies");
      }
    }
    while (engine.inFlight() > 0) {
      if (engine.poll(_ -> {}) == 0) {
        Thread.onSpinWait();
      }
      String fence = engine.fence();
      if (fence != null) {
        throw new GpuException("calibration failed: " + fence, 0);
      }
    }
    return (double) bytes / (System.nanoTime() - start);
  }
}
