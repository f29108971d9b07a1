package io.kvtier.daemon.index;

/** A bounded first-in first-out queue of longs in one array: adding and taking allocate nothing. */
final class LongQueue {
  private final long[] items;
  private int head;
  private int size;

  LongQueue(int capacity) {
    items = new long[capacity];
  }

  boolean offer(long item) {
    if (size == items.length) {
      return false;
    }
    items[(head + size++) % items.length] = item;
    return true;
  }

  long poll() {
    long item = items[head];
    head = (head + 1) % items.length;
    size--;
    return item;
  }

  int size() {
    return size;
  }

  boolean isFull() {
    return size == items.length;
  }
}
