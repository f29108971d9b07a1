package io.kvtier.client.internal.session;

import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.linux.Futex;
import io.kvtier.protocol.linux.ThreadCpus;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * How threads wait for a session's completions. They first spin for some microseconds, looking at
 * the ring's tail only: {@link Spinning} says how long. Then one of them, the <em>sleeper</em>,
 * sleeps on the futex that the daemon wakes; the others park until the sleeper has drained their
 * completions, or passes its place on.
 *
 * <p>No sleep is for ever: each lasts {@link #SLICE_NS} at most, after which the end of the session
 * is looked for.
 */
final class Waiting {
  private static final long SLICE_NS = 50_000_000L;

  private final Session session;
  private final MemorySegment region;
  private final Spinning spinning;
  private final AtomicBoolean sleeping = new AtomicBoolean();
  private final Queue<Thread> followers = new ConcurrentLinkedQueue<>();

  /**
   * The waiting of one session.
   *
   * @param region the session's memory
   * @param spinning how long a thread spins before it sleeps
   */
  Waiting(Session session, MemorySegment region, Spinning spinning) {
    this.session = session;
    this.region = region;
    this.spinning = spinning;
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
    long spinNs = spinning.nextNs();
    long spinEnd = System.nanoTime() + spinNs;
    do {
      session.poll();
      if (call.isDone()) {
        spinning.succeeded();
        return call;
      }
      Thread.onSpinWait();
    } while (System.nanoTime() - spinEnd < 0);
    spinning.failed(spinNs);
    return awaitAsleep(call);
  }

  private Call awaitAsleep(Call call) {
    try {
      while (!call.isDone()) {
        long left = call.limitNs - System.nanoTime();
        if (left <= 0) {
          return session.giveUp(call);
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
      session.poll();
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
    Words.putIntRelease(
        region, SessionRegionDescriptor.CLIENT_CPU_OFFSET, ThreadCpus.current() + 1);
    Words.putIntVolatile(region, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 1);
    // The announcement must be visible before the last look: whoever comes after it wakes.
    Words.fullFence();
    // With the lock: a thread that drains now may complete this call without a wake of the daemon.
    session.drainFully();
    if (session.isAlive() && !done.getAsBoolean()) {
      Futex.await(region, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 1, timeoutNs);
    }
    Words.putIntVolatile(region, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 0);
    session.poll();
    session.lookForEnd();
  }

  /**
   * Waits for asynchronous calls, as a waiting thread among others, for a slice of time at most.
   *
   * @param stop whether to come back
   */
  void awaitAsync(BooleanSupplier stop) {
    BooleanSupplier done = () -> !session.hasAsyncCalls() || stop.getAsBoolean();
    if (!sleeping.compareAndSet(false, true)) {
      // The sleeper drains for all; it also completes what is asynchronous.
      Thread self = Thread.currentThread();
      followers.add(self);
      if (sleeping.get() && !done.getAsBoolean()) {
        LockSupport.parkNanos(this, SLICE_NS);
      }
      boolean stillThere = followers.remove(self);
      if (stillThere) {
        session.poll();
      }
      session.giveUpLate();
      return;
    }
    try {
      long end = System.nanoTime() + SLICE_NS;
      while (!done.getAsBoolean() && System.nanoTime() - end < 0) {
        long spinNs = spinning.nextNs();
        long spinEnd = System.nanoTime() + spinNs;
        do {
          session.poll();
          Thread.onSpinWait();
        } while (!done.getAsBoolean() && System.nanoTime() - spinEnd < 0);
        if (done.getAsBoolean()) {
          spinning.succeeded();
        } else {
          spinning.failed(spinNs);
          sleep(done, SLICE_NS);
        }
      }
    } finally {
      sleeping.set(false);
    }
    session.giveUpLate();
    passOn();
  }

  /** Wakes the sleeper, which looks again. */
  void wakeAll() {
    Words.putIntVolatile(region, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 0);
    Futex.wake(region, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, Integer.MAX_VALUE);
  }
}
