package io.kvtier.tiers.numa;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The NUMA nodes of a machine that are online, and its GPUs.
 *
 * @param nodes by their numbers
 * @param distances of each node to others, as the firmware says; 10 is the node itself
 */
public record NumaTopology(
    List<NumaNode> nodes, List<NumaGpu> gpus, Map<Integer, Map<Integer, Integer>> distances) {
  public NumaTopology {
    nodes = List.copyOf(nodes);
    gpus = List.copyOf(gpus);
    distances = Map.copyOf(distances);
  }

  /** The nodes that slabs may be on. */
  public List<NumaNode> slabNodes() {
    return nodes.stream().filter(NumaNode::canHoldSlabs).toList();
  }

  /** Whether it matters where the kernel takes memory from: it could take it from several nodes. */
  public boolean hasChoice() {
    return nodes.stream().filter(node -> node.mayHold() && node.memoryBytes() > 0).count() > 1;
  }

  /** The node with a number; null where there is none. */
  public @Nullable NumaNode node(int number) {
    return nodes.stream().filter(node -> node.number() == number).findFirst().orElse(null);
  }

  /** Where slabs for a node's devices are: there, else on the nearest node; null: nobody knows. */
  @Nullable NumaNode slabNodeFor(int number) {
    NumaNode nearest = null;
    int least = Integer.MAX_VALUE;
    for (NumaNode node : slabNodes()) {
      int distance =
          node.number() == number
              ? 0
              : distances
                  .getOrDefault(number, Map.of())
                  .getOrDefault(node.number(), Integer.MAX_VALUE);
      if (distance < least) {
        least = distance;
        nearest = node;
      }
    }
    return nearest;
  }
}
