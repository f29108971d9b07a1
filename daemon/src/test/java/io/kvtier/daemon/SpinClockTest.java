package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class SpinClockTest {
  private static final long MS = 1_000_000;

  private long nowNs = 5 * MS;
  private long processorNs = 3 * MS;
  private int readings;
  private final SpinClock clock =
      new SpinClock(
          () -> nowNs,
          () -> {
            readings++;
            return processorNs;
          });

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
    nowNs += MS;
    processorNs += MS;
    assertFalse(clock.isDisplaced());
  }

  @Test
  void sleepBeforeASpin_doesNotCount() {
    clock.begin(nowNs);
    nowNs += MS;
    clock.wake();
    clock.begin(nowNs);
    nowNs += MS;
    processorNs += MS;
    assertFalse(clock.isDisplaced());
  }

  @Test
  void shortWaitsOfALongTime_doNotAddUp() {
    for (int i = 0; i < 100; i++) {
      clock.begin(nowNs);
      nowNs += MS;
      processorNs += MS - 20_000;
    }
    assertFalse(clock.isDisplaced());
  }

  @Test
  void processorTime_isReadOnceASleep_andNotForShortSpins() {
    clock.begin(nowNs);
    for (int i = 0; i < 100; i++) {
      clock.begin(nowNs);
      nowNs += 50_000;
      assertFalse(clock.isDisplaced());
      clock.wake();
      clock.wake();
    }
    assertEquals(100, readings);
  }
}
