package io.kvtier.tiers.slots;

import java.util.function.IntPredicate;

/**
 * Chooses the region that the next slot of a size class comes from. Regions lie in lanes ({@link
 * RegionLanes}). Slots are taken from the lane that the caller wants, if it has any, else from the
 * lanes in turn, and from open lanes only. Confined to the index; allocates nothing.
 */
final class RegionChoice {
  private static final int NONE = SlotNumbers.NONE;

  private final SizeClasses sizes;
  private final RegionSlots slots;
  private final Regions regions;
  private final RegionWriters writers;
  private final RegionLanes lanes;
  private final int laneCount;

  /** The region that the last slot of a lane and a size class was taken from. */
  private final int[] lastRegion;

  private IntPredicate openLanes = lane -> true;
  private int nextLane;

  RegionChoice(
      SizeClasses sizes,
      RegionSlots slots,
      Regions regions,
      RegionWriters writers,
      RegionLanes lanes) {
    this.sizes = sizes;
    this.slots = slots;
    this.regions = regions;
    this.writers = writers;
    this.lanes = lanes;
    laneCount = lanes.count();
    lastRegion = SlotNumbers.none(sizes.max() * lanes.count());
  }

  int lanes() {
    return laneCount;
  }

  /** The lane that a region lies in. */
  int laneOf(int region) {
    return lanes.of(region);
  }

  /** Sets which lanes slots may be taken from now; asked at every choice. */
  void openLanes(IntPredicate open) {
    openLanes = open;
  }

  boolean isOpen(int lane) {
    return openLanes.test(lane);
  }

  /**
   * A region with a free slot, assigned to the size class.
   *
   * @param session who will write the slot, or {@link RegionWriters#DAEMON}
   * @param mayTake whether a region granted to another session may be taken over
   * @param mayDoubt whether the slot may be doubtful, if there is no other
   * @param wanted the lane to look in first, or {@link SlotNumbers#NONE}
   * @return the region, or {@link SlotNumbers#NONE}
   */
  int next(int sizeClass, long session, boolean mayTake, boolean mayDoubt, int wanted) {
    int region = NONE;
    for (int i = wanted == NONE ? 0 : -1; i < laneCount && region == NONE; i++) {
      int lane = wanted;
      if (i >= 0) {
        lane = nextLane;
        nextLane = lane + 1 == laneCount ? 0 : lane + 1;
      }
      if (openLanes.test(lane)) {
        region = inLane(sizeClass, lane, session, mayTake, mayDoubt);
      }
    }
    return region;
  }

  private int inLane(int sizeClass, int lane, long session, boolean mayTake, boolean mayDoubt) {
    int last = lastRegion[lane * sizes.max() + sizeClass];
    if (last != NONE
        && slots.hasFree(last, mayDoubt)
        && !regions.isDraining(last)
        && writers.admits(last, session)) {
      return last;
    }
    int region = find(sizeClass, lane, session, mayTake, mayDoubt);
    if (region != NONE) {
      lastRegion[lane * sizes.max() + sizeClass] = region;
    }
    return region;
  }

  private int find(int sizeClass, int lane, long session, boolean mayTake, boolean mayDoubt) {
    int takeable = NONE;
    if (regions.freeOfLane(lane, sizeClass) > 0) {
      for (int region : lanes.regions(lane)) {
        if (regions.classOf(region) == sizeClass
            && slots.hasFree(region, mayDoubt)
            && !regions.isDraining(region)) {
          if (writers.admits(region, session)) {
            return region;
          }
          takeable = region;
        }
      }
    }
    for (int region = regions.assignable(lane, sizeClass);
        region != NONE;
        region = regions.assignable(lane, sizeClass)) {
      // An empty region of another class is as good as one of none.
      if (regions.classOf(region) != NONE) {
        unassign(region);
      }
      regions.assign(region, sizeClass);
      if (slots.hasFree(region, mayDoubt)) {
        return region;
      }
    }
    return mayTake ? takeable : NONE;
  }

  /** Takes an empty region from its size class. */
  void unassign(int region) {
    int last = laneOf(region) * sizes.max() + regions.classOf(region);
    if (lastRegion[last] == region) {
      lastRegion[last] = NONE;
    }
    regions.unassign(region);
    writers.grant(region, RegionWriters.DAEMON);
  }
}
