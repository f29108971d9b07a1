package io.kvtier.tiers.object;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TransferQueues;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Decides for each transfer of a pipeline what follows: when its call begins, whether it is tried
 * again, and how it ends. For the pipeline's thread.
 */
final class ObjectTries {
  private static final long NEVER_NS = Long.MAX_VALUE;

  private final ObjectLanes lanes;
  private final ObjectOperations operations;
  private final ObjectCalls calls;
  private final ObjectFindings findings;
  private final ObjectCounters counters;
  private final TransferQueues queues;
  private final LongSupplier clock;
  private final SplittableRandom random;
  private long dueNs;
  private boolean finishedAny;

  ObjectTries(
      ObjectLanes lanes,
      ObjectOperations operations,
      ObjectCalls calls,
      ObjectFindings findings,
      ObjectCounters counters,
      TransferQueues queues,
      LongSupplier clock) {
    this.lanes = lanes;
    this.operations = operations;
    this.calls = calls;
    this.findings = findings;
    this.counters = counters;
    this.queues = queues;
    this.clock = clock;
    long now = clock.getAsLong();
    random = new SplittableRandom(now);
    dueNs = now + NEVER_NS / 2;
  }

  /** When there is something to do even without an event. */
  long dueNs() {
    return dueNs;
  }

  private void dueBy(long timeNs) {
    if (timeNs - dueNs < 0) {
      dueNs = timeNs;
    }
  }

  // ---- beginnings
  // ------------------------------------------------------------------------------------------------

  /** Takes a transfer over. */
  void take(Transfer transfer) {
    ObjectOperation operation = operations.take();
    ObjectLane lane = transfer.kind == Transfer.Kind.LOAD ? lanes.loads() : lanes.stores();
    operation.begin(
        transfer,
        ObjectNames.ofBlock(
            transfer.namespaceHigh,
            transfer.namespaceLow,
            transfer.key,
            transfer.keyBytes,
            transfer.group),
        clock.getAsLong(),
        lane.timeoutNs);
    dueBy(operation.deadlineNs);
    lane.await(operation);
  }

  /**
   * Does what is due, and begins the calls that may begin.
   *
   * @return whether there was anything
   */
  boolean advance() {
    boolean any = false;
    long now = clock.getAsLong();
    if (dueNs - now <= 0) {
      any = true;
      onTime(now);
    }
    any |= begin(lanes.loads(), false);
    any |= begin(lanes.stores(), lanes.loads().hasWaiting());
    return any;
  }

  /** Wakes the collecting thread if transfers have ended. */
  void ringFinished() {
    if (finishedAny) {
      finishedAny = false;
      queues.ringFinished();
    }
  }

  /** Handles deadlines, rests that are over and loads to hedge, and computes when to look again. */
  private void onTime(long now) {
    dueNs = now + NEVER_NS / 2;
    for (ObjectOperation operation : List.copyOf(operations.active())) {
      if (operation.deadlineNs - now <= 0) {
        expire(operation);
        continue;
      }
      dueBy(operation.deadlineNs);
      if (operation.state == ObjectOperation.State.RESTING) {
        if (operation.wakesNs - now <= 0) {
          awaitAgain(operation);
        } else {
          dueBy(operation.wakesNs);
        }
      } else {
        long hedgeNs = calls.hedgeNs(operation);
        if (hedgeNs != NEVER_NS && hedgeNs - now > 0) {
          dueBy(hedgeNs);
        } else if (hedgeNs != NEVER_NS && calls.hasSpareSlot() && lanes.loads().budget.take()) {
          calls.hedge(operation, now);
        }
      }
    }
  }

  private void awaitAgain(ObjectOperation operation) {
    operation.state = ObjectOperation.State.WAITING;
    lanes.of(operation).awaitAgain(operation);
  }

  private void expire(ObjectOperation operation) {
    switch (operation.state) {
      case WAITING -> {
        lanes.of(operation).giveUp(operation);
        finish(operation, Status.DEADLINE);
      }
      case RESTING -> finish(operation, Status.DEADLINE);
      case CALLING -> onEnded(operation, operation.call, new StoreResult.Expired());
      // This process ends these in a moment, without the store.
      case SEALING, OPENING, FREE -> {}
    }
  }

  /**
   * Begins what the lane's bounds allow.
   *
   * @param last whether the other lane comes first: this one then has one call at a time
   */
  private boolean begin(ObjectLane lane, boolean last) {
    boolean any = false;
    while (lane.hasWaiting()) {
      long now = clock.getAsLong();
      if (lane.breaker.state(now) == CircuitBreaker.State.CLOSED) {
        if (!lane.hasRoom() || (last && lane.underWay() > 0)) {
          return any;
        }
        long wait = lane.cap.waitNs(now);
        if (wait > 0) {
          dueBy(now + wait);
          return any;
        }
      }
      ObjectOperation operation = lane.poll();
      if (operation == null) {
        return any;
      }
      any = true;
      if (lane.breaker.admit(now)) {
        operation.trying = lane.breaker.state(now) != CircuitBreaker.State.CLOSED;
        lane.cap.take(operation.transfer().length, now);
        lane.began();
        begin(operation, now);
      } else {
        counters.add(ObjectCounter.KEPT_AWAY, 1);
        finish(operation, operation.isLoad() ? Status.MISS : Status.IO_ERROR);
      }
    }
    return any;
  }

  private void begin(ObjectOperation operation, long now) {
    if (operation.tries++ == 0) {
      lanes.of(operation).budget.onFirstTry();
    }
    if (operation.isLoad()) {
      calls.get(operation, now);
      long hedgeNs = calls.hedgeNs(operation);
      if (hedgeNs != NEVER_NS) {
        dueBy(hedgeNs);
      }
    } else {
      onWorked(operation, calls.put(operation, !findings.isDamaged(operation)));
    }
  }

  // ---- events
  // ------------------------------------------------------------------------------------------------

  /** Handles an event. */
  void on(ObjectCalls.Event event) {
    if (event.operation().epoch != event.epoch()) {
      // The operation has another transfer now.
      return;
    }
    switch (event) {
      case ObjectCalls.Event.Ended(
              ObjectOperation operation,
              long _,
              StoreCall call,
              StoreResult result) -> {
        if (operation.state == ObjectOperation.State.CALLING
            && (call == operation.call || call == operation.hedgeCall)) {
          onEnded(operation, call, result);
        }
      }
      case ObjectCalls.Event.Worked(
              ObjectOperation operation,
              long _,
              ObjectCalls.Outcome outcome) ->
          onWorked(operation, outcome);
    }
  }

  private void onWorked(ObjectOperation operation, ObjectCalls.@Nullable Outcome outcome) {
    if (outcome == null) {
      // A worker has the operation.
      return;
    }
    Status status = outcome.status();
    StoreCall call = outcome.call();
    if (call != null) {
      calls.putBegan(operation, call);
    } else if (operation.state == ObjectOperation.State.SEALING) {
      leaveLane(operation);
      finish(operation, status);
    } else {
      onOpened(operation, status);
    }
  }

  private void onOpened(ObjectOperation operation, Status status) {
    if (status == Status.OK) {
      counters.add(ObjectCounter.LOADED, 1);
      counters.add(ObjectCounter.LOADED_BYTES, operation.transfer().length);
      findings.loaded(operation);
      finish(operation, Status.OK);
    } else if (status == Status.CORRUPT && !operation.isAside()) {
      lookAside(operation);
    } else if (status == Status.CORRUPT) {
      counters.add(ObjectCounter.CORRUPT, 1);
      // The damage may have happened on the way.
      if (!again(operation, 0)) {
        findings.damaged(operation);
        finish(operation, Status.CORRUPT);
      }
    } else {
      finish(operation, findings.leaveToOthers(operation, status, clock.getAsLong()));
    }
  }

  /**
   * Reads an object once more, at once, into memory that no client can write. If bytes in a slab do
   * not verify, the object may still be sound: a client may have written to the slab meanwhile.
   */
  private void lookAside(ObjectOperation operation) {
    if (!calls.hasSpareSlot()) {
      finish(operation, Status.IO_ERROR);
      return;
    }
    calls.turnAside(operation);
    operation.tries--;
    awaitAgain(operation);
  }

  private void onEnded(ObjectOperation operation, @Nullable StoreCall call, StoreResult result) {
    long now = clock.getAsLong();
    if (!isAnswer(result) && operation.deadlineNs - now > 0) {
      // The other of the two calls may still bring the object.
      if (call == operation.call && operation.hedgeCall != null) {
        calls.dropFirst(operation);
        return;
      }
      if (call == operation.hedgeCall && operation.call != null) {
        calls.dropHedge(operation);
        return;
      }
    }
    if (result instanceof StoreResult.Done && call == operation.hedgeCall && call != null) {
      calls.takeHedge(operation);
    } else {
      ObjectCalls.cancel(operation);
    }
    ObjectLane lane = lanes.of(operation);
    int underWay = lane.underWay();
    calls.endCall(operation);
    lane.ended();
    switch (result) {
      case StoreResult.Done(long bytes) -> {
        lane.answered();
        lane.limit.onDone(now - operation.calledNs, bytes, underWay, now);
        onDone(operation, bytes);
      }
      case StoreResult.Absent _ -> onAbsent(operation, now);
      case StoreResult.Present _ -> onPresent(operation, now);
      case StoreResult.Corrupt _ when isInOtherForm(operation) -> {
        lane.answered();
        finish(operation, Status.TOO_LARGE);
      }
      case StoreResult.Corrupt _ -> {
        lane.answered();
        counters.add(ObjectCounter.CORRUPT, 1);
        againOr(operation, 0, Status.CORRUPT);
      }
      case StoreResult.Denied _ -> {
        lane.log.refuses(result.words());
        lane.failed(result.words(), now);
        counters.add(ObjectCounter.DENIED, 1);
        finish(operation, Status.DENIED);
      }
      case StoreResult.Throttled(long retryAfterNs) -> {
        lane.failed(result.words(), now);
        lane.limit.onRefused(now);
        counters.add(ObjectCounter.THROTTLED, 1);
        againOr(operation, retryAfterNs, Status.IO_ERROR);
      }
      case StoreResult.Unavailable _ -> {
        lane.failed(result.words(), now);
        counters.add(ObjectCounter.UNAVAILABLE, 1);
        againOr(operation, 0, Status.IO_ERROR);
      }
      case StoreResult.Expired _, StoreResult.Cancelled _ -> {
        lane.failed(result.words(), now);
        lane.limit.onRefused(now);
        counters.add(ObjectCounter.EXPIRED, 1);
        finish(operation, Status.DEADLINE);
      }
      case StoreResult.Page _ ->
          throw new IllegalStateException(calls.storeName() + " answered a get or put with a list");
    }
  }

  private static boolean isAnswer(StoreResult result) {
    return result instanceof StoreResult.Done || result instanceof StoreResult.Absent;
  }

  private void onDone(ObjectOperation operation, long bytes) {
    if (operation.isLoad()) {
      onWorked(operation, calls.open(operation, bytes));
    } else {
      counters.add(ObjectCounter.STORED, 1);
      counters.add(ObjectCounter.STORED_BYTES, bytes);
      findings.stored(operation);
      finish(operation, Status.OK);
    }
  }

  private void onPresent(ObjectOperation operation, long now) {
    ObjectLane lane = lanes.of(operation);
    if (operation.isLoad()) {
      // This is never an answer to a get.
      lane.failed("it answers a get as if it were a put", now);
      counters.add(ObjectCounter.UNAVAILABLE, 1);
      finish(operation, Status.IO_ERROR);
    } else if (findings.isOthers(operation)) {
      // After OK the block would be dropped elsewhere, and this node could not read it.
      lane.answered();
      counters.add(ObjectCounter.LEFT_TO_OTHERS, 1);
      finish(operation, Status.DENIED);
    } else {
      lane.answered();
      counters.add(ObjectCounter.PRESENT, 1);
      findings.present(operation);
      finish(operation, Status.OK);
    }
  }

  private void onAbsent(ObjectOperation operation, long now) {
    ObjectLane lane = lanes.of(operation);
    if (operation.isLoad()) {
      lane.answered();
      counters.add(ObjectCounter.ABSENT, 1);
      findings.absent(operation);
      finish(operation, Status.MISS);
    } else {
      String why = "it answers a put by saying that there is no such object";
      lane.log.refuses(why);
      lane.failed(why, now);
      counters.add(ObjectCounter.UNAVAILABLE, 1);
      finish(operation, Status.IO_ERROR);
    }
  }

  // ---- ends
  // ------------------------------------------------------------------------------------------------

  /** Whether the store has sent too much because the block has another form, which is longer. */
  private static boolean isInOtherForm(ObjectOperation operation) {
    return operation.isLoad() && operation.block.isInOtherForm(operation.transfer());
  }

  private void againOr(ObjectOperation operation, long atLeastNs, Status otherwise) {
    if (!again(operation, atLeastNs)) {
      finish(operation, otherwise);
    }
  }

  /** Tries again later, if tries, budget and deadline allow it. */
  private boolean again(ObjectOperation operation, long atLeastNs) {
    long now = clock.getAsLong();
    ObjectLane lane = lanes.of(operation);
    if (!lane.mayTryAgain(operation.tries, now)) {
      return false;
    }
    long rest = atLeastNs + 1 + lane.restNs(operation.tries, random);
    if (now + rest - operation.deadlineNs >= 0 || !lane.budget.take()) {
      return false;
    }
    counters.add(ObjectCounter.RETRIES, 1);
    operation.state = ObjectOperation.State.RESTING;
    operation.wakesNs = now + rest;
    dueBy(operation.wakesNs);
    return true;
  }

  private void leaveLane(ObjectOperation operation) {
    ObjectLane lane = lanes.of(operation);
    if (operation.trying) {
      lane.breaker.onNothingLearnt();
    }
    lane.ended();
  }

  private void finish(ObjectOperation operation, Status status) {
    Transfer transfer = operation.transfer();
    transfer.status = status;
    transfer.elapsedNs = clock.getAsLong() - operation.beganNs;
    calls.endAside(operation);
    operations.giveBack(operation);
    finishedAny = true;
    queues.finish(transfer);
  }
}
