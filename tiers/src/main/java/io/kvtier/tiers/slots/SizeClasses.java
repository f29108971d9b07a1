package io.kvtier.tiers.slots;

import java.util.BitSet;

/** The size classes of a tier, each of one part of it. Confined to the index. */
final class SizeClasses {
  /** The most classes of a part. */
  static final int MAX_OF_PART = 64;

  private final long regionBytes;
  private final int slotBytesMin;
  private final int max;
  private final int[] classesOfPart;
  private final int[] partOf;
  private final int[] slotBytes;
  private final int[] slotsPerRegion;
  private final int[] regions;
  private final BitSet unused = new BitSet();
  private int count;

  /**
   * No classes yet.
   *
   * @param slotBytesMin the granularity of slot sizes, a power of two
   */
  SizeClasses(int parts, long regionBytes, int slotBytesMin) {
    this.regionBytes = regionBytes;
    this.slotBytesMin = slotBytesMin;
    max = parts * MAX_OF_PART;
    classesOfPart = new int[parts];
    partOf = new int[max];
    slotBytes = new int[max];
    slotsPerRegion = new int[max];
    regions = new int[max];
  }

  /**
   * The class for blocks of that many bytes in a part; made when it is new.
   *
   * @return {@link SlotNumbers#NONE} when a region is too small for one slot, or the part has too
   *     many classes
   */
  int of(int part, long bytes) {
    long rounded = rounded(bytes);
    for (int i = 0; i < count; i++) {
      if (slotBytes[i] == rounded && partOf[i] == part) {
        unused.clear(i);
        return i;
      }
    }
    if (rounded > regionBytes || rounded > Integer.MAX_VALUE) {
      return SlotNumbers.NONE;
    }
    int made = unusedOf(part);
    if (made == SlotNumbers.NONE) {
      if (classesOfPart[part] == MAX_OF_PART) {
        return SlotNumbers.NONE;
      }
      made = count++;
      classesOfPart[part]++;
      partOf[made] = part;
    }
    unused.clear(made);
    slotBytes[made] = (int) rounded;
    slotsPerRegion[made] = (int) (regionBytes / rounded);
    return made;
  }

  private long rounded(long bytes) {
    return (bytes + slotBytesMin - 1) / slotBytesMin * slotBytesMin;
  }

  private int unusedOf(int part) {
    int found = unused.nextSetBit(0);
    while (found >= 0 && partOf[found] != part) {
      found = unused.nextSetBit(found + 1);
    }
    return found < 0 ? SlotNumbers.NONE : found;
  }

  /** Whether blocks of that many bytes have a class in a part; makes none. */
  boolean has(int part, long bytes) {
    long rounded = rounded(bytes);
    for (int i = 0; i < count; i++) {
      if (slotBytes[i] == rounded && partOf[i] == part && !unused.get(i)) {
        return true;
      }
    }
    return false;
  }

  /** How many classes of a part are in use. */
  int inUse(int part) {
    int inUse = 0;
    for (int i = 0; i < count; i++) {
      inUse += partOf[i] == part && !unused.get(i) ? 1 : 0;
    }
    return inUse;
  }

  /** Lets classes without a region stand for other sizes, except those that are wanted. */
  void forget(BitSet wanted) {
    for (int i = 0; i < count; i++) {
      if (regions[i] == 0 && !wanted.get(i)) {
        unused.set(i);
      }
    }
  }

  /** One past the highest number that a class can have. */
  int max() {
    return max;
  }

  /** One past the highest number of a class. */
  int count() {
    return count;
  }

  int partOf(int sizeClass) {
    return partOf[sizeClass];
  }

  int slotBytes(int sizeClass) {
    return slotBytes[sizeClass];
  }

  int slotsPerRegion(int sizeClass) {
    return slotsPerRegion[sizeClass];
  }

  /** How many regions a class has. */
  int regions(int sizeClass) {
    return regions[sizeClass];
  }

  void addRegion(int sizeClass) {
    regions[sizeClass]++;
  }

  void removeRegion(int sizeClass) {
    regions[sizeClass]--;
  }
}
