package io.kvtier.tiers.node;

import java.util.Comparator;

/**
 * How much of a sequence of blocks another node has.
 *
 * @param run how many blocks from the first are in the node, in any of its own tiers
 * @param memoryRun how many blocks from the first are in its memory
 * @param loadNs how long the node would take to load the others of the run, as it estimates
 */
public record NodeRun(NodePeer peer, int run, int memoryRun, long loadNs) {
  /** The longest run first, then the one that is loaded soonest. */
  static final Comparator<NodeRun> BEST_FIRST =
      Comparator.comparingInt(NodeRun::run).reversed().thenComparingLong(NodeRun::loadNs);
}
