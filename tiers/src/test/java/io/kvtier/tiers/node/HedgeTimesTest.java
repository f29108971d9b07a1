package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

final class HedgeTimesTest {
  private static final long EXPECTED_NS = 10_000_000;

  @Test
  void lateNs_fewSamples_isNever() {
    HedgeTimes times = new HedgeTimes();
    for (int i = 0; i < 63; i++) {
      times.learn(EXPECTED_NS, EXPECTED_NS);
    }

    assertEquals(HedgeTimes.NEVER, times.lateNs(EXPECTED_NS));
  }

  @Test
  void lateNs_isTheTimeInWhichNineteenOfTwentyWere() {
    HedgeTimes times = new HedgeTimes();
    for (int i = 0; i < 1000; i++) {
      times.learn(EXPECTED_NS, i % 25 == 0 ? 100 * EXPECTED_NS : 2 * EXPECTED_NS);
    }

    long late = times.lateNs(EXPECTED_NS);
    assertTrue(late > 2 * EXPECTED_NS && late < 3 * EXPECTED_NS, late + " ns");
    for (int i = 0; i < 1000; i++) {
      times.learn(EXPECTED_NS, i % 10 == 0 ? 100 * EXPECTED_NS : 2 * EXPECTED_NS);
    }
    assertTrue(times.lateNs(EXPECTED_NS) > 90 * EXPECTED_NS);
  }

  @Test
  void lateNs_afterAChange_follows() {
    HedgeTimes times = new HedgeTimes();
    for (int i = 0; i < 10_000; i++) {
      times.learn(EXPECTED_NS, 50 * EXPECTED_NS);
    }
    for (int i = 0; i < 20_000; i++) {
      times.learn(EXPECTED_NS, EXPECTED_NS);
    }

    assertTrue(times.lateNs(EXPECTED_NS) < 2 * EXPECTED_NS);
  }

  @Test
  void take_givesOneInTwenty_andSavesUpAFew() {
    HedgeTimes times = new HedgeTimes();
    assertFalse(times.take());
    int taken = 0;
    for (int i = 0; i < 1000; i++) {
      times.learn(EXPECTED_NS, EXPECTED_NS);
      taken += times.take() ? 1 : 0;
    }
    assertTrue(taken >= 49 && taken <= 50, taken + " taken");
    for (int i = 0; i < 1000; i++) {
      times.learn(EXPECTED_NS, EXPECTED_NS);
    }
    int saved = 0;
    while (times.take()) {
      saved++;
    }
    assertEquals(4, saved);
  }
}
