package io.kvtier.tiers.transfer;

/** How the end of a thread is waited for. */
public final class Joining {
  private Joining() {}

  /** Waits until a thread has ended, also when interrupted: the interrupt is there afterwards. */
  public static void join(Thread thread) {
    boolean interrupted = false;
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
