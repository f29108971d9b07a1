/**
 * Which nodes have which blocks, without a map in the middle: each node keeps the entries of some
 * partitions ({@link io.kvtier.tiers.directory.Partitions}) in a table of fixed size ({@link
 * io.kvtier.tiers.directory.HolderTable}). All entries are hints.
 */
@NullMarked
package io.kvtier.tiers.directory;

import org.jspecify.annotations.NullMarked;
