package io.kvtier.tiers.gpu;

import io.kvtier.layout.Runs;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.IdleWorkers;
import io.kvtier.tiers.transfer.Joining;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.jctools.queues.atomic.SpscAtomicArrayQueue;
import org.jspecify.annotations.Nullable;

/**
 * One direction of one GPU: a copy engine and the thread that drives it, between a queue from the
 * index and one back to it. The thread spins while the GPU copies, sleeps briefly while it has all
 * in hand or waits for events, and sleeps until it is woken when there is nothing, unless something
 * is expected in a moment.
 */
final class DeviceLane implements AutoCloseable {
  private static final long NAP_NS = 10_000;
  private static final long CLOSE_MS = 5_000;

  /**
   * So many transfers are taken between two looks at the GPU, which would have nothing to do while
   * the runs of hundreds are computed.
   */
  private static final int BEGINS_MAX = 4;

  private final Gpu gpu;
  private final CopyEngine engine;
  private final StrategyTable strategies;
  private final PinnedSlabs slabs;
  private final Runnable finishedBell;
  private final Consumer<Throwable> defect;
  private final SpscAtomicArrayQueue<DeviceTransfer> offered;
  private final SpscAtomicArrayQueue<DeviceTransfer> finished;
  private final @Nullable DeviceTransfer[] submitted;
  private final Consumer<Copy> onCopied = this::copied;

  /** For the runs of one block of each side, between regions. */
  private final Runs[] sides = {new Runs(), new Runs()};

  private final IdleWorkers idle = new IdleWorkers(1);
  private final long[] calibratedBytes;
  private final Thread thread;
  private volatile long expectedUntilNs = System.nanoTime();
  private volatile boolean running = true;
  private volatile long bytes;
  private volatile long errors;
  private volatile @Nullable String fence;
  private Runnable atStart = () -> {};
  private int done;

  /**
   * A lane whose thread is not started yet.
   *
   * @param poolSize one more than the highest number of a transfer
   * @param finishedBell wakes the index
   * @param defect told of what should never happen: its transfers will not come back
   */
  DeviceLane(
      String name,
      Gpu gpu,
      CopyEngine engine,
      PinnedSlabs slabs,
      int poolSize,
      Runnable finishedBell,
      Consumer<Throwable> defect) {
    this.gpu = gpu;
    this.engine = engine;
    strategies = engine.strategies();
    this.slabs = slabs;
    this.finishedBell = finishedBell;
    this.defect = defect;
    offered = new SpscAtomicArrayQueue<>(Math.max(4, poolSize));
    finished = new SpscAtomicArrayQueue<>(Math.max(4, poolSize));
    submitted = new DeviceTransfer[poolSize];
    calibratedBytes = Arrays.stream(CopyStrategy.values()).mapToLong(engine::bytesBy).toArray();
    thread = Thread.ofPlatform().daemon().name(name).unstarted(this::run);
  }

  /**
   * Starts the thread.
   *
   * @param first what the thread does first
   */
  void start(Runnable first) {
    atStart = first;
    thread.start();
  }

  // ---- the index's side

  boolean offer(DeviceTransfer transfer) {
    if (!offered.offer(transfer)) {
      return false;
    }
    wake();
    return true;
  }

  /** Something is likely to be offered within so long: the thread stays awake for it. */
  void expect(long withinNs) {
    expectedUntilNs = System.nanoTime() + withinNs;
    wake();
  }

  private void wake() {
    if (idle.takeOne() != IdleWorkers.NONE) {
      LockSupport.unpark(thread);
    }
  }

  int collect(Consumer<DeviceTransfer> sink) {
    int count = 0;
    for (DeviceTransfer one = finished.poll(); one != null; one = finished.poll()) {
      count++;
      sink.accept(one);
    }
    return count;
  }

  boolean hasFinished() {
    return !finished.isEmpty();
  }

  long bytes() {
    return bytes;
  }

  /** How much was given to the GPU by a strategy, beside what calibrated them. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  long bytesBy(CopyStrategy strategy) {
    return engine.bytesBy(strategy) - calibratedBytes[strategy.ordinal()];
  }

  /** The speeds of raw and encoded copies; null if they were not measured. */
  @Nullable FormSpeeds formSpeeds(int runBytes) {
    return strategies.formSpeeds(runBytes);
  }

  long errors() {
    return errors;
  }

  @Nullable String fence() {
    return fence;
  }

  // ---- the thread

  private void run() {
    try {
      atStart.run();
      while (running) {
        if (doWork() == 0) {
          rest();
        }
      }
    } catch (Throwable t) {
      defect.accept(t);
    }
  }

  /** One round; returns how much was done. */
  int doWork() {
    int work = 0;
    while (work < BEGINS_MAX) {
      DeviceTransfer one = offered.poll();
      if (one == null) {
        break;
      }
      begin(one);
      work++;
    }
    done = 0;
    if (engine.inFlight() > 0) {
      work += engine.poll(onCopied);
      fence = engine.fence();
    }
    if (done > 0) {
      finishedBell.run();
    }
    return work;
  }

  private void begin(DeviceTransfer transfer) {
    Copy copy = transfer.copy;
    copy.runs.clear();
    copy.encoding = transfer.encoding;
    DeviceRegion region = transfer.region;
    try {
      if (region == null) {
        throw new IllegalStateException("a transfer without a region");
      }
      for (int i = 0; i < transfer.count; i++) {
        addRuns(transfer, region, i);
      }
      copy.after = transfer.event == 0 ? null : region.event(transfer.event - 1);
    } catch (GpuException e) {
      // Memory that can't be registered fails this copy, and perhaps not the next.
      copy.status = Status.IO_ERROR;
      finish(transfer);
      finishedBell.run();
      return;
    }
    submitted[transfer.poolIndex] = transfer;
    if (!engine.submit(copy)) {
      throw new IllegalStateException("the copy engine has no room for what the index has");
    }
  }

  private void addRuns(DeviceTransfer transfer, DeviceRegion region, int i) {
    DeviceRegion source = transfer.source;
    if (source == null) {
      long slot = slabs.addressOf(transfer.slabs[i], gpu) + transfer.offsets[i];
      transfer.copy.slots[i] = slot;
      long first = transfer.encoding == null ? slot : Copy.placeOf(i);
      region.addRuns(transfer.targets[i], transfer.layers, first, transfer.copy.runs);
      return;
    }
    region.addRunsFrom(
        source,
        transfer.sources[i],
        transfer.targets[i],
        transfer.layers,
        transfer.copy.runs,
        sides);
  }

  private void copied(Copy copy) {
    DeviceTransfer transfer = submitted[(int) copy.tag];
    if (transfer == null) {
      throw new IllegalStateException("a copy that nobody submitted");
    }
    submitted[transfer.poolIndex] = null;
    finish(transfer);
  }

  private void finish(DeviceTransfer transfer) {
    transfer.status = transfer.copy.status;
    transfer.flaws = transfer.copy.flaws;
    if (transfer.status == Status.OK) {
      count(transfer.copy.runs.totalBytes(), 0);
    } else if (transfer.status == Status.IO_ERROR) {
      count(0, 1);
    }
    // Those of many transfers are much memory.
    transfer.copy.runs.clear();
    done++;
    if (!finished.offer(transfer)) {
      throw new IllegalStateException("more transfers than the index has");
    }
  }

  @SuppressWarnings("NonAtomicVolatileUpdate") // one thread writes, others read
  private void count(long moreBytes, long moreErrors) {
    bytes += moreBytes;
    errors += moreErrors;
  }

  private void rest() {
    if (engine.inFlight() > 0) {
      // Between siblings what the GPU has in hand is over sooner than a nap.
      boolean mayNap = engine.isFull() && engine.direction() != CopyDirection.PEER;
      if (mayNap || engine.isWaiting()) {
        LockSupport.parkNanos(this, NAP_NS);
      } else {
        Thread.onSpinWait();
      }
      return;
    }
    if (System.nanoTime() - expectedUntilNs < 0) {
      Thread.onSpinWait();
      return;
    }
    idle.announce(0);
    if (offered.isEmpty() && running) {
      LockSupport.park(this);
    }
    idle.retract(0);
  }

  /**
   * Ends the thread, and gives the engine's memory back; what the GPU has in hand is done first. A
   * thread that a hanging driver does not let go keeps its engine: both go with the process.
   */
  @Override
  public void close() {
    running = false;
    LockSupport.unpark(thread);
    if (Joining.within(thread, CLOSE_MS)) {
      engine.close();
    }
  }

  /** Whether its thread has ended, or was never started. */
  boolean hasEnded() {
    return !thread.isAlive();
  }
}
