package io.kvtier.daemon.member;

import io.kvtier.tiers.node.NodeAddress;
import java.util.List;

/** How a node finds the first other members of its cluster. */
public sealed interface Discovery {
  /**
   * By the ports for members of some nodes. One that runs is enough.
   *
   * @param seeds this node's own address may be one of them
   */
  record Seeds(List<NodeAddress> seeds) implements Discovery {
    public Seeds {
      seeds = List.copyOf(seeds);
    }
  }

  /**
   * By a name that has the addresses of all nodes, as that of a headless service in Kubernetes.
   *
   * @param port the port for members of all nodes
   */
  record Dns(String name, int port) implements Discovery {}

  /** By packets to a multicast group, which every machine of the network sees. */
  record Multicast(NodeAddress group) implements Discovery {}
}
