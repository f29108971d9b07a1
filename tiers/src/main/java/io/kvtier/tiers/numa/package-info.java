/**
 * The NUMA nodes of this machine: which of them this process may use ({@code NumaTopology}), which
 * of them each slab, GPU and thread belongs to ({@code NumaPlan}), and the calls that make it so
 * ({@code NumaHomes}).
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.numa;
