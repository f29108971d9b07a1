package io.kvtier.daemon;

import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Has the object tier's cap looked after, from time to time. */
final class Collector implements AutoCloseable {
  private final ScheduledExecutorService timer =
      Executors.newSingleThreadScheduledExecutor(
          Thread.ofPlatform().daemon().name("kvtier-collector").factory());

  /**
   * Begins at any time within the period: nodes that start together take turns.
   *
   * @param turn begins one, and does not wait for its end
   * @param everyNs more than 0
   * @param defect told of what should never happen: the cap is not looked after any more
   */
  Collector(Runnable turn, long everyNs, Consumer<Throwable> defect) {
    long first = ThreadLocalRandom.current().nextLong(everyNs);
    var _ =
        timer.scheduleWithFixedDelay(
            () -> take(turn, defect), first, everyNs, TimeUnit.NANOSECONDS);
  }

  // What a scheduled task throws, the timer keeps to itself, and never runs it again.
  private static void take(Runnable turn, Consumer<Throwable> defect) {
    try {
      turn.run();
    } catch (RuntimeException | Error e) {
      defect.accept(e);
    }
  }

  @Override
  public void close() {
    timer.shutdownNow();
  }
}
