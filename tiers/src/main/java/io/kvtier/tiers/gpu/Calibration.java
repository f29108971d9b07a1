package io.kvtier.tiers.gpu;

import io.kvtier.layout.RunGrid;
import io.kvtier.layout.Runs;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.tiers.files.ByteSize;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Measures the strategies on a GPU: each direction, some lengths of runs, a little to copy and
 * much. Takes a fraction of a second, and scratch memory on both sides for that time: less of it
 * where the engine has left the GPU no more, at the cost of what is known of many blocks at once.
 */
public final class Calibration {
  private static final Logger LOG = LoggerFactory.getLogger(Calibration.class);
  private static final int[] RUN_BYTES = {
    256, 1 << 10, 4 << 10, 8 << 10, 32 << 10, 64 << 10, 512 << 10, 2 << 20
  };

  /**
   * Runs that are shorter come in grids, as those of a rank's heads do. Of them, the copy engines
   * are measured with little to copy: much takes long, and is no faster.
   */
  private static final int SHORT_RUN_BYTES = 4 << 10;

  /** As a layer of a block is one grid. */
  private static final int GRID_BYTES = 64 << 10;

  private static final int SMALL_BYTES = 128 << 10;
  private static final int BLOCK_BYTES = 2 << 20;
  private static final int MANY_BLOCKS = 16;

  /**
   * All is measured twice, one behind the other: what holds the machine up for a while (the driver,
   * another guest's work) has passed when a strategy's turn comes again.
   */
  private static final int PASSES = 2;

  /** Of each strategy in a pass, at most. */
  private static final int ROUNDS = 3;

  /** No further round once those of a strategy have taken this long: they vary less then, too. */
  private static final long ROUNDS_NS = 2_000_000;

  /** Until the strategies' code is compiled: what is cold favours those that have little of it. */
  private static final long WARM_UP_NS = 300_000_000;

  private static final int WARM_UP_RUN_BYTES = 4 << 10;

  /** As a layer of a block lies on the host: the next is elsewhere. */
  private static final int WARM_UP_SPAN_BYTES = 64 << 10;

  /** As the shard of a layer lies: in pieces on both sides. */
  private static final RunGrid WARM_UP_GRID =
      RunGrid.of(1 << 10, List.of(new RunGrid.Dimension(16, 4 << 10, 2 << 10)));

  /** How the blocks of encoded copies are encoded: as those of most engines. */
  private static final BlockEncoding ENCODING = BlockEncoding.of("exact bf16 4096", BLOCK_BYTES);

  /** One round is enough for a strategy that is slower than another by this factor. */
  private static final double HOPELESS = 4;

  /** CUDA_ERROR_OUT_OF_MEMORY (cuda.h). */
  private static final int OUT_OF_MEMORY = 2;

  /**
   * One kind of copies, and each strategy's best round of them so far, in bytes a nanosecond.
   *
   * @param copiesOfEngines what the copy engines copy instead
   * @param encodedCopies what encoded copies copy instead; empty if they are not measured
   */
  private record Kind(
      int runBytes,
      List<Copy> copies,
      List<Copy> copiesOfEngines,
      List<Copy> encodedCopies,
      Map<CopyStrategy, Double> rates) {
    Kind(int runBytes, List<Copy> copies, List<Copy> copiesOfEngines, List<Copy> encodedCopies) {
      this(runBytes, copies, copiesOfEngines, encodedCopies, new EnumMap<>(CopyStrategy.class));
    }

    List<Copy> copiesOf(CopyStrategy strategy) {
      return switch (strategy) {
        case PLAIN, BATCH -> copiesOfEngines;
        case STAGED, KERNEL -> copies;
        case ENCODED -> encodedCopies;
      };
    }

    double fastest() {
      return rates.values().stream().mapToDouble(Double::doubleValue).max().orElse(0);
    }

    StrategyTable.Measured measured() {
      long bytes = copies.stream().mapToLong(copy -> copy.runs.totalBytes()).sum();
      return new StrategyTable.Measured(runBytes, bytes, rates);
    }
  }

  /**
   * The clock of the measurements, and when they begin.
   *
   * @param nowNs as {@link System#nanoTime}
   * @param warmUpNs how long copies are not measured at first; 0 measures also the first copies
   */
  record Clock(LongSupplier nowNs, long warmUpNs) {}

  private final Clock clock;
  private final CopyEngine engine;
  private final List<CopyStrategy> strategies;
  private final int blocks;
  private final long device;
  private final long host;

  private Calibration(
      Clock clock,
      CopyEngine engine,
      EncodingMode mode,
      boolean hasBatchCopies,
      int blocks,
      long device,
      long host) {
    this.clock = clock;
    this.engine = engine;
    // Those that are slow with short runs come last.
    strategies =
        List.of(CopyStrategy.values()).reversed().stream()
            .filter(strategy -> mode == EncodingMode.AUTO || strategy.isForRaw())
            .filter(strategy -> strategy != CopyStrategy.BATCH || hasBatchCopies)
            .toList();
    this.blocks = blocks;
    this.device = device;
    this.host = host;
  }

  /**
   * Measures, and lets the engine choose by the result. Where the GPU has no memory for a single
   * block, every copy is plain.
   *
   * @param engine with nothing in flight
   * @param enough as {@link StrategyTable} wants it
   */
  public static StrategyTable calibrate(Gpu gpu, CopyEngine engine, double enough) {
    return calibrate(gpu, engine, enough, EncodingMode.ALWAYS);
  }

  /**
   * Measures encoded copies, too, if there is a choice between them and raw copies.
   *
   * @param engine with nothing in flight
   * @param enough as {@link StrategyTable} wants it
   */
  static StrategyTable calibrate(Gpu gpu, CopyEngine engine, double enough, EncodingMode mode) {
    return calibrate(gpu, engine, enough, mode, new Clock(System::nanoTime, WARM_UP_NS));
  }

  /** Measures by another clock. */
  static StrategyTable calibrate(
      Gpu gpu, CopyEngine engine, double enough, EncodingMode mode, Clock clock) {
    StrategyTable table = null;
    for (int blocks = MANY_BLOCKS; blocks > 0 && table == null; blocks /= 2) {
      long device;
      try {
        device = gpu.allocate(deviceBytes(blocks));
      } catch (GpuException e) {
        if (e.code() != OUT_OF_MEMORY) {
          throw e; // less of it would not help
        }
        LOG.debug("no calibration with {} blocks: {}", blocks, e.reason());
        continue;
      }
      try {
        table = new StrategyTable(measure(gpu, engine, mode, blocks, device, clock), enough);
      } finally {
        gpu.free(device);
      }
    }
    if (table == null) {
      LOG.warn(
          "GPU {} has less than {} of free memory, so its copies are not calibrated and use the"
              + " plain strategy, which is slow for small pieces of blocks: leave that much memory"
              + " free, and restart the daemon",
          gpu.device().ordinal(),
          ByteSize.words(deviceBytes(1)));
      table = StrategyTable.only(CopyStrategy.PLAIN);
    }
    engine.use(table);
    return table;
  }

  /** Runs are as far apart as they are long, so that none joins the next. */
  private static long deviceBytes(int blocks) {
    return 2L * blocks * BLOCK_BYTES;
  }

  private static List<StrategyTable.Measured> measure(
      Gpu gpu, CopyEngine engine, EncodingMode mode, int blocks, long device, Clock clock) {
    try (Arena arena = Arena.ofShared()) {
      MemorySegment memory = arena.allocate((long) blocks * BLOCK_BYTES, 4096);
      long host = gpu.register(memory);
      try {
        return new Calibration(clock, engine, mode, gpu.hasBatchCopies(), blocks, device, host)
            .measure();
      } finally {
        gpu.unregister(memory);
      }
    }
  }

  private List<StrategyTable.Measured> measure() {
    warmUp();
    List<Kind> kinds = kinds();
    for (int pass = 0; pass < PASSES; pass++) {
      kinds.forEach(this::measure);
    }
    return kinds.stream().map(Kind::measured).toList();
  }

  private List<Kind> kinds() {
    List<Kind> kinds = new ArrayList<>();
    for (int runBytes : RUN_BYTES) {
      List<Copy> few = List.of();
      if (runBytes <= SMALL_BYTES) {
        few = copies(runBytes, SMALL_BYTES, 1);
        kinds.add(new Kind(runBytes, few, few, List.of()));
      }
      if (blocks > 1) {
        kinds.add(kind(runBytes, copies(runBytes, BLOCK_BYTES, 1), few, List.of()));
      }
      // Encoded copies are measured with the most blocks only.
      kinds.add(kind(runBytes, copies(runBytes, BLOCK_BYTES, blocks), few, encoded(runBytes)));
    }
    return kinds;
  }

  private static Kind kind(
      int runBytes, List<Copy> copies, List<Copy> few, List<Copy> encodedCopies) {
    List<Copy> ofEngines = runBytes < SHORT_RUN_BYTES ? few : copies;
    return new Kind(runBytes, copies, ofEngines, encodedCopies);
  }

  /** Copies of all blocks in their encoded form, each to a slot of its own. */
  private List<Copy> encoded(int runBytes) {
    if (!strategies.contains(CopyStrategy.ENCODED)) {
      return List.of();
    }
    List<Copy> copies = new ArrayList<>();
    for (int block = 0; block < blocks; block++) {
      long first = (long) block * BLOCK_BYTES;
      Copy copy = copy(runBytes, BLOCK_BYTES, device + 2 * first, Copy.placeOf(0));
      copy.encoding = ENCODING;
      copy.slots[0] = host + first;
      copies.add(copy);
    }
    return copies;
  }

  private void measure(Kind kind) {
    for (CopyStrategy strategy : strategies) {
      if (kind.copiesOf(strategy).isEmpty()) {
        continue;
      }
      engine.use(StrategyTable.only(strategy));
      // The best round: whatever else the machine does makes others slower, and none faster.
      long start = now();
      for (int round = 0; round < ROUNDS; round++) {
        double best = kind.rates.merge(strategy, rate(kind.copiesOf(strategy)), Math::max);
        if (HOPELESS * best < kind.fastest() || now() - start > ROUNDS_NS) {
          break;
        }
      }
    }
  }

  /**
   * With copies as engines ask for them: what is compiled for others is compiled anew while the
   * first get of a prompt waits.
   */
  private void warmUp() {
    List<Copy> copies = new ArrayList<>();
    for (int block = 0; block < blocks; block++) {
      copies.add(new Copy());
    }
    List<Copy> encodedCopies = encoded(WARM_UP_RUN_BYTES);
    long start = now();
    do {
      for (int block = 0; block < blocks; block++) {
        Runs runs = copies.get(block).runs;
        runs.clear();
        addSpans(block, runs);
      }
      for (CopyStrategy strategy : strategies) {
        if (strategy != CopyStrategy.PLAIN) {
          engine.use(StrategyTable.only(strategy));
          double ignored = rate(strategy == CopyStrategy.ENCODED ? encodedCopies : copies);
        }
      }
    } while (now() - start < clock.warmUpNs);
  }

  private void addSpans(int block, Runs runs) {
    long first = (long) block * BLOCK_BYTES;
    for (long span = first; span < first + BLOCK_BYTES; span += 2 * WARM_UP_SPAN_BYTES) {
      for (long at = span; at < span + WARM_UP_SPAN_BYTES; at += WARM_UP_RUN_BYTES) {
        runs.add(device + 2 * at, host + at, WARM_UP_RUN_BYTES);
      }
      long next = span + WARM_UP_SPAN_BYTES;
      runs.add(device + 2 * next, host + next + WARM_UP_GRID.runBytes(), WARM_UP_GRID);
    }
  }

  private List<Copy> copies(int runBytes, int blockBytes, int count) {
    List<Copy> copies = new ArrayList<>();
    for (int block = 0; block < count; block++) {
      long first = (long) block * blockBytes;
      copies.add(copy(runBytes, blockBytes, device + 2 * first, host + first));
    }
    return copies;
  }

  /**
   * A copy of one block.
   *
   * @param source where the block's first run is on the device
   * @param target where the block is on the host
   */
  private static Copy copy(int runBytes, int blockBytes, long source, long target) {
    Copy copy = new Copy();
    if (runBytes < SHORT_RUN_BYTES) {
      RunGrid grid =
          RunGrid.of(
              runBytes,
              List.of(new RunGrid.Dimension(GRID_BYTES / runBytes, 2L * runBytes, runBytes)));
      for (long at = 0; at < blockBytes; at += GRID_BYTES) {
        copy.runs.add(source + 2 * at, target + at, grid);
      }
    } else {
      for (long at = 0; at < blockBytes; at += runBytes) {
        copy.runs.add(source + 2 * at, target + at, runBytes);
      }
    }
    return copy;
  }

  private long now() {
    return clock.nowNs.getAsLong();
  }

  /** Copies once; bytes a nanosecond. */
  private double rate(List<Copy> copies) {
    long bytes = 0;
    long start = now();
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
    return (double) bytes / (now() - start);
  }
}
