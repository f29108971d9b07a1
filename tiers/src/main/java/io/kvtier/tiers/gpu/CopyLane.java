package io.kvtier.tiers.gpu;

import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The copies of an engine: those that wait for an event, those that are ready, and the batches that
 * the GPU has in hand. When there are more copies than batches can take at once, several go into
 * one. A batch that waits for space on the GPU delays no other batch.
 */
final class CopyLane {
  private static final int KERNELS_IN_TIME_ENOUGH = 4;

  /** A kernel that has to wait costs the engine time: none is sent on trial sooner after it. */
  private static final long TRIAL_AFTER_NS = 20_000_000;

  private final Gpu gpu;
  private final LongSupplier clock;
  private final int depth;
  private final GpuStream kernels;

  private final GpuStream staged;

  /**
   * A second stream of kernels. Where the engine waits for what is copied, a kernel begins in it
   * while the last pieces of the other are on their way, which the link would wait for. Null: the
   * engine computes meanwhile, and keeps the multiprocessors.
   */
  private final @Nullable GpuStream moreKernels;

  /** Apart, since those of staged runs may wait for a kernel. */
  private final GpuStream direct;

  private final ArrayDeque<CopyBatch> free;
  private final ArrayDeque<CopyBatch> launched;
  private final ArrayDeque<Copy> ready;
  private final List<Copy> waiting = new ArrayList<>();
  private final AtomicLongArray launchedBytes = new AtomicLongArray(CopyStrategy.values().length);
  private boolean gpuIsBusy;
  private int kernelsInTime;
  private long nextTrialNs;
  private boolean takesMoreKernels;
  private long readyBytes;
  private long underWayBytes;
  private int inFlight;

  /**
   * The memory of all batches.
   *
   * @param staging the address on the device; 0 for none
   * @param host for tables of runs
   * @param hostAddress of the host memory on the device
   */
  record Memory(long staging, MemorySegment host, long hostAddress) {}

  /**
   * A lane without copies.
   *
   * @param resources own the streams and events
   */
  CopyLane(
      Gpu gpu,
      GpuResources resources,
      CopyOptions options,
      CopyDirection direction,
      Memory memory,
      LongSupplier clock) {
    this.gpu = gpu;
    this.clock = clock;
    depth = options.depth();
    free = new ArrayDeque<>(options.slots());
    launched = new ArrayDeque<>(options.slots());
    ready = new ArrayDeque<>(depth);
    kernels = resources.createStream(false);
    staged = resources.createStream(true);
    moreKernels = direction == CopyDirection.OFFLOAD ? null : resources.createStream(false);
    direct = resources.createStream(true);
    long bytes = CopyBatch.memoryBytes(options);
    for (int i = 0; i < options.slots(); i++) {
      CopyBatch batch =
          new CopyBatch(
              gpu,
              resources,
              options,
              direction,
              memory.staging + (long) i * options.slotBytes(),
              memory.host.asSlice(i * bytes, bytes),
              memory.hostAddress + i * bytes);
      free.add(batch);
    }
  }

  boolean submit(Copy copy) {
    if (inFlight == depth) {
      return false;
    }
    inFlight++;
    copy.begin();
    if (copy.after == null) {
      addReady(copy);
    } else {
      waiting.add(copy);
    }
    return true;
  }

  private void addReady(Copy copy) {
    ready.add(copy);
    readyBytes += copy.runs.totalBytes();
  }

  int inFlight() {
    return inFlight;
  }

  /** Whether the GPU has no copies: all copies wait for events. */
  boolean isWaiting() {
    return launched.isEmpty() && ready.isEmpty();
  }

  boolean isFull() {
    return free.isEmpty();
  }

  /** Hands finished copies back, and gives the GPU as many further copies as fit. */
  int poll(StrategyTable strategies, Consumer<Copy> finished) {
    watchKernels();
    int count = reap(finished) + takeReadyOnes(finished);
    while (!ready.isEmpty() && !free.isEmpty()) {
      launch(strategies);
    }
    return count;
  }

  private int reap(Consumer<Copy> finished) {
    int count = 0;
    for (Iterator<CopyBatch> batches = launched.iterator(); batches.hasNext(); ) {
      CopyBatch batch = batches.next();
      if (batch.isDone()) {
        batches.remove();
        batch.tellFlaws();
        underWayBytes -= batch.copiedBytes();
        for (Copy copy : batch.copies) {
          copy.batches--;
          if (copy.batches == 0 && copy.isAllTaken()) {
            inFlight--;
            count++;
            finished.accept(copy);
          }
        }
        free.add(batch);
      }
    }
    return count;
  }

  private int takeReadyOnes(Consumer<Copy> finished) {
    int count = 0;
    GpuEvent notDone = null;
    for (int i = 0; i < waiting.size(); ) {
      Copy copy = waiting.get(i);
      GpuEvent after = copy.after;
      if (copy.isGivenUp) {
        waiting.remove(i);
        inFlight--;
        count++;
        copy.status = Status.CANCELLED;
        finished.accept(copy);
      } else if (after == null || (!after.equals(notDone) && gpu.isDone(after))) {
        waiting.remove(i);
        addReady(copy);
      } else {
        // Many copies wait for one event, and each question is a call of the driver.
        notDone = after;
        i++;
      }
    }
    return count;
  }

  /** The bytes that a strategy gave to the GPU so far. For any thread. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  long launchedBytes(CopyStrategy strategy) {
    return launchedBytes.get(strategy.ordinal());
  }

  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  private void launch(StrategyTable strategies) {
    // On a busy GPU one staged batch now and then shows whether it still is.
    boolean busy = gpuIsBusy && (hasStagedBatch() || clock.getAsLong() - nextTrialNs < 0);
    // With what the GPU has in hand: little at a time, again and again, is much.
    long backlog = readyBytes + underWayBytes;
    CopyStrategy strategy = choose(strategies, ready.element(), backlog, busy);
    CopyBatch batch = free.remove();
    batch.begin(strategy);
    // Also where the driver refuses: a copy that a batch has taken is handed back from there.
    launched.add(batch);
    while (!ready.isEmpty()) {
      Copy copy = ready.element();
      if (choose(strategies, copy, backlog, busy) != strategy
          || !batch.suits(copy)
          || !batch.take(copy)) {
        break;
      }
      ready.remove();
      readyBytes -= copy.runs.totalBytes();
    }
    underWayBytes += batch.copiedBytes();
    batch.launch(kernelStream(), staged, direct);
    launchedBytes.getAndAdd(strategy.ordinal(), batch.copiedBytes());
  }

  private GpuStream kernelStream() {
    GpuStream more = moreKernels;
    takesMoreKernels = !takesMoreKernels;
    return takesMoreKernels && more != null ? more : kernels;
  }

  private boolean hasStagedBatch() {
    for (CopyBatch batch : launched) {
      if (batch.isStaged()) {
        return true;
      }
    }
    return false;
  }

  /** Whether our kernels find room beside the engine's: one that is late says no, a few say yes. */
  private void watchKernels() {
    long now = clock.getAsLong();
    for (CopyBatch batch : launched) {
      switch (batch.watchKernel(now)) {
        case LATE -> {
          gpuIsBusy = true;
          kernelsInTime = 0;
          nextTrialNs = now + TRIAL_AFTER_NS;
        }
        case DONE_IN_TIME -> {
          kernelsInTime++;
          gpuIsBusy = gpuIsBusy && kernelsInTime < KERNELS_IN_TIME_ENOUGH;
        }
        case NOTHING_NEW -> {}
      }
    }
  }

  private static CopyStrategy choose(
      StrategyTable strategies, Copy copy, long backlog, boolean busy) {
    return copy.encoding != null
        ? CopyStrategy.ENCODED
        : strategies.choose(copy.meanRunBytes(), copy.meanSpanBytes(), backlog, busy);
  }

  /** Hands back all that there is, undone. */
  int abandon(Consumer<Copy> finished) {
    // A copy can be in several batches.
    Set<Copy> all = Collections.newSetFromMap(new IdentityHashMap<>());
    launched.forEach(batch -> all.addAll(batch.copies));
    all.addAll(ready);
    all.addAll(waiting);
    free.addAll(launched);
    launched.clear();
    ready.clear();
    waiting.clear();
    readyBytes = 0;
    underWayBytes = 0;
    inFlight -= all.size();
    for (Copy copy : all) {
      copy.status = Status.IO_ERROR;
      finished.accept(copy);
    }
    return all.size();
  }

  /** Waits for what the GPU has in hand. */
  void synchronize() {
    gpu.synchronize(kernels);
    if (moreKernels != null) {
      gpu.synchronize(moreKernels);
    }
    gpu.synchronize(staged);
    gpu.synchronize(direct);
  }
}
