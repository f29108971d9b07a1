package io.kvtier.tiers.host;

import io.kvtier.tiers.numa.NumaPlan;
import java.util.List;

/**
 * Where the slabs' memory is.
 *
 * @param elsewhereBytes the bytes of pages on nodes without slabs; -1: not known
 * @param trouble why the kernel refuses to place slabs; empty where it does not
 */
public record NumaReport(List<Node> nodes, long elsewhereBytes, String trouble) {
  public NumaReport {
    nodes = List.copyOf(nodes);
  }

  /**
   * A NUMA node with slabs.
   *
   * @param slabBytes the bytes of the slabs that are meant to be there
   * @param takenBytes the bytes of pages that are there, of all slabs; -1: not known
   */
  public record Node(NumaPlan.Home home, long slabBytes, long takenBytes) {}
}
