package io.kvtier.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;

final class StatisticsTest {
  @Test
  void median_oddCount_isTheMiddle() {
    assertEquals(2, Statistics.median(9, 1, 2));
  }

  @Test
  void median_evenCount_isBetweenTheMiddleTwo() {
    assertEquals(3.5, Statistics.median(5, 1, 2, 100));
  }

  @Test
  void median_leavesTheSamplesAlone() {
    double[] samples = {3, 1, 2};
    assertEquals(2, Statistics.median(samples));
    assertEquals(3, samples[0]);
  }

  @Test
  void median_ofNothing_isRefused() {
    assertThrows(IllegalArgumentException.class, Statistics::median);
  }

  @Test
  void percentile_isANearestRank() {
    long[] samples = {50, 10, 40, 20, 30, -1};
    assertEquals(30, Statistics.percentile(samples, 5, 0.5));
    assertEquals(10, Statistics.percentile(samples, 5, 0.01));
    assertEquals(50, Statistics.percentile(samples, 5, 0.99));
    assertEquals(50, Statistics.percentile(samples, 5, 1));
  }

  @Test
  void percentile_ofNothing_isRefused() {
    assertThrows(IllegalArgumentException.class, () -> Statistics.percentile(new long[3], 0, 0.5));
    assertThrows(IllegalArgumentException.class, () -> Statistics.percentile(new long[3], 4, 0.5));
    assertThrows(IllegalArgumentException.class, () -> Statistics.percentile(new long[3], 3, 0));
  }

  @Property
  void percentile_coversItsFractionAndNoSmallerSampleDoes(
      @ForAll @Size(min = 1, max = 50) long[] samples,
      @ForAll @IntRange(min = 1, max = 100) int percent) {
    long answer = Statistics.percentile(samples, samples.length, percent / 100.0);
    int below = 0;
    int upTo = 0;
    for (long sample : samples) {
      below += sample < answer ? 1 : 0;
      upTo += sample <= answer ? 1 : 0;
    }
    assertEquals(true, upTo >= samples.length * (percent / 100.0) - 1e-9);
    assertEquals(true, below < samples.length * (percent / 100.0) + 1e-9);
  }
}
