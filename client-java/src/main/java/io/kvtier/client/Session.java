package io.kvtier.client;

import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One session with one daemon, from its welcome to its end: the requests in flight and what becomes
 * of them.
 *
 * <p>Any thread submits, and any thread that waits drains completions, its own and those of others;
 * both are done under one lock, held for the copying of a record or two. How they wait is {@link
 * Waiting}'s affair.
 *
 * <p>The mappings end when the session has ended and nothing uses them: each call in use, each set
 * of leases or reservations and the thread that watches the connection count as one use.
 */
final class Session {
  /** How long after its deadline an operation waits for the daemon's own answer. */
  static final long GRACE_NS = 50_000_000L;

  /**
   * The same where memory is the daemon's until it answers: only one that hangs takes that long.
   */
  private static final long COPY_GRACE_NS = 30_000_000_000L;

  private static final long ROOM_RETRY_NS = 20_000L;

  private final ReentrantLock lock = new ReentrantLock();
  private final Wires wires;
  private final Consumer<Batch> answered;
  private final MemorySegment region;
  private final RingConsumer completions;
  private final Waiting waiting;

  // Under the lock.
  private final RequestRing requests;
  private final Debts debts;
  private final CallTable calls = new CallTable();
  private final long[] oneId = new long[1];
  private int uses = 1;
  private int writers;

  private volatile boolean alive = true;
  private volatile String endText = "";
  private volatile long drained;
  private final AtomicInteger asyncCalls = new AtomicInteger();

  /**
   * A session over an open connection.
   *
   * @param answered takes asynchronous operations whose last call was answered; called under the
   *     lock
   * @param spinNs how long a waiting thread spins before it sleeps
   */
  Session(Wires wires, Consumer<Batch> answered, long spinNs) {
    this.wires = wires;
    this.answered = answered;
    this.region = wires.session().segment();
    this.completions = wires.session().completionConsumer();
    this.requests = new RequestRing(wires);
    this.debts = new Debts(requests);
    this.waiting = new Waiting(this, region, spinNs);
  }

  Wires wires() {
    return wires;
  }

  /** Whether the session goes on, as far as is known here. */
  boolean isAlive() {
    return alive;
  }

  /**
   * Whether what was read until now under leases counts: not once they have ended or the session
   * has, for their slots may hold other blocks since. The one rule for all readers. Only while the
   * session is in use.
   */
  boolean holdsLeases(long endNs) {
    return seemsToHoldLeases(endNs) && !isCutOff();
  }

  /**
   * As {@link #holdsLeases}, as far as words tell: the daemon says in one that it ended the
   * session. What counts in the end {@link #isCutOff} says, once for all that was read.
   */
  boolean seemsToHoldLeases(long endNs) {
    // The bytes were read before the words that vouch for them.
    Words.acquireFence();
    return System.nanoTime() - endNs < 0
        && alive
        && Words.getIntAcquire(region, SessionRegionDescriptor.END_REASON_OFFSET) == 0;
  }

  /**
   * Whether the daemon that gave leases may be gone: one that was killed says nothing, and the next
   * one, which goes on with its memory, knows nothing of them. A call to the kernel. Only while the
   * session is in use.
   */
  boolean isCutOff() {
    Words.acquireFence();
    return !alive || wires.socket().awaitHangup(0);
  }

  String endText() {
    return endText;
  }

  boolean hasAsyncCalls() {
    return asyncCalls.get() > 0;
  }

  // ---- submitting

  /**
   * Submits one call of a batch. Waits for room in the ring until the request's deadline, draining
   * meanwhile.
   *
   * @param publish whether the daemon shall see it now, and with it all submitted before
   */
  void submit(Request request, Batch batch, int index, boolean publish) {
    while (true) {
      lock.lock();
      try {
        if (!alive) {
          answer(
              batch, index, Call.local(request.verb, request.count, Status.UNAVAILABLE, endText));
          return;
        }
        Call call = trySubmit(request);
        if (call != null) {
          batch.calls[index] = call;
          call.batch = batch;
          call.batchIndex = index;
          if (batch.isAsync()) {
            asyncCalls.incrementAndGet();
          }
          if (publish) {
            requests.publish();
          }
          return;
        }
        requests.publish();
        drain();
        if (System.nanoTime() - request.deadlineNs >= 0) {
          answer(
              batch,
              index,
              Call.local(request.verb, request.count, Status.BUSY, "the request ring is full"));
          return;
        }
      } finally {
        lock.unlock();
      }
      LockSupport.parkNanos(ROOM_RETRY_NS);
    }
  }

  /**
   * Submits a call without a batch and without waiting for room; null where there is none or the
   * session is over.
   */
  @Nullable Call submit(Request request, boolean publish) {
    lock.lock();
    try {
      if (!alive) {
        return null;
      }
      Call call = trySubmit(request);
      if (publish || call == null) {
        requests.publish();
      }
      return call;
    } finally {
      lock.unlock();
    }
  }

  /** Shows the daemon what was submitted and not published. */
  void flush() {
    lock.lock();
    try {
      if (alive) {
        requests.publish();
      }
    } finally {
      lock.unlock();
    }
  }

  private @Nullable Call trySubmit(Request request) {
    try {
      debts.pay();
      Call call = calls.take();
      if (call == null) {
        return null;
      }
      if (!requests.write(request, call.id)) {
        calls.free(call);
        return null;
      }
      call.verb = request.verb;
      call.expected = request.count;
      call.context = request.context;
      call.limitNs = request.deadlineNs + (request.region == 0 ? GRACE_NS : COPY_GRACE_NS);
      call.state(Call.WAITING);
      uses++;
      return call;
    } catch (ProtocolViolation e) {
      end(e);
      return null;
    }
  }

  /**
   * A request will come in some tens of microseconds: a daemon that sleeps shall be awake by then.
   */
  void announce() {
    lock.lock();
    try {
      if (alive) {
        requests.ring();
      }
    } finally {
      lock.unlock();
    }
  }

  /**
   * Ends holds without asking for an answer. Never waits: what finds no room is sent later.
   *
   * @param verb RELEASE or ABORT
   */
  void giveBack(Verb verb, long[] ids, int count) {
    giveBack(verb, 0, ids, count, null);
  }

  /**
   * The same of leases on blocks whose bytes were seen not to match their checksums.
   *
   * @param context what they were acquired in: it names their reader
   */
  void giveBackCorrupt(long[] ids, int count, @Nullable TraceContext context) {
    giveBack(Verb.RELEASE, RequestDescriptor.FLAG_CORRUPT, ids, count, context);
  }

  private void giveBack(
      Verb verb, int flags, long[] ids, int count, @Nullable TraceContext context) {
    lock.lock();
    try {
      if (alive) {
        debts.owe(verb, flags, ids, count, context);
        requests.publish();
      }
    } catch (ProtocolViolation e) {
      end(e);
    } finally {
      lock.unlock();
    }
  }

  /**
   * Asks the daemon to give up what still waits of a batch; its calls are answered all the same.
   */
  void cancel(Batch batch) {
    lock.lock();
    try {
      for (Call call : batch.calls) {
        if (alive && call != null && call.batch == batch && call.state() == Call.WAITING) {
          debts.cancel(call.id);
        }
      }
      requests.publish();
    } catch (ProtocolViolation e) {
      end(e);
    } finally {
      lock.unlock();
    }
  }

  // ---- completions

  /** Whether the daemon has published more than was drained here. */
  private boolean hasMore() {
    return Words.getLongAcquire(region, SessionRegionDescriptor.COMPLETION_TAIL_OFFSET) != drained;
  }

  /** Takes the completions that are there. Only while the session is in use. */
  void poll() {
    if (hasMore()) {
      lock.lock();
      try {
        drain();
      } finally {
        lock.unlock();
      }
    }
  }

  /**
   * As {@link #poll}, with the lock in any case: whoever drains now may be completing what the
   * caller waits for.
   */
  void drainFully() {
    lock.lock();
    try {
      drain();
    } finally {
      lock.unlock();
    }
  }

  private void drain() {
    if (!alive) {
      return;
    }
    try {
      long taken = 0;
      while (completions.hasNext()) {
        int bytes = completions.recordBytes();
        complete(completions.offset(), bytes);
        completions.skip(bytes);
        taken += bytes;
      }
      if (taken > 0) {
        long before = drained;
        drained = before + taken;
        completions.release();
        debts.pay();
        requests.publish();
        // A daemon that slept for want of room for completions has left requests in the ring.
        if (requests.hasUnread()) {
          requests.ring();
        }
      }
    } catch (ProtocolViolation e) {
      end(e);
    }
  }

  private void complete(long offset, int recordBytes) throws ProtocolViolation {
    long id = Words.getLong(region, offset + CompletionDescriptor.CORRELATION_OFFSET);
    Call call = calls.of(id);
    if (call == null || (call.state() != Call.WAITING && call.state() != Call.ABANDONED)) {
      throw new ProtocolViolation("completion of request " + id + ", which is not in flight");
    }
    call.read(region, offset, recordBytes);
    settle(call);
  }

  /** A call has its answer. */
  private void settle(Call call) throws ProtocolViolation {
    if (call.state() == Call.ABANDONED) {
      giveBackGrants(call);
      freeOne(call);
      return;
    }
    tell(call);
  }

  /** Whoever waits for a call hears that it has its answer. */
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

  /** Answers a call of a batch in the daemon's place. */
  private void answer(Batch batch, int index, Call local) {
    batch.calls[index] = local;
    if (batch.isAsync() && batch.closeOne()) {
      answered.accept(batch);
    }
  }

  /**
   * Ends the lease that a call was granted, without asking for an answer, and gives back the call.
   *
   * @param corrupt whether the block's bytes were seen not to match their checksum
   */
  void release(Call call, boolean corrupt) {
    lock.lock();
    try {
      oneId[0] = call.holdId(0);
      if (corrupt) {
        giveBackCorrupt(oneId, 1, call.context);
      } else {
        giveBack(Verb.RELEASE, oneId, 1);
      }
      freeOne(call);
    } finally {
      lock.unlock();
    }
  }

  /** Gives a call back whose answer is read. */
  void free(Call answeredCall) {
    if (answeredCall.slot >= 0) {
      lock.lock();
      try {
        freeOne(answeredCall);
      } finally {
        lock.unlock();
      }
    }
  }

  /** Gives calls back whose answers are read. */
  void free(Call[] answeredCalls, int count) {
    lock.lock();
    try {
      for (int i = 0; i < count; i++) {
        if (answeredCalls[i].slot >= 0) {
          freeOne(answeredCalls[i]);
        }
      }
    } finally {
      lock.unlock();
    }
  }

  private void freeOne(Call call) {
    call.reset();
    calls.free(call);
    endUse();
  }

  // ---- waiting

  /** Waits for all calls of a batch. */
  Batch await(Batch batch) {
    for (int i = 0; i < batch.calls.length; i++) {
      batch.calls[i] = await(batch.calls[i]);
    }
    return batch;
  }

  /** See {@link Waiting#await}. */
  Call await(Call call) {
    return waiting.await(call);
  }

  /** See {@link Waiting#awaitAsync}. */
  void awaitAsync(BooleanSupplier stop) {
    waiting.awaitAsync(stop);
  }

  /** The client's own end of an operation that the daemon did not answer in time. */
  Call giveUp(Call call) {
    lock.lock();
    try {
      drain();
      return call.isDone() ? call : abandon(call);
    } finally {
      lock.unlock();
    }
  }

  private Call abandon(Call call) {
    Call local =
        Call.local(
            call.verb,
            call.expected,
            Status.DEADLINE,
            "the daemon did not answer before the deadline");
    call.state(Call.ABANDONED);
    call.batch = null;
    try {
      debts.cancel(call.id);
      requests.publish();
    } catch (ProtocolViolation e) {
      end(e);
    }
    return local;
  }

  /** Answers asynchronous calls whose limit has passed. */
  void giveUpLate() {
    long now = System.nanoTime();
    lock.lock();
    try {
      drain();
      for (int i = 0; i < calls.count() && hasAsyncCalls(); i++) {
        Call call = calls.at(i);
        Batch batch = call.batch;
        if (call.state() == Call.WAITING
            && batch != null
            && batch.isAsync()
            && now - call.limitNs >= 0) {
          asyncCalls.decrementAndGet();
          answer(batch, call.batchIndex, abandon(call));
        }
      }
    } finally {
      lock.unlock();
    }
  }

  // ---- the end

  /**
   * Somebody is going to write to slots: while he does, the connection stays, as its end would give
   * the slots to others. False when the session has ended, and the slots may be others' already.
   */
  boolean beginWriting() {
    lock.lock();
    try {
      if (alive) {
        writers++;
      }
      return alive;
    } finally {
      lock.unlock();
    }
  }

  /** What was written is written. Only while the session is in use. */
  void endWriting() {
    lock.lock();
    try {
      if (--writers == 0 && !alive) {
        wires.socket().shutdown();
      }
    } finally {
      lock.unlock();
    }
  }

  /**
   * Looks whether the daemon has ended the session, or itself. Only while the session is in use.
   */
  void lookForEnd() {
    int reason = Words.getIntAcquire(region, SessionRegionDescriptor.END_REASON_OFFSET);
    if (alive && (reason != 0 || wires.socket().awaitHangup(0))) {
      endWithReason();
    }
  }

  /** Counts one more use of the mappings; false when the session is gone altogether. */
  boolean beginUse() {
    lock.lock();
    try {
      if (uses == 0) {
        return false;
      }
      uses++;
      return true;
    } finally {
      lock.unlock();
    }
  }

  void endUse() {
    lock.lock();
    try {
      if (--uses == 0) {
        wires.close();
      }
    } finally {
      lock.unlock();
    }
  }

  /**
   * Ends the session with the reason that the daemon gave, if it gave one. Only while the session
   * is in use.
   */
  void endWithReason() {
    int reason = Words.getIntAcquire(region, SessionRegionDescriptor.END_REASON_OFFSET);
    end(
        reason == 0
            ? "the daemon has gone"
            : "the daemon ended the session: " + Status.of(reason - 1).meaning());
  }

  private void end(ProtocolViolation violation) {
    end("the daemon broke the protocol: " + violation.getMessage());
  }

  /**
   * Answers everything in flight with UNAVAILABLE, and everything new from now on. Hangs up, unless
   * somebody writes to slots: then the last of them does.
   */
  void end(String why) {
    lock.lock();
    try {
      if (!alive) {
        return;
      }
      endText = why;
      alive = false;
      for (int i = 0; i < calls.count(); i++) {
        Call call = calls.at(i);
        if (call.state() == Call.WAITING || call.state() == Call.ABANDONED) {
          boolean abandoned = call.state() == Call.ABANDONED;
          call.answerLocally(Status.UNAVAILABLE, why);
          if (abandoned) {
            freeOne(call);
          } else {
            tell(call);
          }
        }
      }
      debts.clear();
      waiting.wakeAll();
      if (writers == 0) {
        wires.socket().shutdown();
      }
    } finally {
      lock.unlock();
    }
  }

  /** The daemon's counters, read from its memory; empty when the session is over. */
  Map<String, Long> counters() {
    lock.lock();
    try {
      return alive ? wires.daemon().counters() : Map.of();
    } finally {
      lock.unlock();
    }
  }

  /** CLOCK_MONOTONIC ns of the daemon's last look round; 0 when the session is over. */
  long heartbeatNs() {
    lock.lock();
    try {
      return alive ? wires.daemon().heartbeatNs() : 0;
    } finally {
      lock.unlock();
    }
  }
}
