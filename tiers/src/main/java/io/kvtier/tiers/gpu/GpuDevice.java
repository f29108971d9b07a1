package io.kvtier.tiers.gpu;

/**
 * A GPU of this machine. Its ordinal is this process's own: another process may see other GPUs, or
 * the same in another order. The UUID is what both mean.
 *
 * @param uuid as "GPU-" and five groups of hexadecimal digits
 * @param pciId as "0000:1a:00.0"
 */
public record GpuDevice(
    int ordinal, String uuid, String pciId, String name, int multiprocessors, long memoryBytes) {
  private static final String PREFIX = "GPU-";

  /** Whether a UUID, with or without its prefix, or a PCI id means this device. */
  public boolean isNamed(String id) {
    return id.equalsIgnoreCase(uuid)
        || (PREFIX + id).equalsIgnoreCase(uuid)
        || id.equalsIgnoreCase(pciId);
  }
}
