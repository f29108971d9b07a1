package io.kvtier.tiers.object;

/**
 * Bounds the bytes of a second. A call may begin while nothing is owed, and then owes all of its
 * bytes, so that the largest of them passes too. For one thread, but for {@link #change}.
 */
final class BandwidthCap {
  private static final double NS_PER_S = 1e9;

  private volatile double nsPerByte;

  /** By this the debt was made. */
  private double owedNsPerByte;

  private long freeAtNs;

  /**
   * A cap.
   *
   * @param bytesPerSecond 0 for none
   */
  BandwidthCap(long bytesPerSecond, long nowNs) {
    nsPerByte = nsPerByte(bytesPerSecond);
    owedNsPerByte = nsPerByte;
    freeAtNs = nowNs;
  }

  private static double nsPerByte(long bytesPerSecond) {
    return bytesPerSecond == 0 ? 0 : NS_PER_S / bytesPerSecond;
  }

  /** Another cap, also for the bytes that are owed already. From any thread. */
  void change(long bytesPerSecond) {
    nsPerByte = nsPerByte(bytesPerSecond);
  }

  /** How long to wait until a call may begin; not more than 0 when it may. */
  long waitNs(long nowNs) {
    settleChange(nowNs);
    return freeAtNs - nowNs;
  }

  void take(long bytes, long nowNs) {
    settleChange(nowNs);
    long from = nowNs - freeAtNs > 0 ? nowNs : freeAtNs;
    freeAtNs = from + (long) (bytes * owedNsPerByte);
  }

  private void settleChange(long nowNs) {
    double now = nsPerByte;
    if (now != owedNsPerByte) {
      if (owedNsPerByte > 0 && freeAtNs - nowNs > 0) {
        freeAtNs = nowNs + (long) ((freeAtNs - nowNs) / owedNsPerByte * now);
      }
      owedNsPerByte = now;
    }
  }
}
