package io.kvtier.tiers.numa;

/**
 * A GPU of this machine, for which its driver is loaded.
 *
 * @param pciId as "0000:1a:00.0"
 * @param node the NUMA node of its slot, or {@link #UNKNOWN}
 */
public record NumaGpu(String pciId, int node) {
  /** The kernel does not know the node. */
  public static final int UNKNOWN = -1;
}
