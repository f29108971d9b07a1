package io.kvtier.daemon.index;

/** How much of the Java heap is left for something large. */
final class HeapRoom {
  /** Requests, answers and what is garbage only later need some of it. */
  private static final int RESERVED_SHARE = 8;

  private HeapRoom() {}

  /**
   * In bytes. Garbage is collected where there seems to be less than is wanted, which takes some
   * time.
   */
  static long left(long wanted) {
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
    return Math.max(0, runtime.maxMemory() / RESERVED_SHARE * (RESERVED_SHARE - 1) - used);
  }
}
