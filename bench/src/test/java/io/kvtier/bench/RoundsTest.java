package io.kvtier.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

final class RoundsTest {
  @Test
  void measure_throwsWarmUpsAwayAndTakesMedians() throws Exception {
    int[] calls = {0};
    Rounds rounds =
        Rounds.measure(
            2,
            3,
            into -> {
              int call = calls[0]++;
              into.add("value", call);
              into.add("limit", 10 * call);
            });
    assertEquals(5, calls[0]);
    assertEquals(3, rounds.median("value"));
    assertEquals(new Row("value", 3, "us", "limit", 30), rounds.row("value", "us", "limit"));
    assertEquals(
        new Row("value", 3, "us", "half", 15),
        rounds.row("value", "us", "half", "limit", v -> v / 2));
  }

  @Test
  void median_ofWhatWasNotMeasured_namesWhatWas() throws Exception {
    Rounds rounds = Rounds.measure(0, 1, into -> into.add("value", 1));
    IllegalArgumentException refusal =
        assertThrows(IllegalArgumentException.class, () -> rounds.median("limit"));
    assertEquals("nothing was measured as limit, only [value]", refusal.getMessage());
  }
}
