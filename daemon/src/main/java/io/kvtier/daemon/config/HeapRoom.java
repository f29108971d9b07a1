package io.kvtier.daemon.config;

/** How much of the Java heap may be used for something large that stays. */
public final class HeapRoom {
  /** Of the heap, requests, answers and what is garbage only later need one part in so many. */
  private static final int RESERVED_SHARE = 8;

  private HeapRoom() {}

  /** What of a heap of that size may be used so, in bytes. */
  static long usable(long heapBytes) {
    return heapBytes - heapBytes / RESERVED_SHARE;
  }

  /**
   * What is left of that now, in bytes. Garbage is collected where there seems to be less than is
   * wanted, which takes some time, in which all threads stand still, whichever asks: only what an
   * operator wants is worth it.
   */
  public static long left(long wanted) {
    long left = left();
    if (left < wanted) {
      System.gc();
      left = left();
    }
    return left;
  }

  private static long left() {
    Runtime runtime = Runtime.getRuntime();
    long used = runtime.totalMemory() - runtime.freeMemory();
    return Math.max(0, usable(runtime.maxMemory()) - used);
  }
}
