package io.kvtier.policies.eviction;

import java.util.Arrays;

/**
 * What became of blocks of a class at an age, and from that, how many hits can be expected of such
 * a block for the time that it is kept.
 *
 * <p>A class is how often a block was used: once, twice, three times, four or five, more; the last
 * block of a request that was used once is a class of its own. Age is the time since the last use.
 * Time is counted in uses of the tier, in epochs of a quarter of the tier's blocks; ages double
 * from step to step. Blocks that are resident and blocks that left are watched alike, up to an age
 * of {@value #HORIZON} epochs, so that what is learned does not depend on what was kept. What
 * happened long ago counts less and less.
 *
 * <p>From the rates of reuse along the ages to come, a block's worth is the best of all plans "keep
 * it until that age, or until it is used": hits for each use of the tier that it is kept. So a
 * block that is rarely used when young and often later is worth keeping when young. It is Gittins'
 * index. Rates by class and age are as in Beckmann, Chen and Cidon, "LHD: Improving Cache Hit Rate
 * by Maximizing Hit Density", NSDI 2018; classes of requests whose reuse by age tells what to
 * evict, as in Wang et al., "KVCache Cache in the Wild", ATC 2025, where it is fitted beforehand.
 */
final class ReuseForecast {
  static final int CLASSES = 6;

  /** The last block of a request, used once. */
  static final int TAIL = 0;

  static final int AGES = 7;

  /** The epochs at the end of the first step of age. */
  private static final int FIRST_AGE = 2;

  private static final int HORIZON = FIRST_AGE << (AGES - 1);
  private static final int EPOCHS_PER_TIER = 4;

  /** Uses between the shortest epochs, so that a tiny tier does not count all the time. */
  private static final int EPOCH_USES_MIN = 16;

  /** Epochs between two forecasts. */
  private static final int FORECAST_EVERY = 2;

  /** How much is left of what was seen, an epoch later: 0.97 after the tier's blocks in uses. */
  private static final double FADING = 0.9924;

  /** How many blocks' passing through an age a guess weighs as much as. */
  private static final int GUESS_BLOCKS = 20;

  private final int epochUses;

  /** How many blocks of each class were last used in an epoch, by class and epoch. */
  private final int[] alive = new int[CLASSES * HORIZON];

  /** Reuses, by class and age. */
  private final double[] reuses = new double[CLASSES * AGES];

  /** Epochs in which a block could have been used again, by class and age. */
  private final double[] exposures = new double[CLASSES * AGES];

  private final double[] worths = new double[CLASSES * AGES];

  /** Class and age in the order of their worths, the least first. */
  private final int[] order = new int[CLASSES * AGES];

  private int epoch;
  private int usesLeft;

  /**
   * A forecast that goes by recency and uses until it has seen more.
   *
   * @param capacityBlocks the most blocks that will be resident at once
   */
  ReuseForecast(int capacityBlocks) {
    epochUses = Math.max(EPOCH_USES_MIN, capacityBlocks / EPOCHS_PER_TIER);
    usesLeft = epochUses;
    for (int i = 0; i < order.length; i++) {
      order[i] = i;
    }
    forecast();
  }

  /** The class of a block that was used so often. */
  static int classOf(int uses) {
    return uses <= 3 ? uses : uses <= 5 ? 4 : 5;
  }

  int epoch() {
    return epoch;
  }

  /** The step of age of a block that was last used in an epoch. */
  int ageOf(int lastUsed) {
    int age = epoch - lastUsed;
    return age < FIRST_AGE ? 0 : Math.min(AGES - 1, 31 - Integer.numberOfLeadingZeros(age));
  }

  /** The class times {@link #AGES} plus the age, of which there are so many less worth keeping. */
  int leastWorth(int rank) {
    return order[rank];
  }

  /** A block of a class was just used; it is watched from now on. */
  void watch(int reuseClass) {
    alive[reuseClass * HORIZON + epoch % HORIZON]++;
  }

  /** A block that is watched turned out to be of another class. */
  void reclass(int from, int to, int lastUsed) {
    if (unwatch(from, lastUsed)) {
      alive[to * HORIZON + lastUsed % HORIZON]++;
    }
  }

  /** A block that was watched is used again. */
  void onReuse(int reuseClass, int lastUsed) {
    if (unwatch(reuseClass, lastUsed)) {
      reuses[reuseClass * AGES + ageOf(lastUsed)]++;
    }
  }

  /** Ends the watch over a block; false where it has ended by age. */
  boolean unwatch(int reuseClass, int lastUsed) {
    if (epoch - lastUsed >= HORIZON) {
      return false;
    }
    alive[reuseClass * HORIZON + lastUsed % HORIZON]--;
    return true;
  }

  /** The tier is used once. */
  void tick() {
    if (--usesLeft > 0) {
      return;
    }
    usesLeft = epochUses;
    for (int c = 0; c < CLASSES; c++) {
      for (int age = 0; age < AGES; age++) {
        int at = c * AGES + age;
        reuses[at] *= FADING;
        exposures[at] *= FADING;
        int from = Math.max(0, epoch - ends(age) + 1);
        for (int e = epoch - starts(age); e >= from; e--) {
          exposures[at] += alive[c * HORIZON + e % HORIZON];
        }
      }
    }
    epoch++;
    for (int c = 0; c < CLASSES; c++) {
      alive[c * HORIZON + epoch % HORIZON] = 0;
    }
    if (epoch % FORECAST_EVERY == 0) {
      forecast();
    }
  }

  private static int starts(int age) {
    return age == 0 ? 0 : FIRST_AGE << (age - 1);
  }

  private static int ends(int age) {
    return FIRST_AGE << age;
  }

  /** Reuses for each epoch of exposure; where little was seen, nearer to a guess. */
  private double rate(int at) {
    int age = at % AGES;
    int c = at / AGES;
    int epochs = ends(age) - starts(age);
    // Who was used more often is used sooner; who was not used for long is not used so soon.
    double guess = Math.max(1, c) / (4.0 * EPOCHS_PER_TIER * (1 + age));
    return (reuses[at] + GUESS_BLOCKS / 4.0 * epochs * guess)
        / (exposures[at] + GUESS_BLOCKS / 4.0 * epochs);
  }

  private void forecast() {
    for (int c = 0; c < CLASSES; c++) {
      for (int from = 0; from < AGES; from++) {
        double unused = 1;
        double hits = 0;
        double epochs = 0;
        double best = 0;
        for (int age = from; age < AGES; age++) {
          int length = ends(age) - starts(age);
          double expected = length * rate(c * AGES + age);
          hits += unused * expected / (1 + expected);
          epochs += unused * length / (1 + expected);
          unused /= 1 + expected;
          best = Math.max(best, hits / epochs);
        }
        worths[c * AGES + from] = best;
      }
    }
    for (int i = 1; i < order.length; i++) {
      int one = order[i];
      int at = i;
      while (at > 0 && isWorthLess(one, order[at - 1])) {
        order[at] = order[at - 1];
        at--;
      }
      order[at] = one;
    }
  }

  /** Where worths are equal, the older goes first. */
  private boolean isWorthLess(int one, int other) {
    if (worths[one] != worths[other]) {
      return worths[one] < worths[other];
    }
    int byAge = one % AGES - other % AGES;
    return byAge == 0 ? one < other : byAge > 0;
  }

  long bytes() {
    return 4L * (alive.length + order.length)
        + 8L * (reuses.length + exposures.length + worths.length);
  }

  /** How many blocks are watched. */
  int watched() {
    return Arrays.stream(alive).sum();
  }

  /** Checks counts and order, for tests. */
  void checkInvariants() {
    for (int count : alive) {
      if (count < 0) {
        throw new IllegalStateException("a watch was ended twice");
      }
    }
    for (int i = 1; i < order.length; i++) {
      if (isWorthLess(order[i], order[i - 1])) {
        throw new IllegalStateException("rank " + i + " is out of order");
      }
    }
  }
}
