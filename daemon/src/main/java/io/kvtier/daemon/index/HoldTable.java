package io.kvtier.daemon.index;

import java.util.Arrays;

/**
 * What sessions hold: leases, reservations and pins, each of one block. A fixed pool in arrays; a
 * hold's id carries a generation, so that an id of a hold that has ended never names another.
 * Leases also stand in a timer wheel by their end. Confined to the index.
 */
final class HoldTable {
  static final int NONE = -1;
  static final byte LEASE = 1;
  static final byte RESERVATION = 2;
  static final byte PIN = 3;

  private static final int WHEEL_BUCKETS = 1024;
  private static final int TICK_SHIFT = 26; // 67 ms a tick, 69 s a turn

  private final int[] block;
  private final int[] generation;
  private final int[] sessionIndex;
  private final byte[] kind;
  private final int[] next;
  private final int[] previous;
  private final int[] wheelNext;
  private final int[] wheelPrevious;
  private final long[] endNs;
  private final int[] wheel = new int[WHEEL_BUCKETS];
  private final int[] count = new int[4];
  private long tick = Long.MIN_VALUE;
  private int freeHead;

  HoldTable(int holdsMax) {
    block = new int[holdsMax];
    generation = new int[holdsMax];
    sessionIndex = new int[holdsMax];
    kind = new byte[holdsMax];
    next = new int[holdsMax];
    previous = new int[holdsMax];
    wheelNext = new int[holdsMax];
    wheelPrevious = new int[holdsMax];
    endNs = new long[holdsMax];
    for (int i = 0; i < holdsMax; i++) {
      next[i] = i + 1 < holdsMax ? i + 1 : NONE;
    }
    Arrays.fill(wheel, NONE);
  }

  /**
   * Takes a hold.
   *
   * @param holder its list of holds; the new one becomes the first
   * @param end when a lease ends, ns; 0 for holds without an end
   * @return its number, or {@link #NONE} when the pool is empty
   */
  int take(byte ofKind, int ofBlock, Holder holder, long end) {
    int hold = freeHead;
    if (hold == NONE) {
      return NONE;
    }
    freeHead = next[hold];
    generation[hold] = (generation[hold] + 1) & Integer.MAX_VALUE;
    kind[hold] = ofKind;
    block[hold] = ofBlock;
    sessionIndex[hold] = holder.index;
    previous[hold] = NONE;
    next[hold] = holder.firstHold;
    if (holder.firstHold != NONE) {
      previous[holder.firstHold] = hold;
    }
    holder.firstHold = hold;
    holder.holds++;
    count[ofKind]++;
    endNs[hold] = end;
    if (end != 0) {
      int bucket = (int) (end >>> TICK_SHIFT) & (WHEEL_BUCKETS - 1);
      wheelPrevious[hold] = NONE;
      wheelNext[hold] = wheel[bucket];
      if (wheel[bucket] != NONE) {
        wheelPrevious[wheel[bucket]] = hold;
      }
      wheel[bucket] = hold;
    }
    return hold;
  }

  /** The id that clients know a hold by; never 0. */
  long id(int hold) {
    return (long) generation[hold] << 32 | (hold + 1);
  }

  /**
   * The hold of an id, if it lives, is of that kind and belongs to that holder; else {@link #NONE}.
   */
  int find(long id, byte ofKind, Holder holder) {
    int hold = (int) id - 1;
    return hold >= 0
            && hold < block.length
            && kind[hold] == ofKind
            && generation[hold] == (int) (id >>> 32)
            && sessionIndex[hold] == holder.index
        ? hold
        : NONE;
  }

  /** The first pin of a block from one hold on, or {@link #NONE}; looks at every hold. */
  int pinOf(int ofBlock, int from) {
    for (int hold = from; hold < block.length; hold++) {
      if (kind[hold] == PIN && block[hold] == ofBlock) {
        return hold;
      }
    }
    return NONE;
  }

  int block(int hold) {
    return block[hold];
  }

  byte kind(int hold) {
    return kind[hold];
  }

  int nextOf(int hold) {
    return next[hold];
  }

  int sessionIndex(int hold) {
    return sessionIndex[hold];
  }

  /** Ends a hold. */
  void free(int hold, Holder holder) {
    if (kind[hold] == 0) {
      throw new IllegalStateException("hold " + hold + " is free already");
    }
    if (previous[hold] == NONE) {
      holder.firstHold = next[hold];
    } else {
      next[previous[hold]] = next[hold];
    }
    if (next[hold] != NONE) {
      previous[next[hold]] = previous[hold];
    }
    holder.holds--;
    if (endNs[hold] != 0) {
      int bucket = (int) (endNs[hold] >>> TICK_SHIFT) & (WHEEL_BUCKETS - 1);
      if (wheelPrevious[hold] == NONE) {
        wheel[bucket] = wheelNext[hold];
      } else {
        wheelNext[wheelPrevious[hold]] = wheelNext[hold];
      }
      if (wheelNext[hold] != NONE) {
        wheelPrevious[wheelNext[hold]] = wheelPrevious[hold];
      }
    }
    count[kind[hold]]--;
    kind[hold] = 0;
    next[hold] = freeHead;
    freeHead = hold;
  }

  /** A lease that has ended by {@code nowNs}, or {@link #NONE}; call again until none is left. */
  int expired(long nowNs) {
    long nowTick = nowNs >>> TICK_SHIFT;
    if (tick == Long.MIN_VALUE) {
      tick = nowTick;
    }
    if (nowTick - tick > WHEEL_BUCKETS) {
      tick = nowTick - WHEEL_BUCKETS;
    }
    while (tick < nowTick) {
      for (int hold = wheel[(int) tick & (WHEEL_BUCKETS - 1)];
          hold != NONE;
          hold = wheelNext[hold]) {
        if (endNs[hold] <= nowNs) {
          return hold;
        }
      }
      tick++;
    }
    return NONE;
  }

  int count(byte ofKind) {
    return count[ofKind];
  }

  /** Whoever holds: its place in the index's table of sessions, and the list of its holds. */
  static class Holder {
    int index;
    int firstHold = NONE;
    int holds;
  }
}
