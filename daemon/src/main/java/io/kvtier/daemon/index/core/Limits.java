package io.kvtier.daemon.index.core;

/**
 * The limits that the configuration sets for the index.
 *
 * @param retainedShare the most that clients may retain, as a share of their tenant's part of the
 *     first tier
 * @param pushedShare the most that blocks may fill which other nodes have pushed, in the same way
 */
public record Limits(
    int sessionsMax,
    int operationsMax,
    int operationsPerSessionMax,
    int holdsMax,
    int holdsPerSessionMax,
    double retainedShare,
    double pushedShare,
    Times times) {
  /**
   * The default of {@link Times#standstillNs}. A request that waits for a slot is answered BUSY
   * when nothing has moved for this long. Readers that copy what they have leased return their
   * leases much sooner.
   */
  public static final long STANDSTILL_NS = 250_000_000L;

  /** Limits of time, in nanoseconds. The defaults are for requests that name no time. */
  public record Times(
      long leaseNs,
      long leaseNsMax,
      long retentionNsMax,
      long reservationNs,
      long deadlineNs,
      long deadlineNsMax,
      long standstillNs) {}
}
