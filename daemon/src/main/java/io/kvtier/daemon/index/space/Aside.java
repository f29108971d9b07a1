package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.LongQueue;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.Arrays;
import java.util.function.IntPredicate;

/**
 * Copies of a tier that stand outside of the order in which copies leave, as their devices are
 * fenced: to evict them makes no room, and a search that met them in its way would meet them again
 * and again. They come back when their device takes stores again. Confined to the index.
 */
final class Aside {
  /** How many copies one search sets aside. */
  private static final int BARRED_MAX = 1024;

  /** How many of a device's come back in a round. */
  private static final int RETURNS_PER_ROUND = 256;

  /** The order in which copies leave. Whether a copy is aside has changed when it is told. */
  interface Order {
    /** A copy stands in it no longer. */
    void leave(int block);

    /** A copy stands in it again, as the newest. */
    void comeBack(int block);
  }

  private final int tier;
  private final CopyTable copies;
  private final SlotAllocator slots;
  private final Order order;
  private final int[] barred = new int[BARRED_MAX];

  /** What was set aside, for each lane; some may have left since, or come back. */
  private final LongQueue[] ofLane;

  private IntPredicate isFenced = lane -> false;
  private int barredCount;
  private int size;

  /** There are none, and no device is fenced. */
  Aside(int tier, CopyTable copies, SlotAllocator slots, Order order) {
    this.tier = tier;
    this.copies = copies;
    this.slots = slots;
    this.order = order;
    ofLane = new LongQueue[slots.lanes()];
    Arrays.setAll(ofLane, lane -> new LongQueue(Integer.MAX_VALUE));
  }

  /** Asks from now on which lanes are fenced. */
  void setOn(IntPredicate fenced) {
    isFenced = fenced;
  }

  boolean has(int block) {
    return size > 0 && copies.has(CopyTable.ASIDE, tier, block);
  }

  int size() {
    return size;
  }

  /**
   * A copy leaves the tier.
   *
   * @return whether it was aside
   */
  boolean remove(int block) {
    boolean was = has(block);
    if (was) {
      mark(block, false);
    }
    return was;
  }

  /**
   * Notes a copy in the way of a search, where it can be set aside.
   *
   * @return whether the search has met too many of them to go on: it ends with this one
   */
  boolean isOneTooMany(int block, int region) {
    if (!isFenced.test(slots.laneOf(region)) || region == slots.draining(slots.partOf(region))) {
      return false;
    }
    if (barredCount == barred.length) {
      return true;
    }
    barred[barredCount++] = block;
    return false;
  }

  /** Sets aside what the search that has ended met in its way. */
  void takeBarred() {
    for (int i = 0; i < barredCount; i++) {
      int block = barred[i];
      // One search may have met it twice.
      if (!has(block)) {
        mark(block, true);
        var _ = ofLane[laneOf(block)].offer(block);
        order.leave(block);
      }
    }
    barredCount = 0;
  }

  /** Has copies come back whose devices are no longer fenced, some a round. */
  void comeBack() {
    for (int lane = 0; size > 0 && lane < ofLane.length; lane++) {
      if (isFenced.test(lane)) {
        continue;
      }
      LongQueue queue = ofLane[lane];
      for (int i = 0; i < RETURNS_PER_ROUND && queue.size() > 0; i++) {
        int block = (int) queue.poll();
        // The number may be another block's meanwhile, on another device.
        if (has(block) && laneOf(block) == lane) {
          mark(block, false);
          order.comeBack(block);
        }
      }
    }
  }

  private void mark(int block, boolean isAside) {
    copies.set(CopyTable.ASIDE, tier, block, isAside);
    size += isAside ? 1 : -1;
  }

  private int laneOf(int block) {
    return slots.laneOf(slots.regionOf(copies.slot(tier, block)));
  }
}
