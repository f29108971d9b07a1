package io.kvtier.tiers.object.janitor;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** A clock that stands still but for who waits on it, and the test. */
final class SimulatedClock implements JanitorClock {
  private static final long BEGIN_MS = 1_800_000_000_000L;

  private final AtomicLong ns = new AtomicLong();

  @Override
  public long nanoTime() {
    return ns.get();
  }

  @Override
  public void park(long forNs) {
    ns.addAndGet(forNs);
  }

  void passMs(long ms) {
    ns.addAndGet(TimeUnit.MILLISECONDS.toNanos(ms));
  }

  /** In ms since 1970. */
  long ms() {
    return BEGIN_MS + TimeUnit.NANOSECONDS.toMillis(ns.get());
  }
}
