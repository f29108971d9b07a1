package io.kvtier.tiers.slots;

import java.util.Arrays;

/**
 * The lane of each region of a tier: its device, or the NUMA node of its memory. A region stays in
 * its lane. Immutable.
 */
public final class RegionLanes {
  private final int[] laneOf;
  private final int[][] regionsOf;

  /**
   * Lanes of regions.
   *
   * @param laneOf the lane of each region, from 0 to {@code lanes - 1}
   */
  public RegionLanes(int[] laneOf, int lanes) {
    this.laneOf = laneOf.clone();
    int[] counts = new int[lanes];
    for (int lane : laneOf) {
      counts[lane]++;
    }
    regionsOf = new int[lanes][];
    for (int lane = 0; lane < lanes; lane++) {
      regionsOf[lane] = new int[counts[lane]];
    }
    Arrays.fill(counts, 0);
    for (int region = 0; region < laneOf.length; region++) {
      int lane = laneOf[region];
      regionsOf[lane][counts[lane]++] = region;
    }
  }

  /** Region r is in lane r modulo their number. */
  public static RegionLanes inTurn(int regions, int lanes) {
    int[] laneOf = new int[regions];
    Arrays.setAll(laneOf, region -> region % lanes);
    return new RegionLanes(laneOf, lanes);
  }

  int count() {
    return regionsOf.length;
  }

  /** The lane of a region. */
  int of(int region) {
    return laneOf[region];
  }

  /** The regions of a lane, which the caller only reads. */
  int[] regions(int lane) {
    return regionsOf[lane];
  }
}
