package io.kvtier.bench;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.DoubleUnaryOperator;

/**
 * The figures of interleaved rounds: each round measures everything once, one after the other, so
 * that a change of the machine's speed touches the limits as much as what is held against them.
 */
final class Rounds {
  /** One pass over everything that is measured. */
  @FunctionalInterface
  interface Pass {
    void run(Rounds into) throws Exception;
  }

  private final Map<String, double[]> samples = new LinkedHashMap<>();

  /** Notes one round's figure. */
  void add(String name, double value) {
    double[] before = samples.getOrDefault(name, new double[0]);
    double[] longer = java.util.Arrays.copyOf(before, before.length + 1);
    longer[before.length] = value;
    samples.put(name, longer);
  }

  /** Warms up with passes whose figures are thrown away, then measures. */
  static Rounds measure(int warmUps, int rounds, Pass pass) throws Exception {
    for (int i = 0; i < warmUps; i++) {
      pass.run(new Rounds());
    }
    Rounds measured = new Rounds();
    for (int i = 0; i < rounds; i++) {
      pass.run(measured);
    }
    return measured;
  }

  /** The median over the rounds. */
  double median(String name) {
    double[] values = samples.get(name);
    if (values == null) {
      throw new IllegalArgumentException(
          "nothing was measured as " + name + ", only " + samples.keySet());
    }
    return Statistics.median(values);
  }

  /** A row whose limit was measured in the same rounds. */
  Row row(String name, String unit, String limit) {
    return row(name, unit, limit, limit, value -> value);
  }

  /**
   * A row whose limit is made of one that was measured in the same rounds.
   *
   * @param limitName what to call it
   * @param limitOf from the median of {@code limit}
   */
  Row row(String name, String unit, String limitName, String limit, DoubleUnaryOperator limitOf) {
    return new Row(name, median(name), unit, limitName, limitOf.applyAsDouble(median(limit)));
  }
}
