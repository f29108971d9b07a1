package io.kvtier.tiers.transfer;

import java.util.ArrayDeque;
import java.util.function.Supplier;

/**
 * Things that threads borrow, one each at a time. There are as many as were ever borrowed at once.
 * Safe for several threads.
 *
 * @param <T> what is borrowed
 */
public final class Pool<T> {
  private final Supplier<T> maker;
  private final ArrayDeque<T> free = new ArrayDeque<>();

  /** An empty pool, which makes what it lacks. */
  public Pool(Supplier<T> maker) {
    this.maker = maker;
  }

  /** One that nobody else uses until {@link #give}. */
  public T take() {
    T one;
    synchronized (free) {
      one = free.poll();
    }
    return one == null ? maker.get() : one;
  }

  /** Takes one back. */
  public void give(T one) {
    synchronized (free) {
      free.push(one);
    }
  }
}
