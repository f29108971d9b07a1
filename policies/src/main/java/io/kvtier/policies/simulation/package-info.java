/**
 * Replays request traces through the policies that the daemon runs, and through two yardsticks: the
 * clairvoyant optimum and a cache without end. Pure: reading and drawing are others' work.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.policies.simulation;
