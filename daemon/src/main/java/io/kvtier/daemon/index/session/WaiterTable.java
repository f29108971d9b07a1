package io.kvtier.daemon.index.session;

import java.util.Arrays;

/**
 * Who waits for which block: lists of (operation, place in its batch) hung on blocks. A fixed pool;
 * confined to the index. The heads are kept apart from the directory's records, because few blocks
 * are waited for at a time. However many wait for one block, each can be taken off at once: clients
 * choose what they wait for.
 */
public final class WaiterTable {
  public static final int NONE = -1;

  private final int[] operation;
  private final int[] place;
  private final int[] blockOf;
  private final int[] next;
  private final int[] previous;
  private final int[] heads;
  private final boolean[] isMarked;
  private int freeHead;
  private int size;
  private int marked;

  public WaiterTable(int waitersMax) {
    operation = new int[waitersMax];
    place = new int[waitersMax];
    blockOf = new int[waitersMax];
    next = new int[waitersMax];
    previous = new int[waitersMax];
    isMarked = new boolean[waitersMax];
    heads = new int[Integer.highestOneBit(Math.max(64, waitersMax)) << 1];
    Arrays.fill(heads, NONE);
    Arrays.fill(blockOf, NONE);
    for (int i = 0; i < waitersMax; i++) {
      next[i] = i + 1 < waitersMax ? i + 1 : NONE;
    }
  }

  private int bucket(int block) {
    return ((block * 0x9E3779B9) >>> 7) & (heads.length - 1);
  }

  /**
   * Hangs a waiter on a block.
   *
   * @return its number, or {@link #NONE} when the pool is empty
   */
  public int add(int block, int ofOperation, int ofPlace) {
    int waiter = freeHead;
    if (waiter == NONE) {
      return NONE;
    }
    freeHead = next[waiter];
    operation[waiter] = ofOperation;
    place[waiter] = ofPlace;
    blockOf[waiter] = block;
    int bucket = bucket(block);
    next[waiter] = heads[bucket];
    previous[waiter] = NONE;
    if (heads[bucket] != NONE) {
      previous[heads[bucket]] = waiter;
    }
    heads[bucket] = waiter;
    size++;
    return waiter;
  }

  /**
   * Takes one waiter off a block: its number, to be read and given to {@link #free}; or {@link
   * #NONE}.
   */
  public int take(int block) {
    for (int waiter = heads[bucket(block)]; waiter != NONE; waiter = next[waiter]) {
      if (blockOf[waiter] == block) {
        unlink(waiter);
        return waiter;
      }
    }
    return NONE;
  }

  /** Takes all waiters of an operation off their blocks; looks at every waiter. */
  public void removeAll(int ofOperation) {
    for (int waiter = 0; size > 0 && waiter < blockOf.length; waiter++) {
      if (blockOf[waiter] != NONE && operation[waiter] == ofOperation) {
        unlink(waiter);
        free(waiter);
      }
    }
  }

  /** A place of an operation waits for a block; false when there is no room to remember it. */
  public boolean add(Operation waiting, int ofPlace, int ofBlock) {
    int waiter = add(ofBlock, waiting.poolIndex, ofPlace);
    if (waiter == NONE) {
      return false;
    }
    waiting.waiter[ofPlace] = waiter;
    waiting.block[ofPlace] = ofBlock;
    waiting.open++;
    return true;
  }

  /** An operation without places waits for a block; false when there is no room to remember it. */
  public boolean add(Operation waiting, int ofBlock) {
    boolean added = add(ofBlock, waiting.poolIndex, 0) != NONE;
    waiting.open += added ? 1 : 0;
    return added;
  }

  /** A place of an operation waits no more; false when it did not wait. */
  public boolean remove(Operation waiting, int ofPlace) {
    return remove(waiting.waiter[ofPlace], waiting.poolIndex, ofPlace);
  }

  /** Takes a waiter off its block; false when it is that of this operation and place no more. */
  public boolean remove(int waiter, int ofOperation, int ofPlace) {
    if (!waits(waiter, ofOperation, ofPlace)) {
      return false;
    }
    unlink(waiter);
    free(waiter);
    return true;
  }

  /** Marks a waiter, until it is taken off its block or {@link #unmark} finds it. */
  public void mark(int waiter) {
    marked += isMarked[waiter] ? 0 : 1;
    isMarked[waiter] = true;
  }

  /** How many waiters are marked. */
  public int marked() {
    return marked;
  }

  /** Takes the mark from a place of an operation; false when it does not wait or has none. */
  public boolean unmark(Operation waiting, int ofPlace) {
    int waiter = waiting.waiter[ofPlace];
    return waits(waiter, waiting.poolIndex, ofPlace) && unmark(waiter);
  }

  private boolean unmark(int waiter) {
    boolean was = isMarked[waiter];
    isMarked[waiter] = false;
    marked -= was ? 1 : 0;
    return was;
  }

  private boolean waits(int waiter, int ofOperation, int ofPlace) {
    return waiter != NONE
        && blockOf[waiter] != NONE
        && operation[waiter] == ofOperation
        && place[waiter] == ofPlace;
  }

  private void unlink(int waiter) {
    var _ = unmark(waiter);
    if (previous[waiter] == NONE) {
      heads[bucket(blockOf[waiter])] = next[waiter];
    } else {
      next[previous[waiter]] = next[waiter];
    }
    if (next[waiter] != NONE) {
      previous[next[waiter]] = previous[waiter];
    }
    blockOf[waiter] = NONE;
    size--;
  }

  public void free(int waiter) {
    next[waiter] = freeHead;
    freeHead = waiter;
  }

  public int operation(int waiter) {
    return operation[waiter];
  }

  public int place(int waiter) {
    return place[waiter];
  }

  public boolean hasWaiters(int block) {
    return first(block) != NONE;
  }

  /** The first waiter of a block, or {@link #NONE}. */
  public int first(int block) {
    return from(heads[bucket(block)], block);
  }

  /**
   * The waiter of a block after another one, or {@link #NONE}. Valid while no waiter comes or goes.
   */
  public int next(int waiter, int block) {
    return from(next[waiter], block);
  }

  private int from(int first, int block) {
    int waiter = first;
    while (waiter != NONE && blockOf[waiter] != block) {
      waiter = next[waiter];
    }
    return waiter;
  }

  /** Whether nobody else could wait. */
  public boolean isFull() {
    return freeHead == NONE;
  }

  int size() {
    return size;
  }
}
