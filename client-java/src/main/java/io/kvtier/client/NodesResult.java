package io.kvtier.client;

import io.kvtier.protocol.Status;
import java.util.List;

/**
 * Which nodes have most of a sequence of blocks.
 *
 * @param status OK when the daemon answered; otherwise why not
 * @param detail why not, in words
 * @param nodes those that have at least the first block: the longest run first, then the one that
 *     is loaded soonest
 */
public record NodesResult(Status status, String detail, List<NodeHold> nodes) {
  public NodesResult {
    nodes = List.copyOf(nodes);
  }

  /**
   * How much of the sequence a node has.
   *
   * @param name of the node, as it says itself: {@code nodes.name}
   * @param address where the node serves other nodes, as the asked node knows it; empty if it
   *     serves none
   * @param isSelf whether it is the node that was asked
   * @param run how many blocks from the first it has, in memory or in lower tiers
   * @param memoryRun how many blocks from the first it has in host memory
   * @param loadTimeNs how long it would take to bring the run to host memory, as it estimates
   */
  public record NodeHold(
      String name, String address, boolean isSelf, int run, int memoryRun, long loadTimeNs) {}
}
