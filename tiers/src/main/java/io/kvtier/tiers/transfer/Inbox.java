package io.kvtier.tiers.transfer;

import java.lang.invoke.VarHandle;
import java.util.concurrent.locks.LockSupport;
import org.jctools.queues.atomic.MpscAtomicArrayQueue;
import org.jspecify.annotations.Nullable;

/**
 * What any threads hand to one, bounded. Who takes may sleep: it says so, looks once more, and only
 * then sleeps; who hands something over queues it first, and then wakes a sleeper. One of the two
 * sees the other.
 */
public final class Inbox<T> {
  private final MpscAtomicArrayQueue<T> queue;
  private volatile @Nullable Thread sleeper;
  private volatile boolean ended;

  /** Holds so many, at least 2. */
  public Inbox(int capacity) {
    queue = new MpscAtomicArrayQueue<>(Math.max(2, capacity));
  }

  public int capacity() {
    return queue.capacity();
  }

  /** Hands something over, from any thread, at once; false when there is no room. */
  public boolean offer(T item) {
    if (!enqueue(item)) {
      return false;
    }
    boolean _ = wakeSleeper();
    return true;
  }

  boolean enqueue(T item) {
    return queue.offer(item);
  }

  boolean wakeSleeper() {
    // The queue publishes with release only: the look must not come before the item is visible.
    VarHandle.fullFence();
    Thread asleep = sleeper;
    if (asleep == null) {
      return false;
    }
    LockSupport.unpark(asleep);
    return true;
  }

  /** The next item; null when there is none. For the thread that takes. */
  public @Nullable T poll() {
    return queue.poll();
  }

  public boolean isEmpty() {
    return queue.isEmpty();
  }

  /**
   * Sleeps on the thread that takes, until something comes, this ends, or the time is over; may
   * return sooner.
   *
   * @param ns at most; {@link Long#MAX_VALUE} for any time
   * @return false when there was something already, or this has ended
   */
  public boolean await(long ns) {
    try {
      if (!announceSleep() || ended) {
        return false;
      }
      LockSupport.parkNanos(this, ns);
      return true;
    } finally {
      sleeper = null;
    }
  }

  /** The taker will sleep; false when its last look finds something. */
  boolean announceSleep() {
    sleeper = Thread.currentThread();
    VarHandle.fullFence();
    return queue.isEmpty();
  }

  /** Nobody sleeps here any more. What was handed over can still be taken. From any thread. */
  public void end() {
    ended = true;
    boolean _ = wakeSleeper();
  }

  public boolean hasEnded() {
    return ended;
  }
}
