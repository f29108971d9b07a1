package io.kvtier.tiers.transfer;

import java.util.ArrayDeque;
import java.util.function.Supplier;

/**
 * Objects that only one thread may use at a time. A thread borrows an object, and gives it back
 * when the thread has finished with it. Safe for several threads.
 *
 * <p>There are at most as many objects as were ever borrowed at once.
 */
public final class Pool<T> {
  private final Supplier<T> maker;
  private final ArrayDeque<T> free = new ArrayDeque<>();

  /** An empty pool; the maker is called whenever no object is free. */
  public Pool(Supplier<T> maker) {
    this.maker = maker;
  }

  /** Borrows an object. */
  public T take() {
    T one;
    synchronized (free) {
      one = free.poll();
    }
    return one == null ? maker.get() : one;
  }

  /** Gives a borrowed object back; once, and never to use it again. */
  public void give(T one) {
    synchronized (free) {
      free.push(one);
    }
  }
}
