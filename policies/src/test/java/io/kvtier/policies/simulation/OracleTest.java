package io.kvtier.policies.simulation;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.policies.simulation.Oracles.Cache;
import io.kvtier.policies.simulation.Oracles.Hits;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The simulator and the policies under it against {@link Oracles}: a slice of a real trace that is
 * in the repository, and a made one; with {@code KVTIER_TRACES} naming a folder that has them, the
 * whole published traces too.
 */
final class OracleTest {
  private static final double[] FRACTIONS = {0.01, 0.02, 0.05, 0.10, 0.25, 0.50};
  private static final double POINTS_APART_MAX = 0.3;

  @ParameterizedTest
  @EnumSource(Order.class)
  void sliceOfConversation_agrees(Order order) throws IOException {
    compare(Traces.slice(), order, FRACTIONS);
  }

  @ParameterizedTest
  @EnumSource(Order.class)
  void madeTrace_agrees(Order order) {
    compare(Traces.made(2000, 5), order, FRACTIONS);
  }

  @ParameterizedTest
  @EnumSource(Order.class)
  void wholeConversation_agrees(Order order) throws IOException {
    compare(whole(Traces.CONVERSATION), order, FRACTIONS);
  }

  @ParameterizedTest
  @EnumSource(Order.class)
  void wholeSynthetic_agrees(Order order) throws IOException {
    compare(whole(Traces.SYNTHETIC), order, FRACTIONS);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "lru 0.05 0.1954",
        "lru 0.1 0.2784",
        "fifo 0.05 0.1796",
        "opt 0.01 0.2464",
        "infinite 1 0.3664"
      })
  void wholeConversation_hasTheKnownRatios(String point) throws IOException {
    String[] words = point.split(" ", -1);
    Trace trace = Traces.of(whole(Traces.CONVERSATION));
    int capacity = capacity(trace, Double.parseDouble(words[1]));
    Outcome outcome = new Replay(trace, Order.HEAD_FIRST, 0).run(words[0], capacity);
    assertEquals(Double.parseDouble(words[2]), outcome.blockHitRatio(), 0.00005, point);
  }

  private static List<long[]> whole(String name) throws IOException {
    Assumptions.assumeTrue(Traces.isAvailable(name), "KVTIER_TRACES has no " + name);
    return Traces.whole(name);
  }

  private static int capacity(Trace trace, double fraction) {
    return (int) Math.max(1, Math.round(fraction * trace.distinct()));
  }

  private static void compare(List<long[]> requests, Order order, double[] fractions) {
    Trace trace = Traces.of(requests);
    Replay replay = new Replay(trace, order, 0);
    boolean tailFirst = order == Order.TAIL_FIRST;
    exactly(
        "infinite",
        replay.run("infinite", 1),
        Oracles.replay(requests, tailFirst, Oracles.infinite()));
    for (double fraction : fractions) {
      int capacity = capacity(trace, fraction);
      for (String policy : List.of("lru", "fifo", "opt", "s3fifo", "sieve")) {
        Cache oracle =
            switch (policy) {
              case "lru" -> Oracles.lru(capacity);
              case "fifo" -> Oracles.fifo(capacity);
              case "opt" -> Oracles.optimum(requests, tailFirst, capacity);
              case "s3fifo" -> new Oracles.S3Fifo(capacity);
              default -> new Oracles.Sieve(capacity);
            };
        Hits expected = Oracles.replay(requests, tailFirst, oracle);
        Outcome actual = replay.run(policy, capacity);
        String what = policy + ", " + capacity + " blocks, " + order.text();
        if (policy.equals("s3fifo")) {
          nearly(what, actual, expected);
        } else {
          exactly(what, actual, expected);
        }
      }
    }
  }

  private static void exactly(String what, Outcome actual, Hits expected) {
    assertEquals(expected.blocks(), actual.blockHits(), what);
    assertEquals(expected.prefixes(), actual.prefixHits(), what);
  }

  private static void nearly(String what, Outcome actual, Hits expected) {
    double blocks = points(actual.blockHits() - expected.blocks(), actual);
    double prefixes = points(actual.prefixHits() - expected.prefixes(), actual);
    String apart =
        String.format(
            "%s: %+.4f points of block hits, %+.4f of prefix hits", what, blocks, prefixes);
    if (Boolean.getBoolean("kvtier.oracle.print")) {
      System.out.println(apart);
    }
    assertTrue(Math.max(Math.abs(blocks), Math.abs(prefixes)) <= POINTS_APART_MAX, apart);
  }

  private static double points(long hits, Outcome outcome) {
    return 100.0 * hits / outcome.references();
  }
}
