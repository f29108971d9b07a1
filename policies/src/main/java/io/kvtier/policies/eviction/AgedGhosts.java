package io.kvtier.policies.eviction;

import io.kvtier.policies.BitMixer;

/**
 * Keys without their blocks, first in, first out. Each has the time at which it came, counted in
 * keys, and is forgotten when the first time that counts has passed it. That way neither a question
 * nor a new key touches more than one bucket of eight words, and a bit that says whether the key of
 * a time is there: with millions of ghosts it is cache misses that an operation takes. Sixteen and
 * a half bytes an entry at most, all taken at construction.
 *
 * <p>There are two words for each entry, and a bucket that is full all the same forgets its oldest
 * early: about one key in a hundred, when all entries are taken.
 */
final class AgedGhosts {
  private static final int WAYS = 8;
  private static final int WORDS_AN_ENTRY = 4;

  /** So many times for each entry: of half of them, the key may have been taken out. */
  private static final int TIMES_AN_ENTRY = 2;

  /** The time in the low half, which is never 0; of the key what does not name the bucket. */
  private final long[] words;

  private final int buckets;

  /** A bit for each of the last times: whether its key is there. */
  private final long[] present;

  private final int timesMask;

  /** The last key's time. */
  private int now;

  /** What came before it is forgotten. */
  private int first = 1;

  private int size;

  /**
   * No ghosts.
   *
   * @param capacity the most that are remembered
   */
  AgedGhosts(int capacity) {
    buckets = Math.ceilDiv(Math.multiplyExact(WORDS_AN_ENTRY, capacity), WAYS);
    words = new long[Math.multiplyExact(WAYS, buckets)];
    int times = Integer.highestOneBit(Math.max(Long.SIZE, TIMES_AN_ENTRY * capacity) - 1) << 1;
    timesMask = times - 1;
    present = new long[times / Long.SIZE];
  }

  private int bucket(long mixed) {
    return WAYS * (int) (((mixed >>> Integer.SIZE) * buckets) >>> Integer.SIZE);
  }

  private boolean isThere(long word) {
    return (int) word != 0 && now - (int) word >= 0 && (int) word - first >= 0;
  }

  private boolean isPresent(int time) {
    return (present[(time & timesMask) >>> 6] & 1L << time) != 0;
  }

  private void flip(int time) {
    present[(time & timesMask) >>> 6] ^= 1L << time;
  }

  /**
   * Forgets a key.
   *
   * @return whether it was there
   */
  boolean remove(long fingerprint) {
    if (buckets == 0) {
      return false;
    }
    long mixed = BitMixer.mix(fingerprint);
    int bucket = bucket(mixed);
    int tag = (int) mixed;
    for (int i = bucket; i < bucket + WAYS; i++) {
      if ((int) (words[i] >>> Integer.SIZE) == tag && isThere(words[i])) {
        flip((int) words[i]);
        words[i] = 0;
        size--;
        return true;
      }
    }
    return false;
  }

  /**
   * Remembers a key that is not there as the newest.
   *
   * @param sizeMax the oldest go until no more than so many are there
   */
  void add(long fingerprint, int sizeMax) {
    if (buckets == 0) {
      return;
    }
    now++;
    if (now == 0) {
      now++;
    }
    // One time is another's bit, so many times later.
    while (now - first > timesMask) {
      forgetFirst();
    }
    long mixed = BitMixer.mix(fingerprint);
    int bucket = bucket(mixed);
    int place = bucket;
    for (int i = bucket; i < bucket + WAYS; i++) {
      if (!isThere(words[i])) {
        place = i;
        break;
      }
      if ((int) words[i] - (int) words[place] < 0) {
        place = i;
      }
    }
    if (isThere(words[place])) {
      flip((int) words[place]);
      size--;
    }
    words[place] = (mixed << Integer.SIZE) | Integer.toUnsignedLong(now);
    flip(now);
    size++;
    while (size > Math.max(0, sizeMax)) {
      forgetFirst();
    }
  }

  private void forgetFirst() {
    if (isPresent(first)) {
      flip(first);
      size--;
    }
    first++;
  }

  int size() {
    return size;
  }

  long bytes() {
    return (long) Long.BYTES * (words.length + present.length);
  }

  /** Checks words and bits against each other, for tests. */
  void checkInvariants() {
    int there = 0;
    for (long word : words) {
      if (isThere(word)) {
        there++;
        if (!isPresent((int) word)) {
          throw new IllegalStateException("the ghost of time " + (int) word + " has no bit");
        }
      }
    }
    int bits = 0;
    for (long word : present) {
      bits += Long.bitCount(word);
    }
    if (there != size || bits != size) {
      throw new IllegalStateException(
          size + " ghosts are counted, " + there + " are there, with " + bits + " bits");
    }
  }
}
