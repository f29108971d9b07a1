package io.kvtier.daemon.index.core;

import java.util.function.LongSupplier;

/**
 * The objects that every part of the index uses.
 *
 * @param clock the time in nanoseconds
 * @param directory the blocks
 * @param namespaces the caches that blocks belong to, and their tenants
 * @param counters counts of events
 * @param latencies durations of operations and transfers
 * @param limits limits from the configuration
 */
public record IndexCore(
    LongSupplier clock,
    Directory directory,
    Namespaces namespaces,
    Counters counters,
    Latencies latencies,
    Limits limits) {}
