package io.kvtier.daemon;

import io.kvtier.tiers.object.janitor.JanitorTask;
import io.kvtier.tiers.object.janitor.ObjectJanitor;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** Has the object tier's cap looked after, from time to time. */
final class Collector implements AutoCloseable {
  private final ScheduledExecutorService timer =
      Executors.newSingleThreadScheduledExecutor(
          Thread.ofPlatform().daemon().name("kvtier-collector").factory());

  /** Begins at any time within the period: nodes that start together take turns. */
  Collector(ObjectJanitor janitor, long everyNs) {
    long first = ThreadLocalRandom.current().nextLong(1 + everyNs);
    var _ =
        timer.scheduleWithFixedDelay(
            // Where an operator's task is under way, this turn is left out.
            () -> janitor.start(new JanitorTask.Gc()), first, everyNs, TimeUnit.NANOSECONDS);
  }

  @Override
  public void close() {
    timer.shutdownNow();
  }
}
