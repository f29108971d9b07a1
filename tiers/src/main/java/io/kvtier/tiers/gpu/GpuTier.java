package io.kvtier.tiers.gpu;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.transfer.Joining;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The GPUs of this machine, for the index: opens engines' regions and closes them, and has a {@link
 * DevicePipeline} for each GPU that one was opened on. What takes long, which is all of it, happens
 * on a thread of its own; a GPU is touched only when an engine registers a region there.
 */
public final class GpuTier implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(GpuTier.class);
  private static final long CLOSE_MS = 5_000;

  /** Of a block: more of them take longer to describe than to copy. */
  static final int BLOCK_RUNS_MAX = 1 << 16;

  /** Of a block of each open region, all together: what is known of them stands in memory. */
  static final int RUNS_MAX = 1 << 20;

  /**
   * What it is made of.
   *
   * @param options of each copy engine, of which a GPU has three
   * @param encoding when blocks are stored encoded
   * @param transfers one more than the highest number of a transfer
   * @param finishedBell wakes the index
   * @param defect told of what should never happen
   */
  public record Parts(
      Supplier<GpuProbe> probe,
      CopyOptions options,
      EncodingMode encoding,
      Memory memory,
      int transfers,
      Runnable finishedBell,
      Consumer<Throwable> defect) {}

  /**
   * The host memory that is copied from and to.
   *
   * @param homes its NUMA nodes, near which the threads of GPUs run
   */
  public record Memory(IntFunction<MemorySegment> slabs, int count, NumaHomes homes) {}

  private final Parts parts;
  private final PinnedSlabs slabs;
  private final Queue<RegionOrder> orders = new ConcurrentLinkedQueue<>();
  private final Queue<RegionOrder> answered = new ConcurrentLinkedQueue<>();
  private final Map<GpuDevice, DevicePipeline> pipelines = new HashMap<>();
  private final List<DeviceRegion> shared = new ArrayList<>();
  private final List<DevicePipeline> started = new CopyOnWriteArrayList<>();
  private final Thread thread;
  private final boolean hasThreads;

  /** Of copies between host and GPU; null: each GPU is measured. */
  private final @Nullable StrategyTable strategies;

  private volatile @Nullable GpuProbe probed;
  private boolean pinsAhead;
  private boolean hasPinned;
  private long runs;
  private volatile boolean running = true;

  /** Begins to look for GPUs. */
  public GpuTier(Parts parts) {
    this(parts, true, null);
    thread.start();
  }

  private GpuTier(Parts parts, boolean hasThreads, @Nullable StrategyTable strategies) {
    this.parts = parts;
    this.hasThreads = hasThreads;
    this.strategies = strategies;
    slabs = new PinnedSlabs(parts.memory().slabs(), parts.memory().count());
    thread = Thread.ofPlatform().daemon().name("kvtier-gpu").unstarted(this::run);
  }

  /**
   * GPUs for a simulation: nothing happens but in {@link #doWork}, and nothing is measured, so that
   * the outcome does not depend on time.
   */
  public static GpuTier withoutThreads(Parts parts) {
    return new GpuTier(parts, false, StrategyTable.only(CopyStrategy.PLAIN));
  }

  /**
   * GPUs for tests that measure no copies. A measurement takes seconds on a GPU whose memory is
   * files.
   *
   * @param strategies of the copies in both directions between host and GPU
   */
  public static GpuTier withStrategies(Parts parts, StrategyTable strategies) {
    GpuTier tier = new GpuTier(parts, true, strategies);
    tier.thread.start();
    return tier;
  }

  /**
   * One round of orders and copies, of a tier without threads.
   *
   * @return how much was done
   */
  public int doWork() {
    if (hasThreads) {
      throw new IllegalStateException("the threads of this tier do its work");
    }
    GpuProbe known = probed;
    GpuProbe found = known == null ? probe() : known;
    RegionOrder order = orders.poll();
    int work = 0;
    if (order != null) {
      carryOut(order, found);
      answered.add(order);
      work++;
    }
    for (DevicePipeline pipeline : started) {
      work += pipeline.doWork();
    }
    return work;
  }

  // ---- the index's side

  /** Has a region opened, shared, or closed. */
  public void order(RegionOrder order) {
    orders.add(order);
    LockSupport.unpark(thread);
  }

  /** Gives back the orders that were carried out, or refused. */
  public int collect(Consumer<RegionOrder> sink) {
    int count = 0;
    for (RegionOrder order = answered.poll(); order != null; order = answered.poll()) {
      count++;
      sink.accept(order);
    }
    return count;
  }

  /** Whether {@link #collect} would find any. */
  public boolean hasAnswers() {
    return !answered.isEmpty();
  }

  /** Those GPUs of which a region was opened. */
  public List<DevicePipeline> pipelines() {
    return started;
  }

  // ---- the thread

  private void run() {
    try {
      GpuProbe found = probe();
      while (running) {
        RegionOrder order = orders.poll();
        if (order != null) {
          carryOut(order, found);
          answered.add(order);
          parts.finishedBell().run();
        } else if (!pinsAhead || !pinOne()) {
          // Who orders adds first and unparks then: a permit is left for a thread that is not
          // parked yet.
          LockSupport.park(this);
        }
      }
    } catch (Throwable t) {
      parts.defect().accept(t);
    }
  }

  private GpuProbe probe() {
    GpuProbe found = parts.probe().get();
    probed = found;
    switch (found) {
      case GpuProbe.Found(GpuDriver driver) ->
          LOG.info("{}, {} GPUs", driver.version(), driver.devices().size());
      case GpuProbe.NoGpu none -> LOG.info("{}: engines can use host memory only", none);
    }
    return found;
  }

  private void carryOut(RegionOrder order, GpuProbe found) {
    DeviceRegionSpec spec = order.spec;
    if (spec == null) {
      DeviceRegion opened = order.opened;
      if (opened != null && order.isShare) {
        shared.add(opened);
        for (DevicePipeline pipeline : started) {
          opened.share(pipeline.gpu());
        }
      } else if (opened != null) {
        shared.remove(opened);
        opened.close();
        runs -= opened.layout().runsPerBlock();
      }
      return;
    }
    try (spec) {
      switch (found) {
        case GpuProbe.NoGpu none -> order.refusal = none.toString();
        case GpuProbe.Found(GpuDriver driver) -> open(driver, spec, order);
      }
    } catch (GpuException e) {
      order.refusal = e.reason();
    }
  }

  /** Why a region's blocks are in too many pieces; null when they are not. */
  private @Nullable String tooManyRuns(long regionRuns) {
    if (regionRuns > BLOCK_RUNS_MAX) {
      return "a block of the region is in "
          + regionRuns
          + " pieces on the GPU: expected at most "
          + BLOCK_RUNS_MAX
          + "; with an 'order' as that of the tensors there are fewer";
    }
    return runs + regionRuns > RUNS_MAX
        ? "the blocks of all open regions are in more than " + RUNS_MAX + " pieces on the GPUs"
        : null;
  }

  private void open(GpuDriver driver, DeviceRegionSpec spec, RegionOrder order) {
    long regionRuns = spec.layout().runsPerBlock();
    order.refusal = tooManyRuns(regionRuns);
    if (order.refusal != null) {
      return;
    }
    GpuDevice device = null;
    for (GpuDevice each : driver.devices()) {
      device = each.isNamed(spec.device()) ? each : device;
    }
    DevicePipeline pipeline = device == null ? null : pipelineOf(driver, device);
    String fence = pipeline == null ? null : pipeline.fence();
    if (fence != null) {
      order.refusal =
          "GPU "
              + spec.device()
              + " is not used any more after '"
              + fence
              + "': restart the daemon; what is in memory survives that";
      return;
    }
    switch (DeviceRegion.open(driver, spec)) {
      case RegionResult.Refused(String reason) -> order.refusal = reason;
      case RegionResult.Opened(DeviceRegion region) -> {
        order.refusal = region.problem(order.encoding);
        if (order.refusal != null) {
          region.close();
          return;
        }
        order.opened = region;
        order.pipeline = pipeline;
        BlockEncoding encoding = order.encoding;
        order.isStoredRaw =
            pipeline != null
                && encoding != null
                && !pipeline.choosesEncoded(encoding, spec.layout().meanRunBytes());
        if (order.isStoredRaw) {
          LOG.info(
              "GPU {} puts blocks raw, because it copies encoded ones too slowly: set gpu.encode to"
                  + " always to save the space",
              spec.device());
        }
        runs += regionRuns;
        pinsAhead = !hasPinned;
      }
    }
  }

  private DevicePipeline pipelineOf(GpuDriver driver, GpuDevice device) {
    DevicePipeline known = pipelines.get(device);
    if (known != null) {
      return known;
    }
    long start = System.nanoTime();
    Gpu gpu = driver.open(device);
    int home = parts.memory().homes().ofGpu(device.pciId());
    List<DeviceLane> lanes = new ArrayList<>();
    try {
      for (CopyDirection direction : CopyDirection.values()) {
        lanes.add(lane(gpu, direction));
      }
    } catch (GpuException e) {
      lanes.forEach(DeviceLane::close);
      throw e;
    }
    DevicePipeline made =
        new DevicePipeline(
            gpu,
            lanes.get(0),
            lanes.get(1),
            lanes.get(2),
            2 * parts.options().stagingBytes(),
            home);
    if (hasThreads) {
      made.start(() -> parts.memory().homes().enter(home));
    }
    pipelines.put(device, made);
    started.add(made);
    for (DeviceRegion region : shared) {
      region.share(gpu);
    }
    LOG.info(
        "GPU {} ({}, {}) is used from now on; that took {} ms",
        device.ordinal(),
        device.name(),
        device.uuid(),
        (System.nanoTime() - start) / 1_000_000);
    return made;
  }

  private DeviceLane lane(Gpu gpu, CopyDirection direction) {
    StrategyTable given =
        direction == CopyDirection.PEER ? StrategyTable.ofPeers(gpu.hasBatchCopies()) : strategies;
    StrategyTable table = given == null ? StrategyTable.only(CopyStrategy.PLAIN) : given;
    CopyEngine engine = new CopyEngine(gpu, direction, parts.options(), table);
    try {
      if (given == null) {
        table = Calibration.calibrate(gpu, engine, StrategyTable.USUALLY_ENOUGH, parts.encoding());
      }
    } catch (GpuException e) {
      engine.close();
      throw e;
    }
    int ordinal = gpu.device().ordinal();
    LOG.debug("GPU {}, {}: {}", ordinal, direction, table.measured());
    String way =
        switch (direction) {
          case OFFLOAD -> "out";
          case ONBOARD -> "in";
          case PEER -> "peer";
        };
    return new DeviceLane(
        "kvtier-gpu-" + ordinal + "-" + way,
        gpu,
        engine,
        slabs,
        parts.transfers(),
        parts.finishedBell(),
        parts.defect());
  }

  /** Registers a slab before it is needed; false when there is nothing to do. */
  private boolean pinOne() {
    try {
      if (slabs.registerNext(started.getFirst().gpu())) {
        return true;
      }
      LOG.info("all memory of the host tier is registered with the driver");
    } catch (GpuException e) {
      LOG.warn("the host tier can't be registered with the driver in advance: {}", e.reason());
    }
    pinsAhead = false;
    hasPinned = true;
    return false;
  }

  /** Whether GPUs were looked for, and none can be used; from any thread. */
  public boolean hasNone() {
    return probed instanceof GpuProbe.NoGpu;
  }

  /** Ends all copies; regions that are open still are closed with the GPUs. */
  @Override
  public void close() {
    running = false;
    LockSupport.unpark(thread);
    boolean hasEnded = Joining.within(thread, CLOSE_MS);
    started.forEach(DevicePipeline::close);
    if (!hasEnded || !started.stream().allMatch(DevicePipeline::hasEnded)) {
      // Something hangs in the driver: what it uses goes with the process.
      return;
    }
    try {
      if (!started.isEmpty()) {
        slabs.unregister(started.getFirst().gpu());
      }
      started.forEach(pipeline -> pipeline.gpu().close());
    } catch (GpuException e) {
      LOG.debug("{}", e.reason());
    }
  }
}
