package io.kvtier.tiers.node;

/**
 * When a second node is asked for a block that the first has not begun to deliver: after the time
 * in which 95 of 100 fetches are over, for at most one in twenty fetches. Fetches of all lengths
 * and nodes are compared by the ratio of their time to the expected time. Confined to a reader.
 */
final class HedgeTimes {
  /** No fetch is late. */
  static final long NEVER = Long.MAX_VALUE;

  private static final double PERCENTILE = 0.95;

  /** The most second questions, as a part of all fetches. */
  private static final double SHARE_MAX = 0.05;

  /** The most second questions that follow one another. */
  private static final double BURST_MAX = 4;

  private static final int SAMPLES_MIN = 64;
  private static final int SAMPLES_MAX = 2048;
  private static final int BUCKETS_PER_OCTAVE = 4;

  /** Ratios from a sixteenth to 4096. */
  private static final int BUCKETS = 64;

  private static final int BUCKET_OF_ONE = 16;

  /** Less is below the resolution of timers. */
  private static final long LATE_NS_MIN = 1_000_000;

  private final int[] counts = new int[BUCKETS];
  private int samples;
  private double allowed;

  /** A fetch is over that was expected to take a while. */
  void learn(long expectedNs, long elapsedNs) {
    allowed = Math.min(BURST_MAX, allowed + SHARE_MAX);
    double ratio = (double) elapsedNs / (double) Math.max(1, expectedNs);
    counts[bucket(ratio)]++;
    samples++;
    if (samples >= SAMPLES_MAX) {
      samples = 0;
      for (int i = 0; i < BUCKETS; i++) {
        counts[i] /= 2;
        samples += counts[i];
      }
    }
  }

  private static int bucket(double ratio) {
    double octaves = Math.log(Math.max(ratio, 1e-9)) / Math.log(2);
    int bucket = BUCKET_OF_ONE + (int) Math.floor(octaves * BUCKETS_PER_OCTAVE);
    return Math.max(0, Math.min(BUCKETS - 1, bucket));
  }

  /**
   * After how long a fetch is late, ns.
   *
   * @return {@link #NEVER} while too little was measured
   */
  long lateNs(long expectedNs) {
    if (samples < SAMPLES_MIN) {
      return NEVER;
    }
    int left = (int) (samples * (1 - PERCENTILE));
    int bucket = BUCKETS - 1;
    while (bucket > 0 && counts[bucket] <= left) {
      left -= counts[bucket--];
    }
    double ratio = Math.pow(2, (double) (bucket + 1 - BUCKET_OF_ONE) / BUCKETS_PER_OCTAVE);
    return Math.max(LATE_NS_MIN, (long) (expectedNs * ratio));
  }

  /** Takes one second question; false if there were too many. */
  boolean take() {
    if (allowed < 1) {
      return false;
    }
    allowed--;
    return true;
  }
}
