package io.kvtier.daemon.index.core;

import java.util.function.LongSupplier;

/**
 * What every part of the index uses.
 *
 * @param clock the time in nanoseconds
 * @param directory the blocks
 * @param namespaces the caches that blocks belong to, and their tenants
 * @param counters what has happened so often
 * @param latencies how long things took
 * @param limits what the configuration bounds
 */
public record IndexCore(
    LongSupplier clock,
    Directory directory,
    Namespaces namespaces,
    Counters counters,
    Latencies latencies,
    Limits limits) {}
