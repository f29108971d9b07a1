package io.kvtier.daemon.index.core;

/** The limits that the configuration sets for the index. Times are in nanoseconds. */
public record Limits(
    int sessionsMax,
    int operationsMax,
    int operationsPerSessionMax,
    int holdsMax,
    int holdsPerSessionMax,
    int copyDepth,
    int inlineChecksumBytes,
    double freeTarget,
    long leaseNs,
    long leaseNsMax,
    long reservationNs,
    long deadlineNs,
    long deadlineNsMax,
    long standstillNs) {
  /**
   * The default of {@link #standstillNs}. A request that waits for a slot is answered BUSY when
   * nothing has moved for this long. Readers that copy what they have leased return their leases
   * much sooner.
   */
  public static final long STANDSTILL_NS = 250_000_000L;
}
