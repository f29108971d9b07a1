package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class SpinClockTest {
  private static final long MS = 1_000_000;

  private long nowNs = 5 * MS;
  private long processorNs = 3 * MS;
  private final SpinClock clock = new SpinClock(() -> nowNs, () -> processorNs);

  @Test
  void threadThatKeepsItsProcessor_isNotDisplaced_howeverLongItSpins() {
    clock.begin(nowNs);
    nowNs += 10 * MS;
    processorNs += 10 * MS - 10_000;
    assertFalse(clock.isDisplaced());
  }

  @Test
  void threadThatWaitsForAProcessor_isDisplaced_untilTheNextSpin() {
    clock.begin(nowNs);
    nowNs += 3 * MS;
    processorNs += 50_000;
    assertTrue(clock.isDisplaced());
    clock.begin(nowNs);
    nowNs += 50_000;
    assertFalse(clock.isDisplaced());
  }

  @Test
  void sleepBeforeASpin_doesNotCount() {
    nowNs += 20 * MS;
    clock.wake();
    clock.begin(nowNs);
    nowNs += MS;
    processorNs += MS;
    assertFalse(clock.isDisplaced());
  }
}
