package io.kvtier.daemon.index;

/** What a tenant's sessions together have of the index's pools, and the most they may. */
final class Share {
  final int operationsMax;
  final int holdsMax;
  int operations;
  int holds;

  /** Blocks in regions, of which there may be as many as holds. */
  int advertised;

  Share(int operationsMax, int holdsMax) {
    this.operationsMax = operationsMax;
    this.holdsMax = holdsMax;
  }

  /** Of one who has all to itself: the pools' own limits remain. */
  static Share unlimited() {
    return new Share(Integer.MAX_VALUE, Integer.MAX_VALUE);
  }
}
