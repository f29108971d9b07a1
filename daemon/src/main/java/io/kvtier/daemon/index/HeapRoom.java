package io.kvtier.daemon.index;

import io.kvtier.daemon.config.MachineCheck;

/** How much of the Java heap is left for something large. */
final class HeapRoom {
  private HeapRoom() {}

  /**
   * In bytes. Garbage is collected where there seems to be less than is wanted, which takes some
   * time, in which all threads stand still, whichever asks: only what an operator wants is worth
   * it.
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
    return Math.max(0, MachineCheck.heapFor(runtime.maxMemory()) - used);
  }
}
