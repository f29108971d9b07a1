package io.kvtier.tiers.gpu;

import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Which strategy a copy takes, by its mean run, by the mean of its pieces on the host, and by how
 * much there is to copy. Made of measurements: of those nearly as fast as the fastest, the one that
 * asks least of the GPU.
 *
 * <p>What was measured lay in one piece on the host, as a whole block does. Where a block is cut
 * into pieces there, as the shards of several ranks are, the copy engine moves each piece of a
 * staged copy by itself: that is as slow as runs of such a length are without staging.
 */
public final class StrategyTable {
  /** What part of the fastest's speed is enough, for who has no wish of his own. */
  public static final double USUALLY_ENOUGH = 0.97;

  /** The same for one that leaves the engine its multiprocessors while the link is busy. */
  private static final double NEARLY_THE_KERNEL = 0.75;

  /** The same for one that needs no room on a busy GPU. */
  private static final double WORTH_NO_WAIT = 0.4;

  /**
   * What was measured of one kind of copy, in one direction.
   *
   * @param copyBytes how much was under way at a time
   * @param bytesPerNs of each strategy that there is
   */
  public record Measured(int runBytes, long copyBytes, Map<CopyStrategy, Double> bytesPerNs) {
    public Measured {
      bytesPerNs = Collections.unmodifiableMap(new EnumMap<>(bytesPerNs));
    }

    /**
     * The one to take.
     *
     * @param enough which part of the fastest's speed is enough where the GPU is asked for less
     */
    public CopyStrategy best(double enough) {
      double others = fastestBut(CopyStrategy.KERNEL);
      if (others < NEARLY_THE_KERNEL * rate(CopyStrategy.KERNEL)) {
        return CopyStrategy.KERNEL;
      }
      CopyStrategy engines = fasterOfEngines();
      return rate(engines) >= enough * others ? engines : CopyStrategy.STAGED;
    }

    /** Neither asks anything of the multiprocessors. */
    private CopyStrategy fasterOfEngines() {
      return rate(CopyStrategy.BATCH) > rate(CopyStrategy.PLAIN)
          ? CopyStrategy.BATCH
          : CopyStrategy.PLAIN;
    }

    /** The one to take while kernels wait: without one, unless that is too slow by far. */
    CopyStrategy bestOnBusyGpu(double enough) {
      CopyStrategy usual = best(enough);
      CopyStrategy engines = fasterOfEngines();
      return rate(engines) >= WORTH_NO_WAIT * rate(usual) ? engines : usual;
    }

    /**
     * The same of copies whose pieces on the host are as long as the runs of another measurement.
     */
    Measured inPieces(Measured pieces) {
      double engines = pieces.rate(pieces.fasterOfEngines());
      if (engines == 0 || rate(CopyStrategy.STAGED) <= engines) {
        return this;
      }
      Map<CopyStrategy, Double> rates = new EnumMap<>(bytesPerNs);
      rates.put(CopyStrategy.STAGED, engines);
      return new Measured(runBytes, copyBytes, rates);
    }

    private double rate(CopyStrategy strategy) {
      return bytesPerNs.getOrDefault(strategy, 0.0);
    }

    private double fastestBut(CopyStrategy excluded) {
      double fastest = 0;
      for (CopyStrategy strategy : CopyStrategy.values()) {
        boolean isOther = strategy != excluded && strategy.isForRaw();
        fastest = isOther ? Math.max(fastest, rate(strategy)) : fastest;
      }
      return fastest;
    }
  }

  private final List<Measured> measured;
  private final Measured[] rows;

  /** By the measurement of the runs, and that of the pieces on the host. */
  private final CopyStrategy[][] best;

  private final CopyStrategy[][] bestOnBusyGpu;
  private final double enough;

  /**
   * Chooses by these measurements, of which there is at least one.
   *
   * @param enough which part of the fastest's speed is enough where the engine's GPU is asked for
   *     less: a smaller one leaves more of the GPU to the engine
   */
  public StrategyTable(List<Measured> measured, double enough) {
    if (!(enough > 0 && enough <= 1)) {
      throw new IllegalArgumentException(enough + " of the speed: expected more than 0, at most 1");
    }
    this.enough = enough;
    this.measured = List.copyOf(measured);
    if (measured.isEmpty()) {
      throw new IllegalArgumentException("a table of strategies without a measurement");
    }
    rows = this.measured.toArray(Measured[]::new);
    best = new CopyStrategy[rows.length][rows.length];
    bestOnBusyGpu = new CopyStrategy[rows.length][rows.length];
    for (int i = 0; i < rows.length; i++) {
      for (int j = 0; j < rows.length; j++) {
        Measured row = rows[i].inPieces(rows[j]);
        best[i][j] = row.best(enough);
        bestOnBusyGpu[i][j] = row.bestOnBusyGpu(enough);
      }
    }
  }

  /** Always the same one. */
  public static StrategyTable only(CopyStrategy strategy) {
    return new StrategyTable(List.of(new Measured(1, 1, Map.of(strategy, 1.0))), 1);
  }

  /**
   * Of copies from siblings: a kernel reads their memory as fast as the link is, whatever the
   * length of the runs; the copy engines do where runs are long, and leave the multiprocessors
   * alone.
   */
  static StrategyTable ofPeers(boolean hasBatchCopies) {
    CopyStrategy engines = hasBatchCopies ? CopyStrategy.BATCH : CopyStrategy.PLAIN;
    return new StrategyTable(
        List.of(
            new Measured(256 << 10, 1 << 20, Map.of(CopyStrategy.KERNEL, 1.0)),
            new Measured(4 << 20, 1 << 20, Map.of(engines, 1.0))),
        1);
  }

  /** What it is made of. */
  public List<Measured> measured() {
    return measured;
  }

  /**
   * The strategy of the measurements that are nearest, by the ratio of the sizes.
   *
   * @param spanBytes the mean of the pieces on the host
   * @param busy whether kernels have to wait for room on the GPU
   */
  public CopyStrategy choose(int runBytes, int spanBytes, long copyBytes, boolean busy) {
    int run = nearest(runBytes, copyBytes);
    int span = spanBytes == runBytes ? run : nearest(spanBytes, copyBytes);
    return busy ? bestOnBusyGpu[run][span] : best[run][span];
  }

  /**
   * The speeds of raw and encoded copies of many blocks with runs of about such a length; null if
   * encoded copies were not measured.
   */
  @Nullable FormSpeeds formSpeeds(int runBytes) {
    Measured nearest = null;
    int least = Integer.MAX_VALUE;
    for (Measured row : rows) {
      int distance = Math.abs(log2(row.runBytes()) - log2(runBytes));
      if (row.rate(CopyStrategy.ENCODED) > 0 && distance < least) {
        least = distance;
        nearest = row;
      }
    }
    return nearest == null
        ? null
        : new FormSpeeds(nearest.rate(nearest.best(enough)), nearest.rate(CopyStrategy.ENCODED));
  }

  private int nearest(int runBytes, long copyBytes) {
    int nearest = 0;
    int least = Integer.MAX_VALUE;
    for (int i = 0; i < rows.length; i++) {
      // How the runs are cut matters more than how many there are.
      int distance =
          2 * Math.abs(log2(rows[i].runBytes()) - log2(runBytes))
              + Math.abs(log2(rows[i].copyBytes()) - log2(copyBytes));
      if (distance < least) {
        least = distance;
        nearest = i;
      }
    }
    return nearest;
  }

  private static int log2(long bytes) {
    return Long.SIZE - Long.numberOfLeadingZeros(Math.max(1, bytes));
  }
}
