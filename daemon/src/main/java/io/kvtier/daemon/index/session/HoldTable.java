package io.kvtier.daemon.index.session;

import io.kvtier.daemon.index.core.Share;
import java.util.Arrays;

/**
 * What sessions hold: leases, reservations and pins, each of one block. A fixed pool in arrays; a
 * hold's id carries a generation, so that an id of a hold that has ended never names another.
 * Leases and reservations also stand in a timer wheel by their end, pins in chains by their block.
 * What is left of a reservation that has ended without its client's word is a hold, too, of no
 * block. Confined to the index.
 */
public final class HoldTable {
  public static final int NONE = -1;
  public static final byte LEASE = 1;
  public static final byte RESERVATION = 2;
  public static final byte PIN = 3;

  /** A reservation that has ended, while its client has not said yet that it writes no more. */
  public static final byte LATE = 4;

  private static final int KINDS = 5;

  private static final int WHEEL_BUCKETS = 1024;
  private static final int TICK_SHIFT = 26; // 67 ms a tick, 69 s a turn

  private final int[] block;
  private final int[] generation;
  private final int[] sessionIndex;
  private final byte[] kind;
  private final int[] next;
  private final int[] previous;
  private final int[] chainNext;
  private final int[] chainPrevious;
  private final long[] endNs;
  private final long[] request;
  private final int[] wheel = new int[WHEEL_BUCKETS];
  private final int[] pinsOfBlocks;

  /** How often the session has pinned the block again after the first pin. */
  private final int[] repeats;

  private final int[] count = new int[KINDS];
  private long tick = Long.MIN_VALUE;

  /** The next hold to look at in the bucket of the tick; the holds before it are not due. */
  private int nextInBucket = NONE;

  private boolean bucketBegun;
  private int freeHead;

  public HoldTable(int holdsMax) {
    block = new int[holdsMax];
    generation = new int[holdsMax];
    sessionIndex = new int[holdsMax];
    kind = new byte[holdsMax];
    next = new int[holdsMax];
    previous = new int[holdsMax];
    chainNext = new int[holdsMax];
    chainPrevious = new int[holdsMax];
    repeats = new int[holdsMax];
    request = new long[holdsMax];
    pinsOfBlocks = new int[Integer.highestOneBit(Math.max(64, holdsMax)) << 1];
    endNs = new long[holdsMax];
    for (int i = 0; i < holdsMax; i++) {
      next[i] = i + 1 < holdsMax ? i + 1 : NONE;
    }
    Arrays.fill(wheel, NONE);
    Arrays.fill(pinsOfBlocks, NONE);
  }

  /** Takes a hold that is part of no answer. */
  public int take(byte ofKind, int ofBlock, Holder holder, long end) {
    return take(ofKind, ofBlock, holder, end, 0);
  }

  /**
   * Takes a hold.
   *
   * @param holder its list of holds; the new one becomes the first
   * @param end when a lease or a reservation ends, ns; 0 for holds without an end
   * @param ofRequest the correlation id of the request that is answered with it; 0: of none
   * @return its number, or {@link #NONE} when the pool is empty
   */
  public int take(byte ofKind, int ofBlock, Holder holder, long end, long ofRequest) {
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
    holder.times[ofKind]++;
    holder.share.holds++;
    count[ofKind]++;
    repeats[hold] = 0;
    request[hold] = ofRequest;
    // A lease may begin after its end, when its block took long to come: it goes where the wheel
    // looks next, not where it looks again in a minute.
    endNs[hold] = end == 0 || tick == Long.MIN_VALUE ? end : Math.max(end, tick << TICK_SHIFT);
    if (end != 0) {
      link(wheel, wheelBucket(hold), hold);
    } else if (ofKind == PIN) {
      link(pinsOfBlocks, pinBucket(ofBlock), hold);
    }
    return hold;
  }

  private int wheelBucket(int hold) {
    return (int) (endNs[hold] >>> TICK_SHIFT) & (WHEEL_BUCKETS - 1);
  }

  private int pinBucket(int ofBlock) {
    return ((ofBlock * 0x9E3779B9) >>> 7) & (pinsOfBlocks.length - 1);
  }

  private void link(int[] heads, int bucket, int hold) {
    chainPrevious[hold] = NONE;
    chainNext[hold] = heads[bucket];
    if (heads[bucket] != NONE) {
      chainPrevious[heads[bucket]] = hold;
    }
    heads[bucket] = hold;
  }

  private void unlink(int[] heads, int bucket, int hold) {
    if (chainPrevious[hold] == NONE) {
      heads[bucket] = chainNext[hold];
    } else {
      chainNext[chainPrevious[hold]] = chainNext[hold];
    }
    if (chainNext[hold] != NONE) {
      chainPrevious[chainNext[hold]] = chainPrevious[hold];
    }
  }

  /** The id that clients know a hold by; never 0. */
  public long id(int hold) {
    return (long) generation[hold] << 32 | (hold + 1);
  }

  /**
   * The hold of an id, if it lives, is of that kind and belongs to that holder; else {@link #NONE}.
   */
  public int find(long id, byte ofKind, Holder holder) {
    int hold = (int) id - 1;
    return hold >= 0
            && hold < block.length
            && kind[hold] == ofKind
            && generation[hold] == (int) (id >>> 32)
            && sessionIndex[hold] == holder.index
        ? hold
        : NONE;
  }

  /** A holder's pin of a block, or {@link #NONE}. A holder has one, which counts. */
  public int pinOf(int ofBlock, Holder holder) {
    int hold = pinsOfBlocks[pinBucket(ofBlock)];
    while (hold != NONE && (block[hold] != ofBlock || sessionIndex[hold] != holder.index)) {
      hold = chainNext[hold];
    }
    return hold;
  }

  /** Somebody's pin of a block, or {@link #NONE}. */
  public int anyPinOf(int ofBlock) {
    int hold = pinsOfBlocks[pinBucket(ofBlock)];
    while (hold != NONE && block[hold] != ofBlock) {
      hold = chainNext[hold];
    }
    return hold;
  }

  /** Counts a holder's pin once more; false when it can't be counted further. */
  public boolean pinAgain(int hold, Holder holder) {
    if (repeats[hold] == Integer.MAX_VALUE - 1) {
      return false;
    }
    repeats[hold]++;
    holder.times[PIN]++;
    return true;
  }

  /** Counts a holder's pin once less; false when this was the last time. */
  public boolean unpinOnce(int hold, Holder holder) {
    if (repeats[hold] == 0) {
      return false;
    }
    repeats[hold]--;
    holder.times[PIN]--;
    return true;
  }

  public int block(int hold) {
    return block[hold];
  }

  /** The correlation id of the request that is answered with a hold; 0: of none. */
  public long request(int hold) {
    return request[hold];
  }

  public byte kind(int hold) {
    return kind[hold];
  }

  public int nextOf(int hold) {
    return next[hold];
  }

  public int sessionIndex(int hold) {
    return sessionIndex[hold];
  }

  /** A reservation has ended, and its client may go on writing: it is of no block from now on. */
  public void becomeLate(int hold, Holder holder) {
    if (kind[hold] != RESERVATION) {
      throw new IllegalStateException("hold " + hold + " is no reservation");
    }
    unlinkFromTime(hold);
    count[RESERVATION]--;
    count[LATE]++;
    holder.times[RESERVATION]--;
    holder.times[LATE]++;
    kind[hold] = LATE;
    block[hold] = NONE;
  }

  private void unlinkFromTime(int hold) {
    if (endNs[hold] != 0) {
      if (nextInBucket == hold) {
        nextInBucket = chainNext[hold];
      }
      unlink(wheel, wheelBucket(hold), hold);
      endNs[hold] = 0;
    }
  }

  /** Ends a hold. */
  public void free(int hold, Holder holder) {
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
    holder.times[kind[hold]] -= 1 + repeats[hold];
    holder.share.holds--;
    if (kind[hold] == PIN) {
      unlink(pinsOfBlocks, pinBucket(block[hold]), hold);
    } else {
      unlinkFromTime(hold);
    }
    count[kind[hold]]--;
    kind[hold] = 0;
    next[hold] = freeHead;
    freeHead = hold;
  }

  /**
   * A lease or a reservation that has ended by {@code nowNs}, or {@link #NONE}; end it, and call
   * again until none is left. Each of a bucket is looked at once for each turn of the wheel,
   * whatever else stands there.
   */
  public int expired(long nowNs) {
    long nowTick = nowNs >>> TICK_SHIFT;
    if (tick == Long.MIN_VALUE) {
      tick = nowTick;
    }
    if (nowTick - tick > WHEEL_BUCKETS) {
      tick = nowTick - WHEEL_BUCKETS;
      bucketBegun = false;
    }
    while (tick < nowTick) {
      int hold = bucketBegun ? nextInBucket : wheel[(int) tick & (WHEEL_BUCKETS - 1)];
      bucketBegun = true;
      while (hold != NONE) {
        nextInBucket = chainNext[hold];
        if (endNs[hold] <= nowNs) {
          return hold;
        }
        hold = nextInBucket;
      }
      tick++;
      bucketBegun = false;
    }
    nextInBucket = NONE;
    return NONE;
  }

  public int count(byte ofKind) {
    return count[ofKind];
  }

  /** Whoever holds: its place in the index's table of sessions, and the list of its holds. */
  static class Holder {
    public int index;
    public int firstHold = NONE;
    public int holds;

    /** How many of each kind its client has: a pin may be several. */
    private final long[] times = new long[KINDS];

    /** What its tenant has of the pools. */
    public Share share = Share.unlimited();

    /** How many holds of a kind its client has: a pin that was taken again is several. */
    public long times(byte ofKind) {
      return times[ofKind];
    }

    /** Whether it may have one more, of so many that one holder may. */
    public boolean mayHold(int max) {
      return holds < max && share.holds < share.holdsMax;
    }
  }
}
