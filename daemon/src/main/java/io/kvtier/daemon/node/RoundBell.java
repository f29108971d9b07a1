package io.kvtier.daemon.node;

/**
 * Wakes the index once for all news of a round of a loop. An index that wakes for each block takes
 * the processor from the thread that reads the next block. Only the threads of loops may have the
 * index woken here, because other threads have no rounds.
 */
final class RoundBell implements Runnable {
  private final Runnable bell;
  private volatile boolean isDue;

  RoundBell(Runnable bell) {
    this.bell = bell;
  }

  /** Has the index woken at the end of the round. */
  @Override
  public void run() {
    if (!isDue) {
      isDue = true;
    }
  }

  /** A round is over. */
  void ring() {
    if (isDue) {
      isDue = false;
      bell.run();
    }
  }
}
