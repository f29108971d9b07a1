/**
 * The directory of the blocks of all nodes, without a central map: each node keeps the entries of
 * some partitions ({@link io.kvtier.tiers.directory.Partitions}) in a table of fixed size ({@link
 * io.kvtier.tiers.directory.HolderTable}). All entries are hints.
 */
@NullMarked
package io.kvtier.tiers.directory;

import org.jspecify.annotations.NullMarked;
