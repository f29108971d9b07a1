package io.kvtier.client.internal.session;

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
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One session with one daemon, from its welcome to its end: requests go out, completions come in.
 * {@link InFlight} keeps the calls, {@link Lifetime} says how long the session and its mappings
 * stay, and {@link Waiting} says how threads wait.
 *
 * <p>Any thread submits. Any thread that waits drains completions, its own and those of others.
 * Both are done under one lock, held while a record or two are copied.
 */
public final class Session {
  private static final long ROOM_RETRY_NS = 20_000L;

  private final ReentrantLock lock = new ReentrantLock();
  private final Wires wires;
  private final MemorySegment region;
  private final RingConsumer completions;
  private final Waiting waiting;
  private final Lifetime lifetime;

  // Under the lock.
  private final RequestRing requests;
  private final Debts debts;
  private final InFlight calls;
  private final long[] oneId = new long[1];

  private volatile long drained;

  /**
   * A session over an open connection.
   *
   * @param answered takes asynchronous operations whose last call was answered; called under the
   *     lock
   * @param spinNs how long a waiting thread spins before it sleeps
   */
  Session(Wires wires, Consumer<Batch> answered, long spinNs) {
    this.wires = wires;
    this.region = wires.session().segment();
    this.completions = wires.session().completionConsumer();
    this.requests = new RequestRing(wires);
    this.debts = new Debts(requests);
    this.waiting = new Waiting(this, region, new Spinning(spinNs, wires.daemon()::isIndexHere));
    this.lifetime = new Lifetime(lock, wires);
    this.calls = new InFlight(answered, debts, lifetime);
  }

  public Wires wires() {
    return wires;
  }

  public Lifetime lifetime() {
    return lifetime;
  }

  /** Whether the session goes on, as far as this process knows. */
  public boolean isAlive() {
    return lifetime.isAlive();
  }

  /** Why the session ended; empty while it goes on. */
  String endText() {
    return lifetime.endText();
  }

  boolean hasAsyncCalls() {
    return calls.hasAsyncCalls();
  }

  // ---- submitting

  /**
   * Submits one call of a batch. Waits for room in the ring until the request's deadline, draining
   * meanwhile.
   *
   * @param publish whether the daemon shall see now what was submitted until now
   */
  public void submit(Request request, Batch batch, int index, boolean publish) {
    while (true) {
      lock.lock();
      try {
        if (!lifetime.isAlive()) {
          refuse(request, batch, index, Status.UNAVAILABLE, lifetime.endText());
          return;
        }
        Call call = trySubmit(request);
        if (call != null) {
          calls.join(batch, index, call);
          if (publish) {
            requests.publish();
          }
          return;
        }
        requests.publish();
        drain();
        if (System.nanoTime() - request.deadlineNs >= 0) {
          refuse(request, batch, index, Status.BUSY, "the request ring is full");
          return;
        }
      } finally {
        lock.unlock();
      }
      LockSupport.parkNanos(ROOM_RETRY_NS);
    }
  }

  private void refuse(Request request, Batch batch, int index, Status status, String why) {
    calls.answer(batch, index, Call.local(request.verb, request.count, status, why));
  }

  /**
   * Submits a call without a batch and without waiting for room; null where there is none or the
   * session is over.
   */
  public @Nullable Call submit(Request request, boolean publish) {
    lock.lock();
    try {
      if (!lifetime.isAlive()) {
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
  public void flush() {
    lock.lock();
    try {
      if (lifetime.isAlive()) {
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
        calls.putBack(call);
        return null;
      }
      calls.begin(call, request);
      return call;
    } catch (ProtocolViolation e) {
      end(e);
      return null;
    }
  }

  /** Wakes a sleeping daemon for a request that will come in some tens of microseconds. */
  public void announce() {
    lock.lock();
    try {
      if (lifetime.isAlive()) {
        requests.ring();
      }
    } finally {
      lock.unlock();
    }
  }

  // ---- giving back

  /**
   * Ends holds without asking for an answer. Never waits: what finds no room is sent later.
   *
   * @param verb RELEASE or ABORT
   */
  public void giveBack(Verb verb, long[] ids, int count) {
    giveBack(verb, 0, ids, count, null);
  }

  /**
   * Ends leases on blocks whose bytes do not match their checksums, without asking for an answer.
   *
   * @param context the trace context of the acquire: it names the reader
   */
  public void giveBackCorrupt(long[] ids, int count, @Nullable TraceContext context) {
    giveBack(Verb.RELEASE, RequestDescriptor.FLAG_CORRUPT, ids, count, context);
  }

  private void giveBack(
      Verb verb, int flags, long[] ids, int count, @Nullable TraceContext context) {
    lock.lock();
    try {
      if (lifetime.isAlive()) {
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
   * Ends the lease that a call was granted, without asking for an answer, and gives back the call.
   *
   * @param corrupt whether the block's bytes do not match their checksum
   */
  public void release(Call call, boolean corrupt) {
    lock.lock();
    try {
      oneId[0] = call.holdId(0);
      if (corrupt) {
        giveBackCorrupt(oneId, 1, call.context);
      } else {
        giveBack(Verb.RELEASE, oneId, 1);
      }
      calls.free(call);
    } finally {
      lock.unlock();
    }
  }

  /** Gives back a call whose answer is read. */
  public void free(Call answered) {
    if (answered.slot >= 0) {
      lock.lock();
      try {
        calls.free(answered);
      } finally {
        lock.unlock();
      }
    }
  }

  /** Gives back calls whose answers are read. */
  public void free(Call[] answered, int count) {
    lock.lock();
    try {
      for (int i = 0; i < count; i++) {
        if (answered[i].slot >= 0) {
          calls.free(answered[i]);
        }
      }
    } finally {
      lock.unlock();
    }
  }

  /** Gives back the calls of a batch whose answers are read. */
  public void free(Batch answered) {
    free(answered.array(), answered.calls());
  }

  /** Asks the daemon to give up what still waits of a batch. It answers the calls all the same. */
  public void cancel(Batch batch) {
    lock.lock();
    try {
      if (lifetime.isAlive()) {
        calls.cancel(batch);
        requests.publish();
      }
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
  public void poll() {
    if (hasMore()) {
      drainFully();
    }
  }

  /**
   * Takes the completions that are there, with the lock in any case: a thread that drains now may
   * complete what the caller waits for.
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
    if (!lifetime.isAlive()) {
      return;
    }
    try {
      long taken = 0;
      while (completions.hasNext()) {
        int bytes = completions.recordBytes();
        calls.complete(region, completions.offset(), bytes);
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

  // ---- waiting

  /** Waits for all calls of a batch. */
  public void await(Batch batch) {
    Call[] some = batch.array();
    for (int i = 0; i < some.length; i++) {
      some[i] = await(some[i]);
    }
  }

  /** See {@link Waiting#await}. */
  public Call await(Call call) {
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
    Call local = calls.abandon(call);
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
    long nowNs = System.nanoTime();
    lock.lock();
    try {
      drain();
      calls.giveUpLate(nowNs);
      requests.publish();
    } catch (ProtocolViolation e) {
      end(e);
    } finally {
      lock.unlock();
    }
  }

  // ---- the end

  /** Ends the session if the daemon has ended it, or itself. Only while the session is in use. */
  void lookForEnd() {
    if (lifetime.isAlive() && lifetime.hasDaemonEnded()) {
      endWithReason();
    }
  }

  /** Ends the session with the daemon's reason, if there is one. Only while it is in use. */
  void endWithReason() {
    end(lifetime.daemonsReason());
  }

  private void end(ProtocolViolation violation) {
    end("the daemon broke the protocol: " + violation.getMessage());
  }

  /**
   * Answers everything in flight with UNAVAILABLE, and everything new from now on. Hangs up, or
   * leaves that to the last thread that writes to slots.
   */
  void end(String why) {
    lock.lock();
    try {
      if (lifetime.end(why)) {
        calls.end(why);
        debts.clear();
        waiting.wakeAll();
        lifetime.hangUp();
      }
    } finally {
      lock.unlock();
    }
  }

  // ---- the daemon's memory

  /** The daemon's counters, read from its memory; empty when the session is over. */
  public Map<String, Long> counters() {
    lock.lock();
    try {
      return lifetime.isAlive() ? wires.daemon().counters() : Map.of();
    } finally {
      lock.unlock();
    }
  }

  /** CLOCK_MONOTONIC ns of the daemon's last round; 0 when the session is over. */
  public long heartbeatNs() {
    lock.lock();
    try {
      return lifetime.isAlive() ? wires.daemon().heartbeatNs() : 0;
    } finally {
      lock.unlock();
    }
  }
}
