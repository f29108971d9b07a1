package io.kvtier.daemon.index;

import java.util.Arrays;

/**
 * Who waits for which block: lists of (operation, place in its batch) hung on blocks. A fixed pool;
 * confined to the index. The heads are kept apart from the directory's records, because few blocks
 * are waited for at a time.
 */
final class WaiterTable {
  static final int NONE = -1;

  private final int[] operation;
  private final int[] place;
  private final int[] blockOf;
  private final int[] next;
  private final int[] heads;
  private int freeHead;
  private int size;

  WaiterTable(int waitersMax) {
    operation = new int[waitersMax];
    place = new int[waitersMax];
    blockOf = new int[waitersMax];
    next = new int[waitersMax];
    heads = new int[Integer.highestOneBit(Math.max(64, waitersMax)) << 1];
    Arrays.fill(heads, NONE);
    for (int i = 0; i < waitersMax; i++) {
      next[i] = i + 1 < waitersMax ? i + 1 : NONE;
    }
  }

  private int bucket(int block) {
    return ((block * 0x9E3779B9) >>> 7) & (heads.length - 1);
  }

  /** Hangs a waiter on a block; false when the pool is empty. */
  boolean add(int block, int ofOperation, int ofPlace) {
    int waiter = freeHead;
    if (waiter == NONE) {
      return false;
    }
    freeHead = next[waiter];
    operation[waiter] = ofOperation;
    place[waiter] = ofPlace;
    blockOf[waiter] = block;
    int bucket = bucket(block);
    next[waiter] = heads[bucket];
    heads[bucket] = waiter;
    size++;
    return true;
  }

  /**
   * Takes one waiter off a block: its number, to be read and given to {@link #free}; or {@link
   * #NONE}.
   */
  int take(int block) {
    int bucket = bucket(block);
    int before = NONE;
    for (int waiter = heads[bucket]; waiter != NONE; waiter = next[waiter]) {
      if (blockOf[waiter] == block) {
        unlink(bucket, before, waiter);
        return waiter;
      }
      before = waiter;
    }
    return NONE;
  }

  /** Takes all waiters of an operation off their blocks. */
  void removeAll(int ofOperation) {
    for (int bucket = 0; bucket < heads.length; bucket++) {
      int before = NONE;
      for (int waiter = heads[bucket]; waiter != NONE; ) {
        int following = next[waiter];
        if (operation[waiter] == ofOperation) {
          unlink(bucket, before, waiter);
          free(waiter);
        } else {
          before = waiter;
        }
        waiter = following;
      }
    }
  }

  /** Takes one particular waiter off a block; false when it is not there. */
  boolean remove(int block, int ofOperation, int ofPlace) {
    int bucket = bucket(block);
    int before = NONE;
    for (int waiter = heads[bucket]; waiter != NONE; waiter = next[waiter]) {
      if (blockOf[waiter] == block
          && operation[waiter] == ofOperation
          && place[waiter] == ofPlace) {
        unlink(bucket, before, waiter);
        free(waiter);
        return true;
      }
      before = waiter;
    }
    return false;
  }

  private void unlink(int bucket, int before, int waiter) {
    if (before == NONE) {
      heads[bucket] = next[waiter];
    } else {
      next[before] = next[waiter];
    }
    size--;
  }

  void free(int waiter) {
    next[waiter] = freeHead;
    freeHead = waiter;
  }

  int operation(int waiter) {
    return operation[waiter];
  }

  int place(int waiter) {
    return place[waiter];
  }

  boolean hasWaiters(int block) {
    for (int waiter = heads[bucket(block)]; waiter != NONE; waiter = next[waiter]) {
      if (blockOf[waiter] == block) {
        return true;
      }
    }
    return false;
  }

  int size() {
    return size;
  }
}
