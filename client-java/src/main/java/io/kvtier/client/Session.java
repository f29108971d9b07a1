package io.kvtier.client;

import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.RingProducer;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.Words;
import io.kvtier.protocol.linux.Futex;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One session with one daemon, from its welcome to its end: the client's ends of the rings, the
 * requests in flight, and the ways to wait for them.
 *
 * <p>Any thread submits, and any thread that waits drains completions, its own and those of others;
 * both are done under one lock, held for the copying of a record or two. Waiting threads first spin
 * for some microseconds, looking at the ring's tail only. Then one of them, the <em>sleeper</em>,
 * sleeps on the futex that the daemon wakes; the others park until the sleeper has drained their
 * completions, or passes its place on.
 *
 * <p>No sleep is for ever: each lasts {@link #SLICE_NS} at most, after which the end of the session
 * is looked for.
 *
 * <p>The mappings end when the session has ended and nothing uses them: each call in use, each set
 * of leases or reservations and the thread that watches the connection count as one use.
 */
final class Session {
  /** How long after its deadline an operation waits for the daemon's own answer. */
  static final long GRACE_NS = 50_000_000L;

  private static final long SLICE_NS = 50_000_000L;
  private static final long ROOM_RETRY_NS = 20_000L;
  private static final int SLOT_BITS = 16;
  private static final int SLOT_MASK = (1 << SLOT_BITS) - 1;
  private static final int CALLS_MIN = 64;

  /** Ids to give back that found no room in the ring. */
  private static final class Owed {
    final Verb verb;
    final int flags;
    final long[] ids;

    Owed(Verb verb, int flags, long[] ids) {
      this.verb = verb;
      this.flags = flags;
      this.ids = ids;
    }
  }

  private final ReentrantLock lock = new ReentrantLock();
  private final Wires wires;
  private final Consumer<Batch> answered;
  private final long spinNs;
  private final MemorySegment region;
  private final RingProducer requests;
  private final RingConsumer completions;
  private final AtomicBoolean sleeping = new AtomicBoolean();
  private final Queue<Thread> followers = new ConcurrentLinkedQueue<>();

  // Under the lock.
  private final Request silent = new Request();
  private final long[] oneId = new long[1];
  private final Queue<Owed> owed = new ArrayDeque<>();
  private Call[] calls = new Call[CALLS_MIN];
  private int[] freeSlots = new int[CALLS_MIN];
  private int freeCount;
  private int callCount;
  private long sequence = 1;
  private boolean bellDue;
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
    this.spinNs = spinNs;
    this.region = wires.session().segment();
    this.requests = wires.session().requestProducer();
    this.completions = wires.session().completionConsumer();
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
   * has, for their slots may hold other blocks since. The one rule for all readers. Looks at the
   * word in which the daemon says that it ended the session. Only while the session is in use.
   */
  boolean holdsLeases(long endNs) {
    // The bytes were read before the words that vouch for them.
    Words.acquireFence();
    return System.nanoTime() - endNs < 0
        && alive
        && Words.getIntAcquire(region, SessionRegionDescriptor.END_REASON_OFFSET) == 0;
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
            publish();
          }
          return;
        }
        publish();
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
        publish();
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
        publish();
      }
    } finally {
      lock.unlock();
    }
  }

  private @Nullable Call trySubmit(Request request) {
    payOwed();
    Call call = takeCall();
    if (call == null) {
      return null;
    }
    long id = sequence++ << SLOT_BITS | call.slot;
    if (!write(request, id)) {
      freeSlots[freeCount++] = call.slot;
      return null;
    }
    call.id = id;
    call.verb = request.verb;
    call.expected = request.count;
    call.limitNs = request.deadlineNs + GRACE_NS;
    call.state(Call.WAITING);
    uses++;
    return call;
  }

  private @Nullable Call takeCall() {
    if (freeCount > 0) {
      return calls[freeSlots[--freeCount]];
    }
    if (callCount > SLOT_MASK) {
      return null;
    }
    if (callCount == calls.length) {
      calls = Arrays.copyOf(calls, callCount * 2);
      freeSlots = Arrays.copyOf(freeSlots, callCount * 2);
    }
    Call call = new Call(callCount);
    calls[callCount++] = call;
    return call;
  }

  private boolean write(Request request, long id) {
    long offset;
    int bytes = request.recordBytes();
    try {
      offset = requests.tryClaim(bytes);
    } catch (ProtocolViolation e) {
      end("the daemon broke the protocol: " + e.getMessage());
      return false;
    }
    if (offset < 0) {
      return false;
    }
    Keys keys = request.keys;
    Words.putInt(region, offset + RequestDescriptor.RECORD_BYTES_OFFSET, bytes);
    Words.putByte(region, offset + RequestDescriptor.VERB_OFFSET, request.verb.code());
    Words.putByte(region, offset + RequestDescriptor.FLAGS_OFFSET, request.flags);
    Words.putByte(region, offset + RequestDescriptor.PRIORITY_OFFSET, request.priority);
    Words.putByte(
        region, offset + RequestDescriptor.KEY_BYTES_OFFSET, keys == null ? 0 : keys.keyBytes());
    Words.putLong(region, offset + RequestDescriptor.CORRELATION_OFFSET, id);
    Words.putLong(region, offset + RequestDescriptor.DEADLINE_OFFSET, request.deadlineNs);
    Words.putInt(region, offset + RequestDescriptor.NAMESPACE_OFFSET, request.namespaceId);
    // The group, and the zero after it.
    Words.putInt(region, offset + RequestDescriptor.GROUP_OFFSET, request.group);
    Words.putInt(region, offset + RequestDescriptor.COUNT_OFFSET, request.count);
    Words.putInt(region, offset + RequestDescriptor.DEPTH_OFFSET, request.depth);
    Words.putLong(region, offset + RequestDescriptor.ARGUMENT_OFFSET, request.argument);
    Words.putLong(region, offset + RequestDescriptor.ARGUMENT_OFFSET + 8, 0);
    Words.putLong(region, offset + RequestDescriptor.ARGUMENT_OFFSET + 16, 0);
    request.writeBody(region, offset + RequestDescriptor.HEADER_BYTES);
    bellDue |= wantsBell(request);
    return true;
  }

  /**
   * Nobody waits for a silent RELEASE: a daemon that sleeps takes it when it next looks, within
   * milliseconds. Damage is told at once.
   */
  private static boolean wantsBell(Request request) {
    return request.verb != Verb.RELEASE
        || (request.flags & RequestDescriptor.FLAG_SILENT) == 0
        || (request.flags & RequestDescriptor.FLAG_CORRUPT) != 0;
  }

  private void publish() {
    if (requests.hasUnpublished()) {
      requests.publish();
      if (bellDue) {
        bellDue = false;
        ringIfWaiting();
      }
    }
  }

  /**
   * A request will come in some tens of microseconds: a daemon that sleeps shall be awake by then.
   */
  void announce() {
    lock.lock();
    try {
      if (alive) {
        ringIfWaiting();
      }
    } finally {
      lock.unlock();
    }
  }

  private void ringIfWaiting() {
    Words.fullFence();
    if (Words.getIntAcquire(wires.daemon(), DaemonRegionDescriptor.INDEX_WAITING_OFFSET) == 1) {
      wires.doorbell().ring();
    }
  }

  /**
   * Ends holds without asking for an answer. Never waits: what finds no room is sent later.
   *
   * @param verb RELEASE or ABORT
   * @param flags {@link RequestDescriptor#FLAG_CORRUPT}, or 0
   */
  void giveBack(Verb verb, int flags, long[] ids, int count) {
    lock.lock();
    try {
      if (alive) {
        owe(verb, flags, ids, count);
        publish();
      }
    } finally {
      lock.unlock();
    }
  }

  private void owe(Verb verb, int flags, long[] ids, int count) {
    payOwed();
    for (int from = 0; from < count; from += Protocol.KEYS_MAX) {
      int some = Math.min(Protocol.KEYS_MAX, count - from);
      if (!owed.isEmpty() || !writeSilent(verb, flags, ids, from, some)) {
        owed.add(new Owed(verb, flags, Arrays.copyOfRange(ids, from, from + some)));
      }
    }
  }

  private boolean writeSilent(Verb verb, int flags, long[] ids, int from, int count) {
    silent.verb = verb;
    silent.flags = flags | RequestDescriptor.FLAG_SILENT;
    silent.argument = 0;
    silent.ids = ids;
    silent.from = from;
    silent.count = count;
    return write(silent, 0);
  }

  private void sendCancel(Call call) {
    silent.verb = Verb.CANCEL;
    silent.flags = RequestDescriptor.FLAG_SILENT;
    silent.argument = call.id;
    silent.ids = null;
    silent.count = 0;
    // A full ring: the operation goes on to its deadline.
    boolean written = write(silent, 0);
    if (written) {
      publish();
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
          sendCancel(call);
        }
      }
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
        payOwed();
        publish();
        // A daemon that slept for want of room for completions has left requests in the ring.
        if (Words.getLongAcquire(region, SessionRegionDescriptor.REQUEST_HEAD_OFFSET)
            != Words.getLong(region, SessionRegionDescriptor.REQUEST_TAIL_OFFSET)) {
          ringIfWaiting();
        }
      }
    } catch (ProtocolViolation e) {
      end("the daemon broke the protocol: " + e.getMessage());
    }
  }

  private void payOwed() {
    for (Owed some = owed.peek();
        some != null && writeSilent(some.verb, some.flags, some.ids, 0, some.ids.length);
        some = owed.peek()) {
      owed.remove();
    }
  }

  private void complete(long offset, int recordBytes) throws ProtocolViolation {
    long id = Words.getLong(region, offset + CompletionDescriptor.CORRELATION_OFFSET);
    int slot = (int) id & SLOT_MASK;
    Call call = slot < callCount ? calls[slot] : null;
    if (call == null
        || call.id != id
        || (call.state() != Call.WAITING && call.state() != Call.ABANDONED)) {
      throw new ProtocolViolation("completion of request " + id + ", which is not in flight");
    }
    Status status = Status.of(Words.getShort(region, offset + CompletionDescriptor.STATUS_OFFSET));
    int count = Words.getInt(region, offset + CompletionDescriptor.COUNT_OFFSET);
    int flags = Words.getByte(region, offset + CompletionDescriptor.FLAGS_OFFSET);
    boolean text = (flags & CompletionDescriptor.FLAG_TEXT) != 0;
    long bodyBytes = text ? count : (long) count * CompletionDescriptor.resultBytes(call.verb);
    if (count < 0 || bodyBytes > recordBytes - CompletionDescriptor.HEADER_BYTES) {
      throw new ProtocolViolation(
          "completion of "
              + call.verb
              + " says "
              + Integer.toUnsignedLong(count)
              + " in "
              + recordBytes
              + " bytes");
    }
    if (status == Status.OK
        && count != call.expected
        && (call.verb.body() == Verb.Body.KEYS || call.verb.body() == Verb.Body.IDS)) {
      throw new ProtocolViolation(
          "completion of " + call.verb + " has " + count + " blocks, asked for " + call.expected);
    }
    call.status = status;
    call.count = count;
    call.text = text;
    call.run = Words.getInt(region, offset + CompletionDescriptor.RUN_OFFSET);
    call.value = Words.getLong(region, offset + CompletionDescriptor.VALUE_OFFSET);
    call.body((int) bodyBytes);
    MemorySegment.copy(
        region,
        ValueLayout.JAVA_BYTE,
        offset + CompletionDescriptor.HEADER_BYTES,
        call.body,
        0,
        (int) bodyBytes);
    settle(call);
  }

  /** A call has its answer. */
  private void settle(Call call) {
    if (call.state() == Call.ABANDONED) {
      giveBackGrants(call);
      freeOne(call);
      return;
    }
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

  private void giveBackGrants(Call call) {
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
    owe(back, 0, ids, granted);
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
   * @param flags {@link RequestDescriptor#FLAG_CORRUPT}, or 0
   */
  void release(Call call, int flags) {
    lock.lock();
    try {
      oneId[0] = call.holdId(0);
      giveBack(Verb.RELEASE, flags, oneId, 1);
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
    freeSlots[freeCount++] = call.slot;
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

  /**
   * Waits for a call, until its limit at the latest.
   *
   * @return the call, or the client's own answer where the daemon gave none in time
   */
  Call await(Call call) {
    if (call.isDone()) {
      return call;
    }
    long spinEnd = System.nanoTime() + spinNs;
    do {
      poll();
      if (call.isDone()) {
        return call;
      }
      Thread.onSpinWait();
    } while (System.nanoTime() - spinEnd < 0);
    return awaitAsleep(call);
  }

  private Call awaitAsleep(Call call) {
    try {
      while (!call.isDone()) {
        long left = call.limitNs - System.nanoTime();
        if (left <= 0) {
          return giveUp(call);
        }
        if (sleeping.compareAndSet(false, true)) {
          try {
            while (!call.isDone() && left > 0) {
              sleep(call, Math.min(left, SLICE_NS));
              left = call.limitNs - System.nanoTime();
            }
          } finally {
            sleeping.set(false);
          }
        } else {
          follow(call, Math.min(left, SLICE_NS));
        }
      }
      return call;
    } finally {
      passOn();
    }
  }

  private void follow(Call call, long timeoutNs) {
    Thread self = Thread.currentThread();
    call.waiter(self);
    followers.add(self);
    if (!call.isDone() && sleeping.get()) {
      LockSupport.parkNanos(this, timeoutNs);
    }
    boolean stillThere = followers.remove(self);
    if (stillThere) {
      poll();
    }
    call.waiter(null);
    // Interrupts do not end the wait: a parked thread that is interrupted would spin.
    if (Thread.interrupted()) {
      LockSupport.parkNanos(this, 1_000_000L);
      self.interrupt();
    }
  }

  /** Nobody sleeps on the futex any longer: another waiting thread may. */
  private void passOn() {
    if (!sleeping.get()) {
      Thread next = followers.poll();
      if (next != null) {
        LockSupport.unpark(next);
      }
    }
  }

  /** Sleeps until completions come, at most that long. Only the sleeper. */
  private void sleep(BooleanSupplier done, long timeoutNs) {
    Words.putIntVolatile(region, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 1);
    // The announcement must be visible before the last look: whoever comes after it wakes.
    Words.fullFence();
    // With the lock: whoever drains now may be completing this very call, unseen by the daemon's
    // wake.
    lock.lock();
    try {
      drain();
    } finally {
      lock.unlock();
    }
    if (alive && !done.getAsBoolean()) {
      Futex.await(region, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 1, timeoutNs);
    }
    Words.putIntVolatile(region, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 0);
    poll();
    lookForEnd();
  }

  private void lookForEnd() {
    int reason = Words.getIntAcquire(region, SessionRegionDescriptor.END_REASON_OFFSET);
    if (alive && (reason != 0 || wires.socket().awaitHangup(0))) {
      endWithReason();
    }
  }

  /** The client's own end of an operation that the daemon did not answer in time. */
  private Call giveUp(Call call) {
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
    sendCancel(call);
    return local;
  }

  /**
   * Waits for asynchronous calls, as a waiting thread among others, for a slice of time at most.
   *
   * @param stop whether to come back
   */
  void awaitAsync(BooleanSupplier stop) {
    BooleanSupplier done = () -> !hasAsyncCalls() || stop.getAsBoolean();
    if (!sleeping.compareAndSet(false, true)) {
      // The sleeper drains for all; it also completes what is asynchronous.
      Thread self = Thread.currentThread();
      followers.add(self);
      if (sleeping.get() && !done.getAsBoolean()) {
        LockSupport.parkNanos(this, SLICE_NS);
      }
      boolean stillThere = followers.remove(self);
      if (stillThere) {
        poll();
      }
      giveUpLate();
      return;
    }
    try {
      long end = System.nanoTime() + SLICE_NS;
      while (!done.getAsBoolean() && System.nanoTime() - end < 0) {
        long spinEnd = System.nanoTime() + spinNs;
        do {
          poll();
          Thread.onSpinWait();
        } while (!done.getAsBoolean() && System.nanoTime() - spinEnd < 0);
        if (!done.getAsBoolean()) {
          sleep(done, SLICE_NS);
        }
      }
    } finally {
      sleeping.set(false);
    }
    giveUpLate();
    passOn();
  }

  /** Answers asynchronous calls whose limit has passed. */
  private void giveUpLate() {
    long now = System.nanoTime();
    lock.lock();
    try {
      drain();
      for (int i = 0; i < callCount && hasAsyncCalls(); i++) {
        Call call = calls[i];
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
      for (int i = 0; i < callCount; i++) {
        Call call = calls[i];
        if (call.state() == Call.WAITING || call.state() == Call.ABANDONED) {
          boolean abandoned = call.state() == Call.ABANDONED;
          call.answerLocally(Status.UNAVAILABLE, why);
          if (abandoned) {
            freeOne(call);
          } else {
            settle(call);
          }
        }
      }
      owed.clear();
      Words.putIntVolatile(region, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 0);
      Futex.wake(region, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, Integer.MAX_VALUE);
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
      Map<String, Long> values = new LinkedHashMap<>();
      if (!alive) {
        return values;
      }
      MemorySegment daemon = wires.daemon();
      int known = Words.getInt(daemon, DaemonRegionDescriptor.COUNTER_COUNT_OFFSET);
      long end = DaemonRegionDescriptor.COUNTERS_OFFSET + 8L * known;
      for (Counter counter : Counter.values()) {
        if (counter.offset() < end) {
          values.put(counter.key(), Words.getLongAcquire(daemon, counter.offset()));
        }
      }
      return values;
    } finally {
      lock.unlock();
    }
  }

  /** CLOCK_MONOTONIC ns of the daemon's last look round; 0 when the session is over. */
  long heartbeatNs() {
    lock.lock();
    try {
      return alive
          ? Words.getLongAcquire(wires.daemon(), DaemonRegionDescriptor.HEARTBEAT_OFFSET)
          : 0;
    } finally {
      lock.unlock();
    }
  }
}
