package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;

/**
 * Finds the number under which a key is in an array of fingerprints. Open addressing with linear
 * probing; the keys themselves stay with the owner. The owner must not change the fingerprint of a
 * number that is in the table.
 */
final class FingerprintTable {
  static final int NONE = EvictionPolicy.NONE;

  private final long[] keys;

  /** A number plus one, or 0. */
  private final int[] slots;

  private final int mask;

  /**
   * An empty table over {@code keys}, for that many numbers at most.
   *
   * @param keys the fingerprint of each number
   */
  FingerprintTable(long[] keys) {
    this.keys = keys;
    int length = Integer.highestOneBit(Math.max(4, keys.length) - 1) << 1;
    // At most three quarters full.
    if (length - length / 4 < keys.length) {
      length <<= 1;
    }
    slots = new int[length];
    mask = length - 1;
  }

  /** The number of a key, or {@link #NONE}. */
  int get(long key) {
    return slots[slotOf(key)] - 1;
  }

  /** Adds a number under its key, in place of another with the same key. */
  void put(int number) {
    slots[slotOf(keys[number])] = number + 1;
  }

  /** Takes a number out; nothing where its key has another. */
  void remove(int number) {
    int slot = slotOf(keys[number]);
    if (slots[slot] == number + 1) {
      clear(slot);
    }
  }

  private int slotOf(long key) {
    int slot = home(key);
    while (slots[slot] != 0 && keys[slots[slot] - 1] != key) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  private int home(long key) {
    return (int) (key ^ key >>> 32) & mask;
  }

  /** Empties a slot and closes the gap, so that every key is still found from its home. */
  private void clear(int emptied) {
    int gap = emptied;
    int slot = (gap + 1) & mask;
    while (slots[slot] != 0) {
      int home = home(keys[slots[slot] - 1]);
      if (((slot - home) & mask) >= ((slot - gap) & mask)) {
        slots[gap] = slots[slot];
        gap = slot;
      }
      slot = (slot + 1) & mask;
    }
    slots[gap] = 0;
  }

  /** How many keys there are; walks the table. */
  int count() {
    int count = 0;
    for (int slot : slots) {
      count += slot == 0 ? 0 : 1;
    }
    return count;
  }

  long bytes() {
    return 4L * slots.length;
  }
}
