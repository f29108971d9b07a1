package io.kvtier.tiers.slots;

import java.util.Arrays;

/**
 * The numbers of slots: an int with the region in the high bits, and the index in the low bits.
 *
 * @param indexBits the number of low bits
 */
record SlotNumbers(int indexBits) {
  /** No slot, no region, no block. */
  static final int NONE = -1;

  /** An array that holds {@link #NONE} everywhere. */
  static int[] none(int length) {
    int[] array = new int[length];
    Arrays.fill(array, NONE);
    return array;
  }

  /**
   * Numbers for regions of up to that many slots each.
   *
   * @throws IllegalArgumentException where an int has too few bits
   */
  static SlotNumbers of(int regions, long slotsMax) {
    int indexBits = indexBits(slotsMax);
    if (!fits(regions, indexBits)) {
      throw new IllegalArgumentException(
          regions
              + " regions of "
              + slotsMax
              + " slots are more than 2^31 slots: choose fewer, larger regions");
    }
    return new SlotNumbers(indexBits);
  }

  /** The finest granularity, from a least one upward, at which every slot has a number. */
  static int granularity(int regions, long regionBytes, int least) {
    int granularity = least;
    while (!fits(regions, indexBits(regionBytes / granularity)) && granularity < 1 << 30) {
      granularity *= 2;
    }
    return granularity;
  }

  private static int indexBits(long slotsMax) {
    return 64 - Long.numberOfLeadingZeros(Math.max(1, slotsMax) - 1);
  }

  private static boolean fits(int regions, int indexBits) {
    return indexBits < 31 && ((long) regions << indexBits) <= Integer.MAX_VALUE + 1L;
  }

  int slot(int region, int index) {
    return region << indexBits | index;
  }

  int region(int slot) {
    return slot >>> indexBits;
  }

  int index(int slot) {
    return slot & ((1 << indexBits) - 1);
  }
}
