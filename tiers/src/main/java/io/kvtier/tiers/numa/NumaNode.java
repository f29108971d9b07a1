package io.kvtier.tiers.numa;

import java.util.BitSet;

/**
 * A NUMA node.
 *
 * @param cpus the processors of the node that this process may use
 * @param hasCpus whether the node has any processor; the memory of GPUs and of CXL devices has none
 * @param memoryBytes all of its memory
 * @param mayHold whether this process may take memory there
 */
public record NumaNode(
    int number, BitSet cpus, boolean hasCpus, long memoryBytes, boolean mayHold) {
  public NumaNode {
    cpus = (BitSet) cpus.clone();
  }

  @Override
  public BitSet cpus() {
    return (BitSet) cpus.clone();
  }

  /** Whether slabs may be here: memory beside processors, which this process may take. */
  boolean canHoldSlabs() {
    return mayHold && hasCpus && memoryBytes > 0;
  }
}
