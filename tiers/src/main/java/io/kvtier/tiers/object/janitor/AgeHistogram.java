package io.kvtier.tiers.object.janitor;

import java.util.Arrays;

/**
 * How many bytes have which age, to 1 part in 64. The same few KiB for any number of objects: it is
 * why a collector needs no memory for each.
 */
final class AgeHistogram {
  private static final int SUB_BITS = 6;
  private static final int SUBS = 1 << SUB_BITS;
  private static final int BUCKETS = (Long.SIZE - SUB_BITS) * SUBS;

  private final long[] bytes = new long[BUCKETS];

  /** The bucket of an age in ms: the older, the higher. */
  static int bucket(long ageMs) {
    if (ageMs < SUBS) {
      return (int) Math.max(0, ageMs);
    }
    int shift = Long.SIZE - 1 - Long.numberOfLeadingZeros(ageMs) - SUB_BITS;
    return (shift + 1) * SUBS + (int) (ageMs >>> shift) - SUBS;
  }

  void clear() {
    Arrays.fill(bytes, 0);
  }

  void add(int bucket, long count) {
    bytes[bucket] += count;
  }

  /**
   * What is old enough to go, so that at least so many bytes do: all of the older buckets, and of
   * the bucket in the middle as many bytes as are needed.
   */
  Oldest oldest(long wanted) {
    long missing = wanted;
    for (int bucket = BUCKETS - 1; bucket >= 0; bucket--) {
      if (bytes[bucket] >= missing) {
        return new Oldest(bucket, missing);
      }
      missing -= bytes[bucket];
    }
    return new Oldest(0, Long.MAX_VALUE);
  }

  /**
   * The oldest objects.
   *
   * @param bucket of the youngest of them
   * @param ofBucket how many bytes of that bucket; all of higher ones
   */
  record Oldest(int bucket, long ofBucket) {}
}
