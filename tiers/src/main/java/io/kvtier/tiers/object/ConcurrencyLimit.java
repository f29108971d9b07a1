package io.kvtier.tiers.object;

/**
 * How many calls may be under way: one more for each round of calls that went well and used all
 * that were allowed; a part less where calls take longer and no more bytes come of it, or where the
 * store asks for fewer (additive increase, multiplicative decrease, as congestion control has it).
 * For one thread.
 */
final class ConcurrencyLimit {
  private static final int ROUND_MIN = 8;

  /** What a call may take, by the shortest that was seen, before more calls are of no use. */
  private static final double LATENCY_RATIO = 3;

  /** Bandwidth that is more by less than that is no more. */
  private static final double GAIN = 1.03;

  private static final double CROWDED = 0.85;
  private static final double REFUSED = 0.5;

  /** The best bandwidth is forgotten slowly: the store and the way to it change. */
  private static final double FORGET = 0.01;

  private final int min;
  private final int max;
  private double limit;

  private double shortestNs = Double.MAX_VALUE;
  private double bestBandwidth;
  private long refusedAtNs;
  private boolean refusedEver;

  private int calls;
  private long bytes;
  private double latencyNs;
  private boolean full;
  private long roundBeganNs;

  ConcurrencyLimit(int first, int min, int max, long nowNs) {
    this.min = min;
    this.max = max;
    limit = Math.clamp(first, min, max);
    roundBeganNs = nowNs;
  }

  int limit() {
    return (int) limit;
  }

  /**
   * A call went well.
   *
   * @param underWay how many there were, with this one
   */
  void onDone(long callNs, long callBytes, int underWay, long nowNs) {
    calls++;
    bytes += callBytes;
    latencyNs += callNs;
    full |= underWay >= limit();
    if (calls >= Math.max(ROUND_MIN, limit())) {
      endRound(nowNs);
    }
  }

  private void endRound(long nowNs) {
    double mean = latencyNs / calls;
    double bandwidth = bytes / (double) Math.max(1, nowNs - roundBeganNs);
    // With the fewest calls it is the store that takes so long, and not those that stand before.
    shortestNs = limit() == min ? mean : Math.min(shortestNs, mean);
    if (full) {
      boolean crowded = mean > LATENCY_RATIO * shortestNs && bandwidth < GAIN * bestBandwidth;
      limit = crowded ? Math.max(min, limit * CROWDED) : Math.min(max, limit + 1);
    }
    bestBandwidth = Math.max(bestBandwidth * (1 - FORGET), bandwidth);
    beginRound(nowNs);
  }

  /** The store asks for fewer calls, or leaves them unanswered. Calls of one time count once. */
  void onRefused(long nowNs) {
    double apartNs = shortestNs == Double.MAX_VALUE ? 0 : LATENCY_RATIO * shortestNs;
    if (!refusedEver || nowNs - refusedAtNs > apartNs) {
      limit = Math.max(min, limit * REFUSED);
      refusedAtNs = nowNs;
      refusedEver = true;
      beginRound(nowNs);
    }
  }

  private void beginRound(long nowNs) {
    calls = 0;
    bytes = 0;
    latencyNs = 0;
    full = false;
    roundBeganNs = nowNs;
  }
}
