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

  /**
   * Waits until a thread has ended, but no longer than this.
   *
   * @return false when it has not, or the caller was interrupted: what it uses must stay
   */
  public static boolean within(Thread thread, long ms) {
    try {
      thread.join(ms);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return !thread.isAlive();
  }
}
