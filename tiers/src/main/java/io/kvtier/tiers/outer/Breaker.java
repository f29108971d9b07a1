package io.kvtier.tiers.outer;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;

/**
 * Keeps reads away from a source that does not answer: for a while after several failures in a row,
 * and as long as all its threads are stuck in reads. Safe for several threads.
 */
final class Breaker {
  private static final int FAILURES_MAX = 8;
  private static final long REST_NS = TimeUnit.SECONDS.toNanos(5);
  private static final long STUCK_NS = TimeUnit.SECONDS.toNanos(10);

  private final int threads;
  private final LongSupplier clock;
  private final AtomicInteger failures = new AtomicInteger();
  private final AtomicInteger busy = new AtomicInteger();
  private volatile long changedNs;
  private volatile long failedNs;

  Breaker(int threads, LongSupplier clock) {
    this.threads = threads;
    this.clock = clock;
  }

  /** A read begins. */
  void begin() {
    changedNs = clock.getAsLong();
    busy.incrementAndGet();
  }

  /** The source has answered. */
  void answered() {
    failures.set(0);
    end();
  }

  /** The source has failed. */
  void failed() {
    failedNs = clock.getAsLong();
    failures.incrementAndGet();
    end();
  }

  private void end() {
    changedNs = clock.getAsLong();
    busy.decrementAndGet();
  }

  /** Whether a read would be tried now. */
  boolean lets() {
    long now = clock.getAsLong();
    boolean rests = failures.get() >= FAILURES_MAX && now - failedNs < REST_NS;
    boolean isStuck = busy.get() >= threads && now - changedNs >= STUCK_NS;
    return !rests && !isStuck;
  }
}
