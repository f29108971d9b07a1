package io.kvtier.daemon.index.core;

import java.util.function.LongSupplier;

/**
 * The objects that every part of the index uses.
 *
 * @param clock the time in nanoseconds
 * @param directory the blocks
 * @param namespaces the caches that blocks belong to, and their tenants
 * @param counters counts of events
 * @param accounts what gets found and what engines saved, by namespace and tenant
 * @param latencies durations of operations and transfers
 * @param limits limits from the configuration
 */
public record IndexCore(
    LongSupplier clock,
    Directory directory,
    Namespaces namespaces,
    Counters counters,
    Accounts accounts,
    Latencies latencies,
    Limits limits) {
  /** The objects, with accounts that begin at zero. */
  public IndexCore(
      LongSupplier clock,
      Directory directory,
      Namespaces namespaces,
      Counters counters,
      Latencies latencies,
      Limits limits) {
    this(
        clock,
        directory,
        namespaces,
        counters,
        new Accounts(namespaces, counters),
        latencies,
        limits);
  }
}
