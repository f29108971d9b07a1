package io.kvtier.policies.eviction;

import io.kvtier.policies.BitMixer;

/**
 * Keys without their blocks, each with the time at which it came, counted in keys. No queue: a key
 * is forgotten once so many came after it, which whoever asks tells by its age. That way neither a
 * question nor a new key touches more than one bucket of eight words: with millions of ghosts it is
 * cache misses that an operation takes. Sixteen bytes an entry, all taken at construction.
 *
 * <p>There are two words for each entry, and a bucket that is full all the same forgets its oldest
 * early: about one key in a hundred, when all entries are taken.
 */
final class AgedGhosts {
  private static final int WAYS = 8;
  private static final int WORDS_AN_ENTRY = 2;

  /** The time in the low half, which is never 0; of the key what does not name the bucket. */
  private final long[] words;

  private final int capacity;
  private final int buckets;

  /** The last key's. */
  private int now;

  /**
   * No ghosts.
   *
   * @param capacity the most that are remembered
   */
  AgedGhosts(int capacity) {
    this.capacity = capacity;
    buckets = Math.ceilDiv(Math.multiplyExact(WORDS_AN_ENTRY, capacity), WAYS);
    words = new long[Math.multiplyExact(WAYS, buckets)];
  }

  private int bucket(long mixed) {
    return WAYS * (int) (((mixed >>> Integer.SIZE) * buckets) >>> Integer.SIZE);
  }

  /**
   * How many keys came after it. An empty word is as old as the first that is forgotten: older ones
   * are written over before it, and so none grows so old that its time comes again.
   */
  private long age(long word) {
    return (int) word == 0 ? capacity : Integer.toUnsignedLong(now - (int) word);
  }

  /**
   * Forgets a key.
   *
   * @return whether it was one of the last so many, of those that there is room for
   */
  boolean remove(long fingerprint, int agesMax) {
    if (buckets == 0) {
      return false;
    }
    long mixed = BitMixer.mix(fingerprint);
    int bucket = bucket(mixed);
    int tag = (int) mixed;
    for (int i = bucket; i < bucket + WAYS; i++) {
      if ((int) (words[i] >>> Integer.SIZE) == tag && age(words[i]) < Math.min(capacity, agesMax)) {
        words[i] = 0;
        return true;
      }
    }
    return false;
  }

  /** Remembers a key as the newest; it has none here. */
  void add(long fingerprint) {
    if (buckets == 0) {
      return;
    }
    now++;
    if (now == 0) {
      now = 1;
    }
    long mixed = BitMixer.mix(fingerprint);
    int bucket = bucket(mixed);
    int oldest = bucket;
    for (int i = bucket + 1; i < bucket + WAYS; i++) {
      if (age(words[i]) > age(words[oldest])) {
        oldest = i;
      }
    }
    words[oldest] = (mixed << Integer.SIZE) | Integer.toUnsignedLong(now);
  }

  long bytes() {
    return (long) Long.BYTES * words.length;
  }
}
