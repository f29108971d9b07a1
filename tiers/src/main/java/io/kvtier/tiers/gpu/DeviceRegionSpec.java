package io.kvtier.tiers.gpu;

import java.util.List;

/**
 * What an engine says of its KV tensors.
 *
 * @param device the UUID or PCI id of the GPU: ordinals differ between processes
 * @param tensors in the order of the layout: part by part, layer by layer
 * @param events that copies may wait for
 */
public record DeviceRegionSpec(
    String device, KvLayout layout, List<TensorPlace> tensors, List<IpcHandle> events) {
  /**
   * Where a tensor is.
   *
   * @param offset of its first byte in the allocation
   */
  public record TensorPlace(IpcHandle handle, long offset) {}

  public DeviceRegionSpec {
    tensors = List.copyOf(tensors);
    events = List.copyOf(events);
  }

  /** A region without events. */
  public DeviceRegionSpec(String device, KvLayout layout, List<TensorPlace> tensors) {
    this(device, layout, tensors, List.of());
  }
}
