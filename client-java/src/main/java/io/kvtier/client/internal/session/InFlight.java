package io.kvtier.client.internal.session;

import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The calls of a session from their submission until they are read, and what becomes of each: the
 * daemon answers it, its limit passes, or the session ends. Under the session's lock, where a
 * method does not say otherwise.
 */
final class InFlight {
  /** How long after its deadline an operation waits for the daemon's own answer. */
  private static final long GRACE_NS = 50_000_000L;

  /**
   * How long after its deadline a copy waits for the daemon's answer. The memory is the daemon's
   * until then, so that only a daemon that hangs takes that long.
   */
  private static final long COPY_GRACE_NS = 30_000_000_000L;

  private final CallTable calls = new CallTable();
  private final Consumer<Batch> answered;
  private final Debts debts;
  private final Lifetime lifetime;
  private final AtomicInteger asyncCalls = new AtomicInteger();

  /**
   * No calls yet.
   *
   * @param answered takes asynchronous operations whose last call was answered
   */
  InFlight(Consumer<Batch> answered, Debts debts, Lifetime lifetime) {
    this.answered = answered;
    this.debts = debts;
    this.lifetime = lifetime;
  }

  /** Whether asynchronous calls are in flight. Without the lock. */
  boolean hasAsyncCalls() {
    return asyncCalls.get() > 0;
  }

  /** A call for a request that is about to be written; null when all are in flight. */
  @Nullable Call take() {
    return calls.take();
  }

  /** Takes back a call whose request was not written. */
  void putBack(Call call) {
    calls.free(call);
  }

  /** The request of a call was written. */
  void begin(Call call, Request request) {
    call.verb = request.verb;
    call.expected = request.count;
    call.context = request.context;
    call.limitNs = request.deadlineNs + (request.region == 0 ? GRACE_NS : COPY_GRACE_NS);
    call.state(Call.WAITING);
    lifetime.addUse();
  }

  /** Makes a call that has begun a part of a batch. */
  void join(Batch batch, int index, Call call) {
    batch.call(index, call);
    call.batch = batch;
    call.batchIndex = index;
    if (batch.isAsync()) {
      asyncCalls.incrementAndGet();
    }
  }

  /** Answers a call of a batch in the daemon's place. */
  void answer(Batch batch, int index, Call local) {
    batch.call(index, local);
    if (batch.isAsync() && batch.closeOne()) {
      answered.accept(batch);
    }
  }

  /** Takes the completion at an offset of the session's memory. */
  void complete(MemorySegment region, long offset, int recordBytes) throws ProtocolViolation {
    long id = Words.getLong(region, offset + CompletionDescriptor.CORRELATION_OFFSET);
    Call call = calls.of(id);
    if (call == null || (call.state() != Call.WAITING && call.state() != Call.ABANDONED)) {
      throw new ProtocolViolation("completion of request " + id + ", which is not in flight");
    }
    call.read(region, offset, recordBytes);
    if (call.state() == Call.ABANDONED) {
      giveBackGrants(call);
      free(call);
    } else {
      tell(call);
    }
  }

  /** Tells the thread or the receiver that waits for a call that it has its answer. */
  private void tell(Call call) {
    call.state(Call.DONE);
    Batch batch = call.batch;
    if (batch != null && batch.isAsync()) {
      asyncCalls.decrementAndGet();
      if (batch.closeOne()) {
        answered.accept(batch);
      }
      return;
    }
    Thread waiter = call.waiter();
    if (waiter != null) {
      LockSupport.unpark(waiter);
    }
  }

  /** Gives back what the answer to an abandoned call grants. */
  private void giveBackGrants(Call call) throws ProtocolViolation {
    Verb back =
        switch (call.verb) {
          case ACQUIRE -> Verb.RELEASE;
          case RESERVE -> Verb.ABORT;
          default -> Verb.PING;
        };
    if (back == Verb.PING || call.status != Status.OK) {
      return;
    }
    long[] ids = new long[call.expected];
    int granted = 0;
    for (int i = 0; i < call.expected; i++) {
      if (call.blockStatus(i) == Status.OK) {
        ids[granted++] = call.holdId(i);
      }
    }
    debts.owe(back, 0, ids, granted, null);
  }

  /** Asks the daemon to give up the calls of a batch that still wait. */
  void cancel(Batch batch) throws ProtocolViolation {
    for (Call call : batch.array()) {
      if (call != null && batch.equals(call.batch) && call.state() == Call.WAITING) {
        debts.cancel(call.id);
      }
    }
  }

  /**
   * Gives up a call that the daemon did not answer in time.
   *
   * @return the client's own answer
   */
  Call abandon(Call call) {
    Call local =
        Call.local(
            call.verb,
            call.expected,
            Status.DEADLINE,
            "the daemon did not answer before the deadline");
    call.state(Call.ABANDONED);
    call.batch = null;
    return local;
  }

  /** Answers asynchronous calls whose limit has passed, and asks the daemon to give them up. */
  void giveUpLate(long nowNs) throws ProtocolViolation {
    for (int i = 0; i < calls.count() && hasAsyncCalls(); i++) {
      Call call = calls.at(i);
      Batch batch = call.batch;
      if (call.state() == Call.WAITING
          && batch != null
          && batch.isAsync()
          && nowNs - call.limitNs >= 0) {
        asyncCalls.decrementAndGet();
        answer(batch, call.batchIndex, abandon(call));
        debts.cancel(call.id);
      }
    }
  }

  /** Answers all calls in flight: the session has ended. */
  void end(String why) {
    for (int i = 0; i < calls.count(); i++) {
      Call call = calls.at(i);
      if (call.state() == Call.WAITING || call.state() == Call.ABANDONED) {
        boolean abandoned = call.state() == Call.ABANDONED;
        call.answerLocally(Status.UNAVAILABLE, why);
        if (abandoned) {
          free(call);
        } else {
          tell(call);
        }
      }
    }
  }

  /** Gives back a call whose answer is read. */
  void free(Call call) {
    call.reset();
    calls.free(call);
    lifetime.endUse();
  }
}
