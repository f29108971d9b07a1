package io.kvtier.tiers.object;

/**
 * Bounds the bytes of a second. A call may begin while nothing is owed, and then owes all of its
 * bytes, so that the largest of them passes too. For one thread.
 */
final class BandwidthCap {
  private static final double NS_PER_S = 1e9;

  private final double nsPerByte;
  private long freeAtNs;

  /**
   * A cap.
   *
   * @param bytesPerSecond 0 for none
   */
  BandwidthCap(long bytesPerSecond, long nowNs) {
    nsPerByte = bytesPerSecond == 0 ? 0 : NS_PER_S / bytesPerSecond;
    freeAtNs = nowNs;
  }

  /** How long to wait until a call may begin; not more than 0 when it may. */
  long waitNs(long nowNs) {
    return freeAtNs - nowNs;
  }

  void take(long bytes, long nowNs) {
    long from = nowNs - freeAtNs > 0 ? nowNs : freeAtNs;
    freeAtNs = from + (long) (bytes * nsPerByte);
  }
}
