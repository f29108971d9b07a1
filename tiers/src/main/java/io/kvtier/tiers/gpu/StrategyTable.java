package io.kvtier.tiers.gpu;

import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/**
 * Which strategy a copy takes, by its direction, its mean run, and how much there is to copy. Made
 * of measurements: of those nearly as fast as the fastest, the one that asks least of the GPU.
 */
public final class StrategyTable {
  /** A strategy that is slower by no more than this may be taken for asking less of the GPU. */
  private static final double NEARLY = 0.97;

  /**
   * What was measured of one kind of copy.
   *
   * @param copyBytes how much was under way at a time
   * @param bytesPerNs of each strategy that there is
   */
  public record Measured(
      CopyDirection direction, int runBytes, long copyBytes, Map<CopyStrategy, Double> bytesPerNs) {
    public Measured {
      bytesPerNs = Collections.unmodifiableMap(new EnumMap<>(bytesPerNs));
    }

    /** The one to take. */
    public CopyStrategy best() {
      double fastest = Collections.max(bytesPerNs.values());
      for (Map.Entry<CopyStrategy, Double> entry : bytesPerNs.entrySet()) {
        if (entry.getValue() >= NEARLY * fastest) {
          return entry.getKey();
        }
      }
      throw new IllegalStateException("none is as fast as the fastest of " + bytesPerNs);
    }
  }

  private final List<Measured> measured;
  private final Measured[] rows;
  private final CopyStrategy[] best;

  /** Chooses by these measurements, which must not be empty for either direction. */
  public StrategyTable(List<Measured> measured) {
    this.measured = List.copyOf(measured);
    for (CopyDirection direction : CopyDirection.values()) {
      if (measured.stream().noneMatch(row -> row.direction() == direction)) {
        throw new IllegalArgumentException("no measurement of " + direction);
      }
    }
    rows = this.measured.toArray(Measured[]::new);
    best = new CopyStrategy[rows.length];
    for (int i = 0; i < rows.length; i++) {
      best[i] = rows[i].best();
    }
  }

  /** Always the same one. */
  public static StrategyTable only(CopyStrategy strategy) {
    List<Measured> measured = new ArrayList<>();
    for (CopyDirection direction : CopyDirection.values()) {
      measured.add(new Measured(direction, 1, 1, Map.of(strategy, 1.0)));
    }
    return new StrategyTable(measured);
  }

  /** What it is made of. */
  public List<Measured> measured() {
    return measured;
  }

  /** The strategy of the measurement that is nearest, by the ratio of the sizes. */
  public CopyStrategy choose(CopyDirection direction, int runBytes, long copyBytes) {
    int nearest = -1;
    int distance = Integer.MAX_VALUE;
    for (int i = 0; i < rows.length; i++) {
      if (rows[i].direction() == direction) {
        // How the runs are cut matters more than how many there are.
        int d =
            2 * Math.abs(log2(rows[i].runBytes()) - log2(runBytes))
                + Math.abs(log2(rows[i].copyBytes()) - log2(copyBytes));
        if (d < distance) {
          distance = d;
          nearest = i;
        }
      }
    }
    return best[nearest];
  }

  private static int log2(long bytes) {
    return Long.SIZE - Long.numberOfLeadingZeros(Math.max(1, bytes));
  }
}
