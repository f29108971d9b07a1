package io.kvtier.tiers.slots;

import java.util.Arrays;
import java.util.BitSet;
import org.jspecify.annotations.Nullable;

/**
 * The slots that regions are cut into: the block in each used slot, and two lists of free slots for
 * each region. One list has the doubtful slots, which a client that has lost its reservation may
 * still write. Confined to the index; allocates only when a region is cut into more slots, or when
 * slots become doubtful.
 */
final class RegionSlots {
  private static final int NONE = SlotNumbers.NONE;

  private final int[] freeCount;
  private final int[] usedCount;
  private final int[] freeHead;
  private final int[] doubtfulHead;
  private final int[][] nextFree;
  private final int[][] blockOf;

  /** The size of a region's slots; 0: the region is not cut. */
  private final int[] slotBytes;

  private final DoubtfulRanges doubts;

  /** The doubtful slots of each region; null: none is. */
  private final @Nullable BitSet[] doubtful;

  /** Whether some of the slots in {@link #doubtful} may be doubtful no longer. */
  private final boolean[] hasFewerDoubts;

  /** Regions that are not cut. */
  RegionSlots(int regions) {
    freeCount = new int[regions];
    usedCount = new int[regions];
    freeHead = SlotNumbers.none(regions);
    doubtfulHead = SlotNumbers.none(regions);
    nextFree = new int[regions][];
    blockOf = new int[regions][];
    slotBytes = new int[regions];
    doubts = new DoubtfulRanges(regions);
    doubtful = new BitSet[regions];
    hasFewerDoubts = new boolean[regions];
  }

  /** Cuts a region into free slots. */
  void cut(int region, int slots, int bytes) {
    int[] next = nextFree[region];
    if (next == null || next.length != slots) {
      nextFree[region] = new int[slots];
      blockOf[region] = new int[slots];
    }
    Arrays.fill(blockOf[region], NONE);
    slotBytes[region] = bytes;
    mark(region);
    linkFree(region);
    freeCount[region] = slots;
    usedCount[region] = 0;
  }

  /** A region is not cut any more; none of its slots is used. */
  void join(int region) {
    slotBytes[region] = 0;
    freeCount[region] = 0;
    freeHead[region] = NONE;
    doubtfulHead[region] = NONE;
    doubtful[region] = null;
    hasFewerDoubts[region] = false;
  }

  /** How many slots a region is cut into; 0 when it is not cut. */
  int slots(int region) {
    return slotBytes[region] == 0 ? 0 : blockOf[region].length;
  }

  int free(int region) {
    return freeCount[region];
  }

  int used(int region) {
    return usedCount[region];
  }

  /** The block in a slot, or {@link SlotNumbers#NONE}. */
  int blockAt(int region, int index) {
    return blockOf[region][index];
  }

  /** Whether there is a free slot, or one that is not doubtful. */
  boolean hasFree(int region, boolean mayDoubt) {
    if (freeCount[region] == 0) {
      return false;
    }
    if (!mayDoubt && freeHead[region] == NONE) {
      lookAgain(region);
    }
    return mayDoubt || freeHead[region] != NONE;
  }

  /** Takes a free slot; a doubtful one only where there is no other. */
  int take(int region, int block) {
    int[] heads = freeHead[region] == NONE ? doubtfulHead : freeHead;
    int index = heads[region];
    heads[region] = nextFree[region][index];
    use(region, index, block);
    return index;
  }

  /** Takes a certain free slot. The lists are wrong until {@link #linkFree}. */
  void use(int region, int index, int block) {
    freeCount[region]--;
    usedCount[region]++;
    blockOf[region][index] = block;
  }

  /** Gives a slot back. */
  void giveBack(int region, int index) {
    blockOf[region][index] = NONE;
    link(region, index);
    freeCount[region]++;
    usedCount[region]--;
  }

  /** Puts a region's free slots into their lists, in the order of their places. */
  void linkFree(int region) {
    freeHead[region] = NONE;
    doubtfulHead[region] = NONE;
    for (int i = blockOf[region].length - 1; i >= 0; i--) {
      if (blockOf[region][i] == NONE) {
        link(region, i);
      }
    }
  }

  private void link(int region, int index) {
    int[] heads = isMarked(region, index) ? doubtfulHead : freeHead;
    nextFree[region][index] = heads[region];
    heads[region] = index;
  }

  // ---- doubts
  // ------------------------------------------------------------------------------------------------

  /** Slots that touch a range are doubtful from now on. */
  void doubt(int region, long offset, long bytes) {
    doubts.add(region, offset, bytes);
    int slots = slots(region);
    if (slots == 0) {
      return;
    }
    BitSet bits = doubtful[region];
    if (bits == null) {
      bits = new BitSet(slots);
      doubtful[region] = bits;
    }
    boolean hasFree = false;
    int end = (int) Math.min(slots, Math.ceilDiv(offset + bytes, slotBytes[region]));
    for (int i = (int) (offset / slotBytes[region]); i < end; i++) {
      bits.set(i);
      hasFree |= blockOf[region][i] == NONE;
    }
    if (hasFree) {
      linkFree(region);
    }
  }

  /** Takes a doubt back. */
  void trust(int region, long offset, long bytes) {
    doubts.remove(region, offset, bytes);
    // Many doubts end together: the slots are looked at when one is wanted.
    hasFewerDoubts[region] = true;
  }

  /** Whether there may be doubtful slots. */
  boolean hasDoubts() {
    return doubts.size() > 0;
  }

  boolean isDoubtful(int region, int index) {
    if (doubtful[region] == null) {
      return false;
    }
    lookAgain(region);
    return isMarked(region, index);
  }

  private boolean isMarked(int region, int index) {
    BitSet bits = doubtful[region];
    return bits != null && bits.get(index);
  }

  private void lookAgain(int region) {
    if (hasFewerDoubts[region]) {
      mark(region);
      linkFree(region);
    }
  }

  /** Marks the slots of a region that are doubtful. */
  private void mark(int region) {
    hasFewerDoubts[region] = false;
    doubtful[region] = doubts.touched(region, slotBytes[region], blockOf[region].length);
  }

  // ---- for tests
  // ------------------------------------------------------------------------------------------------

  /** Checks the lists and the counts of a region. */
  void checkInvariants(int region) {
    int listed = checkList(region, freeHead[region], false);
    listed += checkList(region, doubtfulHead[region], true);
    if (listed != freeCount[region] || listed + usedCount[region] != blockOf[region].length) {
      throw new IllegalStateException("region " + region + " miscounts its slots");
    }
  }

  private int checkList(int region, int head, boolean isOfDoubtful) {
    int listed = 0;
    for (int i = head; i != NONE; i = nextFree[region][i]) {
      if (blockOf[region][i] != NONE
          || isMarked(region, i) != isOfDoubtful
          || ++listed > blockOf[region].length) {
        throw new IllegalStateException("free list of region " + region + " is broken at " + i);
      }
    }
    return listed;
  }
}
