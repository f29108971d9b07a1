package io.kvtier.bench;

import java.util.Arrays;

/** Order statistics of samples. */
final class Statistics {
  private Statistics() {}

  /** The middle value, or the mean of the two middle ones. The samples are not changed. */
  static double median(double... samples) {
    if (samples.length == 0) {
      throw new IllegalArgumentException("no samples have no median");
    }
    double[] sorted = samples.clone();
    Arrays.sort(sorted);
    int middle = sorted.length / 2;
    return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  /**
   * The smallest sample that at least this fraction of the samples does not exceed (nearest rank).
   *
   * @param samples sorted by this call, as far as {@code count}
   * @param fraction more than 0, at most 1
   */
  static long percentile(long[] samples, int count, double fraction) {
    if (count == 0 || count > samples.length || !(fraction > 0 && fraction <= 1)) {
      throw new IllegalArgumentException(
          "no percentile " + fraction + " of " + count + " samples of " + samples.length);
    }
    Arrays.sort(samples, 0, count);
    return samples[(int) Math.ceil(fraction * count) - 1];
  }
}
