package io.kvtier.tiers.gpu;

import java.util.List;

/** The driver of the machine's GPUs. */
public interface GpuDriver {
  /** What the driver calls itself, with its version. */
  String version();

  /** The GPUs that this process sees, by their ordinals; at least one. */
  List<GpuDevice> devices();

  /**
   * Opens a GPU; every call after the first gives the same one.
   *
   * @throws GpuException when the device can't be used
   */
  Gpu open(GpuDevice device);

  /**
   * How a GPU reaches another's memory.
   *
   * @throws GpuException when the driver does not say
   */
  default GpuLink link(GpuDevice from, GpuDevice to) {
    return GpuLink.NONE;
  }
}
