/**
 * Blocks in the memory of other nodes: what moves their bytes ({@link
 * io.kvtier.tiers.node.NodeTransport}), and the side that asks for blocks and fetches them ({@link
 * io.kvtier.tiers.node.NodeReader}). The daemon has the side that serves.
 */
@NullMarked
package io.kvtier.tiers.node;

import org.jspecify.annotations.NullMarked;
