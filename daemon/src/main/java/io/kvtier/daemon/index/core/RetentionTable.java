package io.kvtier.daemon.index.core;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.function.IntConsumer;
import java.util.function.IntPredicate;

/**
 * The blocks that clients retain, and the ends of their lifetimes: a timer wheel whose lists go
 * through one row for each record of the directory. The memory of a row is taken when its block is
 * retained for the first time. Part of the directory, and confined to the index like it.
 *
 * <pre>
 *   0  i32 tick of the end, 0: not retained   4  i32 next in the bucket   8  i32 the one before
 * </pre>
 *
 * <p>Neighbours are numbers of records plus one; 0: none. A lifetime ends up to one tick late, and
 * never early. A bucket can have blocks of later turns of the wheel.
 */
public final class RetentionTable {
  private static final int NONE = -1;

  /** The most blocks whose lifetimes end in one call of {@link #expire}. */
  private static final int EXPIRED_MAX = 1024;

  private static final int BUCKETS = 1 << 16;
  private static final int TICK_SHIFT = 28; // 268 ms a tick, 4.9 h a turn

  private static final int ROW_BYTES = 12;
  private static final int END = 0;
  private static final int NEXT = 4;
  private static final int PREVIOUS = 8;
  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;

  private final MemorySegment rows;
  private final int[] heads = new int[BUCKETS];
  private final int[] blocksOfTenant = new int[Byte.MAX_VALUE];
  private final long[] bytesOfTenant = new long[Byte.MAX_VALUE];
  private int count;

  /** The tick that is looked at next: all earlier ones are over. */
  private long tick = Long.MIN_VALUE;

  /**
   * An empty table.
   *
   * @param rows zeros, {@link #bytesFor} of the directory's records
   */
  RetentionTable(MemorySegment rows) {
    this.rows = rows;
    Arrays.fill(heads, NONE);
  }

  static long bytesFor(int blocksMax) {
    return (long) blocksMax * ROW_BYTES;
  }

  /** The {@link #metadataBytes} of a table for a number of blocks. */
  static long metadataBytesFor(int blocksMax) {
    return bytesFor(blocksMax) + 4L * BUCKETS;
  }

  private static long at(int block) {
    return (long) block * ROW_BYTES;
  }

  /** Memory of the table when all blocks are retained, in bytes. */
  long metadataBytes() {
    return rows.byteSize() + 4L * BUCKETS;
  }

  /** The tick at whose begin a time is over. */
  private static long tickAfter(long ns) {
    return (ns >>> TICK_SHIFT) + 1;
  }

  private static int bucket(long tick) {
    return (int) tick & (BUCKETS - 1);
  }

  private long end(int block) {
    return Integer.toUnsignedLong(rows.get(INT, at(block) + END));
  }

  /** The time at which a retained block's lifetime is over, ns. */
  public long endNs(int block) {
    return end(block) << TICK_SHIFT;
  }

  /** The retained blocks of a tenant. */
  public int blocksOf(int tenant) {
    return blocksOfTenant[tenant];
  }

  /** The bytes of a tenant's retained blocks. */
  public long bytesOf(int tenant) {
    return bytesOfTenant[tenant];
  }

  /** All retained blocks. */
  public int count() {
    return count;
  }

  void add(int block, int tenant, long bytes, long endNs) {
    count++;
    blocksOfTenant[tenant]++;
    bytesOfTenant[tenant] += bytes;
    link(block, tickAfter(endNs));
  }

  /** Moves the end of a lifetime, if it becomes later by that. */
  void prolong(int block, long endNs) {
    long end = tickAfter(endNs);
    if (end > end(block)) {
      unlink(block);
      link(block, end);
    }
  }

  void remove(int block, int tenant, long bytes) {
    count--;
    blocksOfTenant[tenant]--;
    bytesOfTenant[tenant] -= bytes;
    unlink(block);
    rows.set(INT, at(block) + END, 0);
  }

  private void link(int block, long end) {
    int bucket = bucket(end);
    int next = heads[bucket];
    rows.set(INT, at(block) + END, (int) end);
    rows.set(INT, at(block) + NEXT, next + 1);
    rows.set(INT, at(block) + PREVIOUS, 0);
    if (next != NONE) {
      rows.set(INT, at(next) + PREVIOUS, block + 1);
    }
    heads[bucket] = block;
  }

  private void unlink(int block) {
    int next = rows.get(INT, at(block) + NEXT) - 1;
    int previous = rows.get(INT, at(block) + PREVIOUS) - 1;
    if (previous == NONE) {
      heads[bucket(end(block))] = next;
    } else {
      rows.set(INT, at(previous) + NEXT, next + 1);
    }
    if (next != NONE) {
      rows.set(INT, at(next) + PREVIOUS, previous + 1);
    }
  }

  /**
   * Shows blocks whose lifetimes are over, some at a time.
   *
   * @param over removes the block from this table, and no other block
   * @return how many; call again at once while it is more than 0
   */
  public int expire(long nowNs, IntConsumer over) {
    long now = nowNs >>> TICK_SHIFT;
    if (count == 0) {
      tick = now;
      return 0;
    }
    // A turn of the wheel shows every bucket.
    tick = Math.max(tick, now - BUCKETS + 1);
    int shown = 0;
    while (true) {
      int block = heads[bucket(tick)];
      while (block != NONE) {
        int next = rows.get(INT, at(block) + NEXT) - 1;
        if (end(block) <= now) {
          if (shown == EXPIRED_MAX) {
            return shown;
          }
          over.accept(block);
          shown++;
        }
        block = next;
      }
      // The clock may be behind a time that was asked for before.
      if (tick >= now) {
        return shown;
      }
      tick++;
    }
  }

  /**
   * Checks the structure against the records, for tests.
   *
   * @param end one past the highest number of a record
   */
  void checkInvariants(IntPredicate isRetained, int end) {
    int linked = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
      int previous = NONE;
      for (int block = heads[bucket]; block != NONE; ) {
        if (++linked > count
            || bucket(end(block)) != bucket
            || !isRetained.test(block)
            || rows.get(INT, at(block) + PREVIOUS) - 1 != previous) {
          throw new IllegalStateException("the retention of block " + block + " is broken");
        }
        previous = block;
        block = rows.get(INT, at(block) + NEXT) - 1;
      }
    }
    int flagged = 0;
    for (int block = 0; block < end; block++) {
      flagged += isRetained.test(block) ? 1 : 0;
    }
    if (linked != count
        || flagged != count
        || Arrays.stream(blocksOfTenant).sum() != count
        || (count == 0 && Arrays.stream(bytesOfTenant).sum() != 0)) {
      throw new IllegalStateException(
          count + " blocks are retained, " + linked + " are linked, " + flagged + " have the flag");
    }
  }
}
