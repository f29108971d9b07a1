package io.kvtier.tiers.gpu;

/** How one GPU reaches another's memory. */
public enum GpuLink {
  /** Not at all: what goes from one to the other goes through the host's memory. */
  NONE,

  /** Over the bus. */
  PCIE,

  /** Over NVLink, which also carries atomic operations. */
  NVLINK
}
