package io.kvtier.tiers.node;

/** The numbers of at most four nodes, in one long; {@link #NONE} of none. */
final class Holders {
  static final long NONE = 0;

  /** The most nodes. */
  static final int MAX = 4;

  /** The highest number, exclusive. */
  static final int NUMBERS_MAX = 0xffff;

  private static final int BITS = 16;
  private static final long MASK = 0xffff;

  private Holders() {}

  /** The number at a place; -1 if there is none. */
  static int at(long holders, int place) {
    return (int) (holders >>> (place * BITS) & MASK) - 1;
  }

  static boolean has(long holders, int number) {
    return placeOf(holders, number) >= 0;
  }

  private static int placeOf(long holders, int number) {
    for (int place = 0; place < MAX; place++) {
      if (at(holders, place) == number) {
        return place;
      }
    }
    return -1;
  }

  /** Adds a node, unless there are four. */
  static long add(long holders, int number) {
    int free = placeOf(holders, -1);
    return free < 0 || has(holders, number)
        ? holders
        : holders | (long) (number + 1) << (free * BITS);
  }

  static long remove(long holders, int number) {
    int place = placeOf(holders, number);
    return place < 0 ? holders : holders & ~(MASK << (place * BITS));
  }
}
