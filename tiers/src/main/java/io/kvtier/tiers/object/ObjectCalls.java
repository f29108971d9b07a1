package io.kvtier.tiers.object;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.codec.BlockCodec;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The calls of a pipeline to its store, and the work of processors before and after each call.
 * Workers do the long work. Answers of the store and results of workers arrive as events.
 *
 * <p>For the pipeline's thread. An operation that a worker has belongs to that worker until the
 * worker's event arrives.
 */
final class ObjectCalls {
  /** Sealing a block of that size and beginning its put takes some tens of microseconds. */
  private static final int QUICK_BYTES = 64 << 10;

  /** News from another thread for the pipeline's thread. */
  sealed interface Event {
    ObjectOperation operation();

    long epoch();

    /** A call has ended. */
    record Ended(ObjectOperation operation, long epoch, StoreCall call, StoreResult result)
        implements Event {}

    /** A worker has done its work. */
    record Worked(ObjectOperation operation, long epoch, Outcome outcome) implements Event {}
  }

  /**
   * The result of a piece of work.
   *
   * @param call the put that was begun; null for none
   */
  record Outcome(Status status, @Nullable StoreCall call) {}

  /** Work that takes a processor some time. The operation belongs to the work until it ends. */
  private interface Work {
    Outcome run();
  }

  /**
   * The means that a pipeline gives to its calls.
   *
   * @param encrypts whether objects are encrypted
   * @param hedgeAfterNs a load that has taken so long is begun a second time; 0 for never
   * @param wake wakes the pipeline's thread, which then looks for events
   * @param defect told of what workers threw, which they never should
   */
  record Means(
      BlockCodec codec,
      boolean encrypts,
      long hedgeAfterNs,
      LongSupplier clock,
      Executor workers,
      Runnable wake,
      Consumer<Throwable> defect) {}

  private final ObjectStore store;
  private final Means means;
  private final ObjectCounters counters;
  private final ConcurrentLinkedQueue<Event> events = new ConcurrentLinkedQueue<>();
  private final SpareSlots spares = new SpareSlots();
  private volatile boolean ended;

  ObjectCalls(ObjectStore store, Means means, ObjectCounters counters) {
    this.store = store;
    this.means = means;
    this.counters = counters;
  }

  String storeName() {
    return store.describe();
  }

  /** The next event, or null. */
  @Nullable Event poll() {
    return events.poll();
  }

  boolean hasEvents() {
    return !events.isEmpty();
  }

  // ---- stores
  // ------------------------------------------------------------------------------------------------

  /**
   * Seals the block, unless an earlier try did, and begins to put it.
   *
   * @param ifAbsent whether an object that is there stays
   * @return null where a worker does it
   */
  @Nullable Outcome put(ObjectOperation operation, boolean ifAbsent) {
    operation.state = ObjectOperation.State.SEALING;
    // The client signs all bytes where the way to the store is not encrypted.
    return work(
        operation,
        means.codec.id() != ObjectBlock.NOT_ENCODED
            || means.encrypts
            || operation.transfer().length > QUICK_BYTES,
        () -> sealAndPut(operation, ifAbsent));
  }

  private Outcome sealAndPut(ObjectOperation operation, boolean ifAbsent) {
    if (!operation.sealed) {
      Status status = operation.block.seal(operation.transfer(), means.codec);
      if (status != Status.OK) {
        return new Outcome(status, null);
      }
      operation.sealed = true;
    }
    long now = means.clock.getAsLong();
    long timeoutNs = operation.deadlineNs - now;
    if (timeoutNs <= 0) {
      return new Outcome(Status.DEADLINE, null);
    }
    operation.calledNs = now;
    return new Outcome(
        Status.OK, store.put(operation.name, operation.block.parts(), ifAbsent, timeoutNs));
  }

  /** A put was begun: its end will be an event. */
  void putBegan(ObjectOperation operation, StoreCall call) {
    operation.state = ObjectOperation.State.CALLING;
    operation.call = call;
    listen(operation, call);
  }

  // ---- loads
  // ------------------------------------------------------------------------------------------------

  /** Begins to get the object, into the slab or into a spare slot. */
  void get(ObjectOperation operation, long nowNs) {
    if (operation.isAside()) {
      operation.block.expect(operation.aside.asSlice(0, operation.transfer().length));
    } else {
      operation.block.expect(operation.transfer());
    }
    operation.state = ObjectOperation.State.CALLING;
    operation.calledNs = nowNs;
    operation.call = get(operation, operation.block, nowNs);
    listen(operation, operation.call);
  }

  private StoreCall get(ObjectOperation operation, ObjectBlock block, long nowNs) {
    return store.get(
        operation.name, 0, block.parts(), block.newDigest(), operation.deadlineNs - nowNs);
  }

  /** When a load is due for a second call; {@link Long#MAX_VALUE} where it will have none. */
  long hedgeNs(ObjectOperation operation) {
    return means.hedgeAfterNs > 0
            && operation.state == ObjectOperation.State.CALLING
            && operation.isLoad()
            && operation.hedgeCall == null
            && !operation.isAside()
            && !operation.trying
        ? operation.calledNs + means.hedgeAfterNs
        : Long.MAX_VALUE;
  }

  /** Whether there is memory for a read that does not go to the slab. */
  boolean hasSpareSlot() {
    return !spares.isEmpty();
  }

  /** Begins a second call beside the first. */
  void hedge(ObjectOperation operation, long nowNs) {
    MemorySegment slot = spares.take(operation.transfer().length);
    counters.add(ObjectCounter.HEDGES, 1);
    operation.hedgeSlot = slot;
    operation.hedgeBlock.expect(slot.asSlice(0, operation.transfer().length));
    operation.hedgeCall = get(operation, operation.hedgeBlock, nowNs);
    listen(operation, operation.hedgeCall);
  }

  /** Makes the next get of an operation read into memory that no client can write. */
  void turnAside(ObjectOperation operation) {
    operation.aside = spares.take(operation.transfer().length);
  }

  /**
   * Opens the object that was read.
   *
   * @return null where a worker does it
   */
  @Nullable Outcome open(ObjectOperation operation, long bytes) {
    operation.state = ObjectOperation.State.OPENING;
    return work(
        operation,
        operation.block.takesTime(bytes),
        () -> new Outcome(operation.open(bytes), null));
  }

  // ---- ends
  // ------------------------------------------------------------------------------------------------

  /** The first call has brought nothing, and the second is under way. */
  void dropFirst(ObjectOperation operation) {
    operation.call = null;
  }

  /** The second call has brought nothing, and the first is under way. */
  void dropHedge(ObjectOperation operation) {
    operation.hedgeCall = null;
    returnHedgeSlot(operation);
  }

  /** The second call came first: takes what it read, and cancels the first call. */
  void takeHedge(ObjectOperation operation) {
    cancel(operation.call);
    operation.takeHedge();
    counters.add(ObjectCounter.HEDGES_WON, 1);
  }

  /** Cancels both calls. */
  static void cancel(ObjectOperation operation) {
    cancel(operation.call);
    cancel(operation.hedgeCall);
  }

  private static void cancel(@Nullable StoreCall call) {
    if (call != null) {
      call.cancel();
    }
  }

  /** No call of the operation is under way any more. */
  void endCall(ObjectOperation operation) {
    operation.call = null;
    dropHedge(operation);
  }

  /** The transfer has ended. */
  void endAside(ObjectOperation operation) {
    if (operation.isAside()) {
      spares.giveBack(operation.aside);
    }
  }

  private void returnHedgeSlot(ObjectOperation operation) {
    if (operation.hedgeSlot.byteSize() > 0) {
      spares.giveBack(operation.hedgeSlot);
      operation.hedgeSlot = MemorySegment.NULL;
    }
  }

  /** Nobody takes outcomes of work any more. */
  void end() {
    ended = true;
  }

  /** Cancels calls after the pipeline's thread has ended. */
  void cancel(List<ObjectOperation> active) {
    for (ObjectOperation operation : active) {
      cancel(operation);
    }
  }

  /** Cancels the puts that workers began after the end; when the workers have ended. */
  void cancelLatePuts() {
    for (Event event = events.poll(); event != null; event = events.poll()) {
      if (event instanceof Event.Worked worked) {
        cancel(worked.outcome().call());
      }
    }
  }

  // ---- other threads
  // ------------------------------------------------------------------------------------------------

  /**
   * Runs work, on a worker if the work is long. Short work takes less time than two changes of
   * threads.
   *
   * @param isLong encodes, decodes, encrypts, decrypts, or reads many bytes
   */
  private @Nullable Outcome work(ObjectOperation operation, boolean isLong, Work toDo) {
    if (!isLong) {
      return toDo.run();
    }
    long epoch = operation.epoch;
    means.workers.execute(() -> {
      if (ended) {
        return;
      }
      try {
        events.add(new Event.Worked(operation, epoch, toDo.run()));
        means.wake.run();
      } catch (Throwable t) {
        means.defect.accept(t);
      }
    });
    return null;
  }

  private void listen(ObjectOperation operation, StoreCall call) {
    counters.add(ObjectCounter.CALLS, 1);
    long epoch = operation.epoch;
    call.whenEnded(result -> {
      events.add(new Event.Ended(operation, epoch, call, result));
      means.wake.run();
    });
  }
}
