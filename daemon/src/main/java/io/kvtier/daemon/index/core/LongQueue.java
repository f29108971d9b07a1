package io.kvtier.daemon.index.core;

/**
 * A bounded first-in first-out queue of longs in one array, which grows as far as the queue has
 * ever been long.
 */
public final class LongQueue {
  private static final int FIRST_LENGTH = 64;

  private final int capacity;
  private long[] items;
  private int head;
  private int size;

  public LongQueue(int capacity) {
    this.capacity = capacity;
    items = new long[Math.min(capacity, FIRST_LENGTH)];
  }

  public boolean offer(long item) {
    if (size == capacity) {
      return false;
    }
    if (size == items.length) {
      long[] longer = new long[(int) Math.min(capacity, 2L * size)];
      for (int i = 0; i < size; i++) {
        longer[i] = items[(head + i) % size];
      }
      items = longer;
      head = 0;
    }
    items[(head + size++) % items.length] = item;
    return true;
  }

  /** The item that {@link #poll} would take. */
  public long peek() {
    return items[head];
  }

  /** The item that the i-th {@link #poll} from now would take, from 0. */
  public long at(int i) {
    return items[(head + i) % items.length];
  }

  public long poll() {
    long item = items[head];
    head = (head + 1) % items.length;
    size--;
    return item;
  }

  public int size() {
    return size;
  }

  public boolean isFull() {
    return size == capacity;
  }
}
