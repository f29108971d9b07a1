package io.kvtier.daemon.index.core;

/** What the sessions of a tenant have together of the index's pools, and the most they may have. */
public final class Share {
  public final int operationsMax;
  public final int holdsMax;
  public int operations;
  public int holds;

  /** Blocks in regions, of which there may be as many as holds. */
  public int advertised;

  public Share(int operationsMax, int holdsMax) {
    this.operationsMax = operationsMax;
    this.holdsMax = holdsMax;
  }

  /** A share without limits of its own: the limits of the pools remain. */
  public static Share unlimited() {
    return new Share(Integer.MAX_VALUE, Integer.MAX_VALUE);
  }
}
