package io.kvtier.daemon.node;

/**
 * Wakes the index once for all that a round of a loop has for it. A thread that is woken for each
 * block takes the processor from the thread that reads the next one. Only the threads of loops may
 * ask for it.
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
