package io.kvtier.client.internal.session;

import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Whether a session goes on, and how long its mappings and its connection stay.
 *
 * <p>The mappings end when nothing uses them: each call in use, each set of leases or reservations
 * and the thread that watches the connection count as one use. The connection of an ended session
 * stays while somebody writes to reserved slots, because its end gives the slots to others.
 */
public final class Lifetime {
  private final ReentrantLock lock;
  private final Wires wires;
  private final MemorySegment region;

  // Under the lock.
  private int uses = 1;
  private int writers;

  private volatile boolean alive = true;
  private volatile String endText = "";

  /**
   * The lifetime of a session that has begun, with one use.
   *
   * @param lock the session's lock
   */
  Lifetime(ReentrantLock lock, Wires wires) {
    this.lock = lock;
    this.wires = wires;
    this.region = wires.session().segment();
  }

  /** Whether the session goes on, as far as this process knows. */
  boolean isAlive() {
    return alive;
  }

  /** Why the session ended; empty while it goes on. */
  String endText() {
    return endText;
  }

  /**
   * Whether bytes that were read until now under leases count: not once the leases or the session
   * have ended, for their slots may hold other blocks since. All readers use this rule. Only while
   * the session is in use.
   *
   * @param endNs when the leases end
   */
  public boolean holdsLeases(long endNs) {
    return seemsToHoldLeases(endNs) && !isCutOff();
  }

  /**
   * Whether leases hold, as far as shared memory tells: the daemon notes there that it ended the
   * session. {@link #isCutOff} decides at the end, once for all that was read.
   *
   * @param endNs when the leases end
   */
  public boolean seemsToHoldLeases(long endNs) {
    // The bytes were read before the words that vouch for them.
    Words.acquireFence();
    return System.nanoTime() - endNs < 0
        && alive
        && Words.getIntAcquire(region, SessionRegionDescriptor.END_REASON_OFFSET) == 0;
  }

  /**
   * Whether the daemon that gave leases may have ended. A daemon that was killed leaves no word,
   * and the next daemon goes on with its memory and knows none of its leases. A call to the kernel.
   * Only while the session is in use.
   */
  public boolean isCutOff() {
    Words.acquireFence();
    return !alive || wires.socket().awaitHangup(0);
  }

  /** Counts one more use of mappings that are in use. Under the lock. */
  void addUse() {
    uses++;
  }

  /** Counts one more use of the mappings; false when they have ended. */
  public boolean beginUse() {
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

  /** Ends one use of the mappings; the last one ends them. */
  public void endUse() {
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
   * Begins to write to reserved slots.
   *
   * @return false when the session has ended, and others may already own the slots
   */
  public boolean beginWriting() {
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

  /** Ends the writing to reserved slots. Only while the session is in use. */
  public void endWriting() {
    lock.lock();
    try {
      if (--writers == 0 && !alive) {
        wires.socket().shutdown();
      }
    } finally {
      lock.unlock();
    }
  }

  /** Whether the daemon has ended the session, or itself. Only while the session is in use. */
  boolean hasDaemonEnded() {
    return Words.getIntAcquire(region, SessionRegionDescriptor.END_REASON_OFFSET) != 0
        || wires.socket().awaitHangup(0);
  }

  /** The reason that the daemon gave for the session's end. Only while the session is in use. */
  String daemonsReason() {
    int reason = Words.getIntAcquire(region, SessionRegionDescriptor.END_REASON_OFFSET);
    return reason == 0
        ? "the daemon has gone"
        : "the daemon ended the session: " + Status.of(reason - 1).meaning();
  }

  /**
   * Ends the session. Under the lock.
   *
   * @return false when it has ended before
   */
  boolean end(String why) {
    if (!alive) {
      return false;
    }
    endText = why;
    alive = false;
    return true;
  }

  /** Hangs up, or leaves that to the last thread that writes to slots. Under the lock. */
  void hangUp() {
    if (writers == 0) {
      wires.socket().shutdown();
    }
  }
}
