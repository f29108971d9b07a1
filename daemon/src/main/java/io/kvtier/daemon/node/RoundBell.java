package io.kvtier.daemon.node;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;

/**
 * Wakes the index for the news of several rounds of a loop. An index that wakes for each block
 * takes the processor from the thread that reads the next block. Only the threads of loops may have
 * the index woken here, because other threads have no rounds; and the index itself, which looks for
 * answers before it sleeps.
 */
final class RoundBell implements Runnable {
  /** The index wakes at the end of a round with this much news, although the loop goes on. */
  static final int NEWS_MAX = 16;

  /** The index wakes at the end of a round when news has waited for this long. */
  static final long WAIT_NS_MAX = TimeUnit.MICROSECONDS.toNanos(250);

  private final Runnable bell;
  private final LongSupplier clock;
  private final AtomicInteger news = new AtomicInteger();

  /** The time of the first news that waits. */
  private volatile long sinceNs;

  RoundBell(Runnable bell, LongSupplier clock) {
    this.bell = bell;
    this.clock = clock;
  }

  /** Has the index woken at the end of this round, or of one soon after. */
  @Override
  public void run() {
    if (news.getAndIncrement() == 0) {
      sinceNs = clock.getAsLong();
    }
  }

  /**
   * A round is over.
   *
   * @param isLast whether the loop has nothing more to do
   */
  void ring(boolean isLast) {
    int waiting = news.get();
    if (waiting > 0
        && (isLast || waiting >= NEWS_MAX || clock.getAsLong() - sinceNs >= WAIT_NS_MAX)) {
      news.set(0);
      bell.run();
    }
  }
}
