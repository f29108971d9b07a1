package io.kvtier.policies.eviction;

/**
 * Keys of blocks that left, with how often and when they were used. A ring: the oldest makes room
 * for the newest. Nineteen to twenty-nine bytes an entry, all taken at construction.
 */
final class UseGhosts {
  static final int NONE = FingerprintTable.NONE;

  private static final byte EMPTY = 0;
  private static final byte TAIL = -1;

  private final long[] fingerprints;
  private final int[] epochs;

  /** Or {@link #EMPTY} where an entry is none, or {@link #TAIL} for a tail that was used once. */
  private final byte[] uses;

  private final FingerprintTable table;
  private int next;

  UseGhosts(int capacity) {
    fingerprints = new long[capacity];
    epochs = new int[capacity];
    uses = new byte[capacity];
    table = new FingerprintTable(fingerprints);
  }

  int capacity() {
    return fingerprints.length;
  }

  /** The entry of a key, or {@link #NONE}. */
  int find(long fingerprint) {
    return table.get(fingerprint);
  }

  int epoch(int ghost) {
    return epochs[ghost];
  }

  int uses(int ghost) {
    return uses[ghost] == TAIL ? 1 : uses[ghost];
  }

  int reuseClass(int ghost) {
    return uses[ghost] == TAIL ? ReuseForecast.TAIL : ReuseForecast.classOf(uses[ghost]);
  }

  /** The entry that the next {@link #add} takes the place of, or {@link #NONE}. */
  int oldest() {
    return uses[next] == EMPTY ? NONE : next;
  }

  void remove(int ghost) {
    table.remove(ghost);
    uses[ghost] = EMPTY;
  }

  /** Adds a key that is not there. The place of {@link #oldest} is free. */
  void add(long fingerprint, int reuseClass, byte usesOfIt, int epoch) {
    fingerprints[next] = fingerprint;
    uses[next] = reuseClass == ReuseForecast.TAIL ? TAIL : usesOfIt;
    epochs[next] = epoch;
    table.put(next);
    next = next + 1 == fingerprints.length ? 0 : next + 1;
  }

  long bytes() {
    return 13L * fingerprints.length + table.bytes();
  }

  int size() {
    int size = 0;
    for (byte u : uses) {
      size += u == EMPTY ? 0 : 1;
    }
    return size;
  }

  /** Checks entries and table, for tests. */
  void checkInvariants() {
    int size = 0;
    for (int i = 0; i < uses.length; i++) {
      if (uses[i] != EMPTY) {
        size++;
        if (table.get(fingerprints[i]) != i) {
          throw new IllegalStateException("ghost " + i + " is not found by its key");
        }
      }
    }
    if (size != table.count()) {
      throw new IllegalStateException(size + " ghosts, in the table " + table.count());
    }
  }
}
