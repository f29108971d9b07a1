/**
 * The devices of the lower tiers: their pipelines, fences, budgets of writes, and the rows that
 * must go from their ledgers. Uses {@code core}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.lane;
