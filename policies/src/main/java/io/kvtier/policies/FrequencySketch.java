package io.kvtier.policies;

/**
 * How often keys were seen of late, roughly: a count-min sketch of four-bit counters, four for each
 * key. After ten sightings for each place of the cache every counter has been halved once; the
 * halving goes on steadily, a word every few sightings, so that no call takes long.
 *
 * <p>Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM ToS
 * 2017, section 3.
 */
public final class FrequencySketch {
  private static final int COUNT_MAX = 15;
  private static final int SIGHTINGS_PER_PLACE = 10;
  private static final long HALVED = 0x7777_7777_7777_7777L;

  private final long[] words;
  private final int mask;

  /** Sightings between two words' halvings, and what is left of that. */
  private final double halveEvery;

  private double untilHalving;
  private int nextHalved;

  /**
   * A sketch that has seen nothing: eight to sixteen bytes for each place.
   *
   * @param places how many blocks the cache has room for
   */
  public FrequencySketch(int places) {
    int length = Integer.highestOneBit(Math.max(8, places) - 1) << 1;
    words = new long[length];
    mask = length - 1;
    halveEvery = (double) SIGHTINGS_PER_PLACE * Math.max(1, places) / length;
    untilHalving = halveEvery;
  }

  /** How often a key was seen, at most fifteen. */
  public int count(long fingerprint) {
    int least = COUNT_MAX;
    long hash = fingerprint;
    for (int row = 0; row < 4; row++) {
      hash = next(hash + row);
      least = Math.min(least, (int) (words[(int) hash & mask] >>> shift(hash)) & COUNT_MAX);
    }
    return least;
  }

  /** A key is seen. */
  public void add(long fingerprint) {
    long hash = fingerprint;
    for (int row = 0; row < 4; row++) {
      hash = next(hash + row);
      int word = (int) hash & mask;
      int shift = shift(hash);
      if ((words[word] >>> shift & COUNT_MAX) < COUNT_MAX) {
        words[word] += 1L << shift;
      }
    }
    for (untilHalving -= 1; untilHalving <= 0; untilHalving += halveEvery) {
      words[nextHalved] = words[nextHalved] >>> 1 & HALVED;
      nextHalved = (nextHalved + 1) & mask;
    }
  }

  /** The four-bit counter within a word, in bits. */
  private static int shift(long hash) {
    return (int) (hash >>> 58) & 60;
  }

  /** A row's hash from the one before: a multiplication is enough, fingerprints are mixed. */
  private static long next(long value) {
    long z = value * 0x9E3779B97F4A7C15L;
    return z ^ z >>> 29;
  }

  /** Its memory, in bytes. */
  public long bytes() {
    return 8L * words.length;
  }
}
