package io.kvtier.policies.eviction;

import java.util.Arrays;

/**
 * Keys without their blocks: fingerprints in one or more queues from an oldest to a newest end, and
 * a table to find them by. Bounded: a full queue forgets its oldest. Twenty-five to thirty-three
 * bytes an entry, all taken at construction.
 */
final class Ghosts {
  static final int NONE = FingerprintTable.NONE;

  private final int capacity;
  private final long[] fingerprints;
  private final int[] newer;
  private final int[] older;
  private final byte[] queues;

  private final FingerprintTable table;
  private final int[] oldest;
  private final int[] newest;
  private final int[] sizes;
  private int free;

  /**
   * Empty queues.
   *
   * @param capacity the most entries of all queues together
   */
  Ghosts(int capacity, int queueCount) {
    this.capacity = capacity;
    fingerprints = new long[capacity];
    newer = new int[capacity];
    older = new int[capacity];
    queues = new byte[capacity];
    table = new FingerprintTable(fingerprints);
    oldest = new int[queueCount];
    newest = new int[queueCount];
    sizes = new int[queueCount];
    Arrays.fill(oldest, NONE);
    Arrays.fill(newest, NONE);
    for (int i = 0; i < capacity; i++) {
      newer[i] = i + 1 < capacity ? i + 1 : NONE;
    }
    free = capacity > 0 ? 0 : NONE;
  }

  int capacity() {
    return capacity;
  }

  int size(int queue) {
    return sizes[queue];
  }

  int size() {
    int total = 0;
    for (int size : sizes) {
      total += size;
    }
    return total;
  }

  /** The queue that a key is in, or {@link #NONE}. */
  int queueOf(long fingerprint) {
    int entry = table.get(fingerprint);
    return entry == NONE ? NONE : queues[entry];
  }

  /**
   * Puts a key at a queue's newest end, wherever it was before. Where the queues are full together,
   * the queue's own oldest goes first, or that of another.
   */
  void add(int queue, long fingerprint) {
    if (capacity == 0) {
      return;
    }
    remove(fingerprint);
    if (free == NONE) {
      int from = queue;
      while (sizes[from] == 0) {
        from = (from + 1) % sizes.length;
      }
      removeOldest(from);
    }
    int entry = free;
    free = newer[entry];
    fingerprints[entry] = fingerprint;
    queues[entry] = (byte) queue;
    newer[entry] = NONE;
    older[entry] = newest[queue];
    if (newest[queue] == NONE) {
      oldest[queue] = entry;
    } else {
      newer[newest[queue]] = entry;
    }
    newest[queue] = entry;
    sizes[queue]++;
    table.put(entry);
  }

  /** Forgets a key. */
  void remove(long fingerprint) {
    int entry = table.get(fingerprint);
    if (entry != NONE) {
      table.remove(entry);
      unlink(entry);
    }
  }

  /** Forgets the oldest keys of a queue until it has no more than so many. */
  void trim(int queue, int sizeMax) {
    while (sizes[queue] > Math.max(0, sizeMax)) {
      removeOldest(queue);
    }
  }

  private void removeOldest(int queue) {
    int entry = oldest[queue];
    table.remove(entry);
    unlink(entry);
  }

  private void unlink(int entry) {
    int queue = queues[entry];
    int next = newer[entry];
    int previous = older[entry];
    if (next == NONE) {
      newest[queue] = previous;
    } else {
      older[next] = previous;
    }
    if (previous == NONE) {
      oldest[queue] = next;
    } else {
      newer[previous] = next;
    }
    sizes[queue]--;
    newer[entry] = free;
    free = entry;
  }

  long bytes() {
    return 17L * capacity + table.bytes() + 12L * sizes.length;
  }

  /** Checks queues and table, for tests. */
  void checkInvariants() {
    int total = 0;
    for (int queue = 0; queue < sizes.length; queue++) {
      int count = 0;
      int previous = NONE;
      for (int entry = oldest[queue]; entry != NONE; entry = newer[entry]) {
        if (older[entry] != previous
            || queues[entry] != queue
            || table.get(fingerprints[entry]) != entry
            || ++count > sizes[queue]) {
          throw new IllegalStateException("ghost queue " + queue + " is broken at " + entry);
        }
        previous = entry;
      }
      if (count != sizes[queue] || previous != newest[queue]) {
        throw new IllegalStateException(
            "ghost queue " + queue + " has " + count + " keys, expected " + sizes[queue]);
      }
      total += count;
    }
    int inTable = table.count();
    if (total > capacity || inTable != total) {
      throw new IllegalStateException(
          total + " ghosts, " + inTable + " in the table, at most " + capacity);
    }
  }
}
