package io.kvtier.daemon.index.core;

/**
 * Chains of a hash table's buckets, in arrays of places: the first of each, and the next of each.
 */
public final class Chains {
  private Chains() {}

  /** Takes a place out of the chain of its bucket, which it is in. */
  public static void unlink(int[] heads, int[] next, int bucket, int place) {
    if (heads[bucket] == place) {
      heads[bucket] = next[place];
      return;
    }
    int before = heads[bucket];
    while (next[before] != place) {
      before = next[before];
    }
    next[before] = next[place];
  }
}
