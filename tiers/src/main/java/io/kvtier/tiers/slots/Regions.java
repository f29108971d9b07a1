package io.kvtier.tiers.slots;

import java.util.Arrays;

/**
 * The regions of a tier: the part of the tier that each is of, the size class that it is assigned
 * to, and its slots. One region of each part may be emptied at a time, so that another class can
 * have it. Confined to the index.
 */
final class Regions {
  private static final int NONE = SlotNumbers.NONE;

  private final SizeClasses sizes;
  private final RegionSlots slots;
  private final int[] partOf;
  private final int[] regionsOfPart;
  private final int[] classOf;
  private final int[] unassigned;
  private final int[] draining;
  private final RegionLanes lanes;

  /** Free slots of each lane and size class. */
  private final int[] freeOfLane;

  /** Where the free slots of a region's lane begin in {@link #freeOfLane}. */
  private final int[] laneAt;

  /** Whether a lane may have regions of a part without a used slot. */
  private final boolean[] mayHaveEmpty;

  private int drains;
  private long bytesUsed;
  private int slotsTotal;
  private int slotsFree;

  /** Regions of no size class, each of a part. */
  Regions(int[] partOf, int parts, SizeClasses sizes, RegionSlots slots, RegionLanes lanes) {
    this.partOf = partOf.clone();
    this.sizes = sizes;
    this.slots = slots;
    this.lanes = lanes;
    regionsOfPart = new int[parts];
    freeOfLane = new int[lanes.count() * sizes.max()];
    laneAt = new int[partOf.length];
    mayHaveEmpty = new boolean[lanes.count() * parts];
    for (int region = 0; region < partOf.length; region++) {
      regionsOfPart[partOf[region]]++;
      mayHaveEmpty[placeOf(region)] = true;
      laneAt[region] = lanes.of(region) * sizes.max();
    }
    unassigned = regionsOfPart.clone();
    draining = SlotNumbers.none(parts);
    classOf = SlotNumbers.none(partOf.length);
  }

  /** The place of a region's lane and part in {@link #mayHaveEmpty}. */
  private int placeOf(int region) {
    return lanes.of(region) * regionsOfPart.length + partOf[region];
  }

  int count() {
    return classOf.length;
  }

  int parts() {
    return regionsOfPart.length;
  }

  int partOf(int region) {
    return partOf[region];
  }

  int regionsOfPart(int part) {
    return regionsOfPart[part];
  }

  /** The size class of a region, or {@link SlotNumbers#NONE}. */
  int classOf(int region) {
    return classOf[region];
  }

  /**
   * A region of a lane that is empty and can be assigned to another size class than its own, or
   * {@link SlotNumbers#NONE}. Looks at all regions only if one may be empty.
   */
  int assignable(int lane, int sizeClass) {
    int part = sizes.partOf(sizeClass);
    int place = lane * regionsOfPart.length + part;
    if (!mayHaveEmpty[place]) {
      return NONE;
    }
    boolean hasEmpty = false;
    for (int region : lanes.regions(lane)) {
      if (slots.used(region) == 0 && partOf[region] == part) {
        if (classOf[region] != sizeClass && !isDraining(region)) {
          return region;
        }
        hasEmpty = true;
      }
    }
    mayHaveEmpty[place] = hasEmpty;
    return NONE;
  }

  void assign(int region, int sizeClass) {
    int count = sizes.slotsPerRegion(sizeClass);
    classOf[region] = sizeClass;
    slots.cut(region, count, sizes.slotBytes(sizeClass));
    sizes.addRegion(sizeClass);
    freeOfLane[laneAt[region] + sizeClass] += count;
    slotsFree += count;
    slotsTotal += count;
    unassigned[partOf[region]]--;
  }

  /** A region without used slots is of no size class any more. */
  void unassign(int region) {
    int sizeClass = classOf[region];
    int free = slots.free(region);
    freeOfLane[laneAt[region] + sizeClass] -= free;
    slotsFree -= free;
    slotsTotal -= free;
    sizes.removeRegion(sizeClass);
    classOf[region] = NONE;
    slots.join(region);
    unassigned[partOf[region]]++;
  }

  // ---- slots
  // ------------------------------------------------------------------------------------------------

  /** Takes a free slot of a region; returns its index. */
  int take(int region, int block) {
    int index = slots.take(region, block);
    countTaken(region);
    return index;
  }

  /** Takes a certain free slot. The lists of free slots are wrong until the adoption ends. */
  void adopt(int region, int index, int block) {
    slots.use(region, index, block);
    countTaken(region);
  }

  private void countTaken(int region) {
    int sizeClass = classOf[region];
    freeOfLane[laneAt[region] + sizeClass]--;
    slotsFree--;
    bytesUsed += sizes.slotBytes(sizeClass);
  }

  /** Gives a slot back. */
  void giveBack(int region, int index) {
    int sizeClass = classOf[region];
    slots.giveBack(region, index);
    freeOfLane[laneAt[region] + sizeClass]++;
    if (slots.used(region) == 0) {
      mayHaveEmpty[placeOf(region)] = true;
    }
    slotsFree++;
    bytesUsed -= sizes.slotBytes(sizeClass);
  }

  /** Links the slots that {@link #adopt} left free. */
  void endAdoption() {
    for (int region = 0; region < classOf.length; region++) {
      if (classOf[region] != NONE) {
        slots.linkFree(region);
      }
    }
  }

  // ---- draining
  // ------------------------------------------------------------------------------------------------

  /** Begins to empty a region that has used slots. */
  void drain(int region) {
    draining[partOf[region]] = region;
    drains++;
  }

  /** Gives up emptying a part's region. */
  void undrain(int part) {
    drains -= draining[part] == NONE ? 0 : 1;
    draining[part] = NONE;
  }

  boolean isDraining(int region) {
    return draining[partOf[region]] == region;
  }

  boolean isAnyDraining() {
    return drains > 0;
  }

  /** The region of a part that is being emptied, or {@link SlotNumbers#NONE}. */
  int draining(int part) {
    return draining[part];
  }

  // ---- counts
  // ------------------------------------------------------------------------------------------------

  /** Free slots in the regions of a size class. */
  int freeOfClass(int sizeClass) {
    int free = freeOfLane[sizeClass];
    for (int at = sizeClass + sizes.max(); at < freeOfLane.length; at += sizes.max()) {
      free += freeOfLane[at];
    }
    return free;
  }

  /** Free slots in the regions of a lane and a size class. */
  int freeOfLane(int lane, int sizeClass) {
    return freeOfLane[lane * sizes.max() + sizeClass];
  }

  /** How many regions of a part are of no size class. */
  int unassigned(int part) {
    return unassigned[part];
  }

  int slotsTotal() {
    return slotsTotal;
  }

  int slotsFree() {
    return slotsFree;
  }

  long bytesUsed() {
    return bytesUsed;
  }

  /** The bytes of a part's used slots; looks at all regions. */
  long bytesUsed(int part) {
    long bytes = 0;
    for (int region = 0; region < classOf.length; region++) {
      if (partOf[region] == part && slots.used(region) > 0) {
        bytes += (long) slots.used(region) * sizes.slotBytes(classOf[region]);
      }
    }
    return bytes;
  }

  /** Checks the structure, for tests. */
  void checkInvariants() {
    int free = 0;
    int total = 0;
    long used = 0;
    int[] freeHere = new int[freeOfLane.length];
    for (int region = 0; region < classOf.length; region++) {
      if (slots.used(region) == 0 && !mayHaveEmpty[placeOf(region)]) {
        throw new IllegalStateException("region " + region + " is empty, and is not looked for");
      }
      if (classOf[region] == NONE) {
        continue;
      }
      freeHere[laneAt[region] + classOf[region]] += slots.free(region);
      if (sizes.partOf(classOf[region]) != partOf[region]) {
        throw new IllegalStateException("region " + region + " has a class of another part");
      }
      slots.checkInvariants(region);
      free += slots.free(region);
      total += slots.slots(region);
      used += (long) slots.used(region) * sizes.slotBytes(classOf[region]);
    }
    if (!Arrays.equals(freeHere, freeOfLane)) {
      throw new IllegalStateException("the free slots of lanes do not add up");
    }
    if (free != slotsFree || total != slotsTotal || used != bytesUsed) {
      throw new IllegalStateException(
          "slots do not add up: free "
              + free
              + "/"
              + slotsFree
              + ", total "
              + total
              + "/"
              + slotsTotal);
    }
  }
}
