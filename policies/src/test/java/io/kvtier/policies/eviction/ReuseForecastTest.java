package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** The forecast is held to a plain program that watches each block by itself. */
class ReuseForecastTest {
  private static final int CLASSES = ReuseForecast.CLASSES;
  private static final int AGES = ReuseForecast.AGES;
  private static final int HORIZON = 128;

  private static final class Watched {
    private int reuseClass;
    private final int lastUsed;

    Watched(int reuseClass, int lastUsed) {
      this.reuseClass = reuseClass;
      this.lastUsed = lastUsed;
    }
  }

  /** What the forecast should come to. */
  private static final class Plain {
    private final List<Watched> watched = new ArrayList<>();
    private final double[][] reuses = new double[CLASSES][AGES];
    private final double[][] exposures = new double[CLASSES][AGES];
    private double[][] worths = new double[CLASSES][AGES];
    private int epoch;

    Plain() {
      forecast();
    }

    static int age(int epochs) {
      int age = 0;
      while (age < AGES - 1 && epochs >= 2 << age) {
        age++;
      }
      return age;
    }

    private static int length(int age) {
      return age == 0 ? 2 : (2 << age) - (1 << age);
    }

    void endEpoch() {
      for (int c = 0; c < CLASSES; c++) {
        for (int age = 0; age < AGES; age++) {
          reuses[c][age] *= 0.9924;
          exposures[c][age] *= 0.9924;
        }
      }
      for (Watched one : watched) {
        exposures[one.reuseClass][age(epoch - one.lastUsed)]++;
      }
      epoch++;
      watched.removeIf(one -> epoch - one.lastUsed >= HORIZON);
      if (epoch % 2 == 0) {
        forecast();
      }
    }

    private void forecast() {
      double[][] next = new double[CLASSES][AGES];
      for (int c = 0; c < CLASSES; c++) {
        for (int from = 0; from < AGES; from++) {
          for (int until = from; until < AGES; until++) {
            next[c][from] = Math.max(next[c][from], plan(c, from, until));
          }
        }
      }
      worths = next;
    }

    /**
     * Hits for each epoch, of a block that is kept until the end of an age, or until it is used.
     */
    private double plan(int c, int from, int until) {
      double left = 1;
      double hits = 0;
      double epochs = 0;
      for (int age = from; age <= until; age++) {
        double guess = Math.max(1, c) / (16.0 * (1 + age));
        double weight = 5.0 * length(age);
        double rate = (reuses[c][age] + weight * guess) / (exposures[c][age] + weight);
        double used = length(age) * rate / (1 + length(age) * rate);
        hits += left * used;
        epochs += left * length(age) * (1 - used);
        left *= 1 - used;
      }
      return hits / epochs;
    }

    void check(ReuseForecast forecast) {
      Set<Integer> seen = new HashSet<>();
      double before = 0;
      for (int rank = 0; rank < CLASSES * AGES; rank++) {
        int at = forecast.leastWorth(rank);
        double worth = worths[at / AGES][at % AGES];
        assertTrue(seen.add(at), "each comes once");
        assertTrue(
            worth >= before - 1e-9 * before,
            "epoch " + epoch + ", rank " + rank + ": " + worth + " after " + before);
        before = worth;
      }
      assertEquals(watched.size(), forecast.watched());
      forecast.checkInvariants();
    }
  }

  private static void ticks(ReuseForecast forecast, int count) {
    for (int i = 0; i < count; i++) {
      forecast.tick();
    }
  }

  @Test
  void classOf_usesUpToThreeThenPairsThenMore() {
    int[] expected = {0, 1, 2, 3, 4, 4, 5, 5};
    for (int uses = 1; uses < expected.length; uses++) {
      assertEquals(expected[uses], ReuseForecast.classOf(uses));
    }
    assertEquals(5, ReuseForecast.classOf(1_000_000));
  }

  @Test
  void tick_aQuarterOfTheTierIsAnEpoch() {
    for (int[] capacityAndUses : new int[][] {{400, 100}, {1 << 20, 1 << 18}, {64, 16}, {8, 16}}) {
      ReuseForecast forecast = new ReuseForecast(capacityAndUses[0]);
      for (int epoch = 1; epoch <= 3; epoch++) {
        ticks(forecast, capacityAndUses[1] - 1);
        assertEquals(epoch - 1, forecast.epoch());
        forecast.tick();
        assertEquals(epoch, forecast.epoch());
      }
    }
  }

  @Test
  void ageOf_doublesFromStepToStep() {
    ReuseForecast forecast = new ReuseForecast(8);
    ticks(forecast, 16 * 300);
    assertEquals(300, forecast.epoch());
    for (int age = 0; age <= 300; age++) {
      assertEquals(Plain.age(age), forecast.ageOf(300 - age), "after " + age + " epochs");
    }
  }

  @Test
  void watch_endsByAgeOrByUse() {
    ReuseForecast forecast = new ReuseForecast(8);
    for (int i = 0; i < 3; i++) {
      forecast.watch(1);
    }
    assertTrue(forecast.unwatch(1, 0));
    assertEquals(2, forecast.watched());
    ticks(forecast, 16 * (HORIZON - 1));
    assertTrue(forecast.unwatch(1, 0), "the last epoch in which it is watched");
    forecast.tick();
    ticks(forecast, 15);
    assertFalse(forecast.unwatch(1, 0));
    assertEquals(0, forecast.watched());
    forecast.onReuse(1, 0);
    forecast.reclass(1, ReuseForecast.TAIL, 0);
    assertEquals(0, forecast.watched(), "nobody watches what is too old");
    forecast.checkInvariants();
  }

  @Test
  void forecast_isThatOfAPlainProgram() {
    for (int seed = 1; seed <= 8; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      ReuseForecast forecast = new ReuseForecast(64);
      Plain plain = new Plain();
      plain.check(forecast);
      // Some classes are used again soon, some late, and some hardly ever.
      int[] patience = new int[CLASSES];
      for (int c = 0; c < CLASSES; c++) {
        patience[c] = 1 + random.nextInt(60);
      }
      for (int epoch = 0; epoch < 300; epoch++) {
        for (int use = 0; use < 16; use++) {
          int c = random.nextInt(CLASSES);
          forecast.watch(c);
          plain.watched.add(new Watched(c, epoch));
          Watched one = plain.watched.get(random.nextInt(plain.watched.size()));
          int age = epoch - one.lastUsed;
          int act = random.nextInt(10);
          if (act < 6 && age >= patience[one.reuseClass]) {
            forecast.onReuse(one.reuseClass, one.lastUsed);
            plain.reuses[one.reuseClass][Plain.age(age)]++;
            plain.watched.remove(one);
          } else if (act == 6) {
            int to = random.nextInt(CLASSES);
            forecast.reclass(one.reuseClass, to, one.lastUsed);
            one.reuseClass = to;
          } else if (act == 7) {
            assertTrue(forecast.unwatch(one.reuseClass, one.lastUsed));
            plain.watched.remove(one);
          }
          forecast.tick();
        }
        plain.endEpoch();
        plain.check(forecast);
      }
    }
  }

  @Test
  void forecast_knowingNothing_whatIsOldAndLittleUsedGoesFirst() {
    ReuseForecast forecast = new ReuseForecast(64);
    // Of equal worths the older one goes first, and the tail of a request before what was used
    // once.
    List<Integer> first = new ArrayList<>();
    for (int rank = 0; rank < 4; rank++) {
      first.add(forecast.leastWorth(rank));
    }
    int once = ReuseForecast.classOf(1);
    int oldest = AGES - 1;
    assertEquals(
        List.of(
            ReuseForecast.TAIL * AGES + oldest,
            once * AGES + oldest,
            ReuseForecast.TAIL * AGES + oldest - 1,
            once * AGES + oldest - 1),
        first);
    assertEquals(5 * AGES, forecast.leastWorth(CLASSES * AGES - 1), "much used, a moment ago");
    assertEquals(
        4 * (CLASSES * HORIZON + CLASSES * AGES) + 8 * 3 * CLASSES * AGES, forecast.bytes());
  }
}
