/**
 * Other nodes: serves them the blocks in this node's memory, and runs the threads of both
 * directions. {@code tiers.node} has the side that reads.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.node;
