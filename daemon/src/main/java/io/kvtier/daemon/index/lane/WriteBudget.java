package io.kvtier.daemon.index.lane;

/**
 * How much may be written to a tier in a day, so that its devices last: an even rate, and what was
 * not used of the last hour. Who finds nothing left waits; nothing is dropped for it.
 */
public final class WriteBudget {
  private static final double DAY_NS = 86_400e9;
  private static final double HOUR_NS = 3_600e9;

  private double bytesPerNs;
  private double bytesMax;
  private double bytes;
  private long lastNs = Long.MIN_VALUE;

  /**
   * A budget of an hour, to begin with.
   *
   * @param bytesPerDay 0: no limit
   */
  public WriteBudget(long bytesPerDay) {
    bytesPerNs = bytesPerDay == 0 ? 0 : bytesPerDay / DAY_NS;
    bytesMax = bytesPerNs * HOUR_NS;
    bytes = bytesMax;
  }

  /** Another budget from now on; what was spent stays spent. */
  public void change(long bytesPerDay) {
    double unspent = bytesMax == 0 ? 1 : Math.clamp(bytes / bytesMax, 0, 1);
    bytesPerNs = bytesPerDay == 0 ? 0 : bytesPerDay / DAY_NS;
    bytesMax = bytesPerNs * HOUR_NS;
    bytes = bytesMax * unspent;
  }

  /** Lets time pass. */
  public void advance(long nowNs) {
    if (lastNs != Long.MIN_VALUE && nowNs > lastNs) {
      bytes = Math.min(bytesMax, bytes + (nowNs - lastNs) * bytesPerNs);
    }
    lastNs = nowNs;
  }

  /** Whether anything may be written now. */
  public boolean isOpen() {
    // The last block may go beyond it: the time until the next is as much longer.
    return bytesPerNs == 0 || bytes > 0;
  }

  /** Counts what is written. */
  public void spend(long written) {
    bytes -= bytesPerNs == 0 ? 0 : written;
  }
}
