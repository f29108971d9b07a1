package io.kvtier.daemon.index.core;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * The copies of each block in the resident tiers, in a fixed amount of memory outside the heap: one
 * row a block, one column a tier. A tier's number is its place in the order of tiers, from 0, the
 * tier that clients read and write. Confined to the index.
 *
 * <pre>
 *   0  u16 states, four bits a tier   2  u16 flags, four bits a tier   4  i32 slot, one a tier
 * </pre>
 */
public final class CopyTable {
  /** The most tiers. */
  public static final int TIERS_MAX = 4;

  /** No slot. */
  public static final int NO_SLOT = -1;

  /** The tier counts the copy among those that can leave. */
  public static final int EVICTABLE = 1;

  /** The tier counts the copy among those that can leave, and that no other tier has. */
  public static final int ONLY_HERE = 2;

  /** The copy has no place in the order in which copies leave, because its device is fenced. */
  public static final int ASIDE = 4;

  /** An earlier daemon left the copy, and its checksum was not made since. */
  public static final int TAKEN_OVER = 8;

  /** Hears of every change that decides whether a copy can leave its tier. */
  @FunctionalInterface
  public interface Watcher {
    /**
     * The state of a block in a tier has changed, or the block is used or held now, or no longer.
     */
    void changed(int block);
  }

  private static final int RESIDENT = CopyState.RESIDENT.code();
  private static final int FLAGS = 2;
  private static final int SLOTS = 4;

  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
  private static final ValueLayout.OfShort SHORT = ValueLayout.JAVA_SHORT;

  private final MemorySegment rows;
  private final int tiers;
  private final int rowBytes;
  private Watcher watcher = block -> {};

  /**
   * A table without copies.
   *
   * @param rows memory of {@link #bytesFor} bytes, all zero
   */
  CopyTable(MemorySegment rows, int tiers) {
    if (tiers < 1 || tiers > TIERS_MAX) {
      throw new IllegalArgumentException(tiers + " tiers; 1 to " + TIERS_MAX + " are possible");
    }
    this.rows = rows;
    this.tiers = tiers;
    rowBytes = rowBytes(tiers);
  }

  private static int rowBytes(int tiers) {
    return SLOTS + Integer.BYTES * tiers;
  }

  /** The memory that a table for that many blocks takes. */
  static long bytesFor(int blocksMax, int tiers) {
    return (long) blocksMax * rowBytes(tiers);
  }

  /** The number of tiers. */
  public int tiers() {
    return tiers;
  }

  /** Sets the watcher that hears of changes. */
  public void watch(Watcher told) {
    watcher = told;
  }

  /** Tells the watcher that a block is used or held now, or no longer. */
  void changed(int block) {
    watcher.changed(block);
  }

  /** Clears the row of a new block, which has no copy. */
  void clear(int block) {
    long at = at(block);
    rows.set(INT, at, 0);
    for (int tier = 0; tier < tiers; tier++) {
      rows.set(INT, at + SLOTS + 4L * tier, NO_SLOT);
    }
  }

  /** Reads a row into the processor's cache; returns what it read. */
  int touch(int block) {
    return states(block);
  }

  private long at(int block) {
    return (long) block * rowBytes;
  }

  private int states(int block) {
    return rows.get(SHORT, at(block));
  }

  public CopyState state(int tier, int block) {
    return CopyState.of(states(block) >>> (4 * tier) & 15);
  }

  /**
   * Moves a copy to its next state.
   *
   * @throws IllegalStateException when the state can't follow the present one
   */
  public void setState(int tier, int block, CopyState next) {
    int states = states(block);
    CopyState now = CopyState.of(states >>> (4 * tier) & 15);
    if (!now.canBecome(next)) {
      throw new IllegalStateException(
          "the copy of block "
              + block
              + " in tier "
              + tier
              + " can't go from "
              + now
              + " to "
              + next);
    }
    int others = states & ~(15 << (4 * tier));
    rows.set(SHORT, at(block), (short) (others | next.code() << (4 * tier)));
    watcher.changed(block);
  }

  /** Whether the copy in a tier is resident. */
  public boolean isResident(int tier, int block) {
    return (states(block) >>> (4 * tier) & 15) == RESIDENT;
  }

  /** Whether the block is resident in the first tier, and has no copy in another tier. */
  public boolean isInFirstAlone(int block) {
    return states(block) == RESIDENT;
  }

  /** Whether the block has no copy in any tier. */
  public boolean isNowhere(int block) {
    return states(block) == 0;
  }

  /** Whether the block has a copy in another tier, in any state. */
  public boolean isElsewhere(int tier, int block) {
    return (states(block) & ~(15 << (4 * tier))) != 0;
  }

  /** Whether the block has a resident copy in another tier. */
  public boolean isResidentElsewhere(int tier, int block) {
    int states = states(block);
    for (int other = 0; other < tiers; other++) {
      if (other != tier && (states >>> (4 * other) & 15) == RESIDENT) {
        return true;
      }
    }
    return false;
  }

  /** Whether the block has a copy in this tier or in one above, in any state. */
  public boolean isDownTo(int tier, int block) {
    return (states(block) & (16 << (4 * tier)) - 1) != 0;
  }

  /** The slot of a copy, or {@link #NO_SLOT}. */
  public int slot(int tier, int block) {
    return rows.get(INT, at(block) + SLOTS + 4L * tier);
  }

  public void setSlot(int tier, int block, int slot) {
    rows.set(INT, at(block) + SLOTS + 4L * tier, slot);
  }

  /** Whether a flag of a copy is set. */
  public boolean has(int flag, int tier, int block) {
    return (rows.get(SHORT, at(block) + FLAGS) & flag << (4 * tier)) != 0;
  }

  /** Sets or clears a flag of a copy. */
  public void set(int flag, int tier, int block, boolean is) {
    int flags = rows.get(SHORT, at(block) + FLAGS);
    int bit = flag << (4 * tier);
    rows.set(SHORT, at(block) + FLAGS, (short) (is ? flags | bit : flags & ~bit));
  }
}
