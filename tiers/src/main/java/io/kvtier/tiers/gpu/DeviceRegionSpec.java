package io.kvtier.tiers.gpu;

import io.kvtier.layout.KvLayout;
import java.util.List;

/**
 * What an engine says of its KV tensors.
 *
 * @param device the UUID or PCI id of the GPU: ordinals differ between processes
 * @param tensors in the order of the layout: part by part, layer by layer
 * @param events that copies may wait for
 */
public record DeviceRegionSpec(
    String device, KvLayout layout, List<TensorPlace> tensors, List<IpcHandle> events)
    implements AutoCloseable {
  /**
   * Where a tensor is.
   *
   * @param offset of its first byte in the memory
   */
  public record TensorPlace(DeviceMemory memory, long offset) {}

  public DeviceRegionSpec {
    tensors = List.copyOf(tensors);
    events = List.copyOf(events);
  }

  /** A region without events. */
  public DeviceRegionSpec(String device, KvLayout layout, List<TensorPlace> tensors) {
    this(device, layout, tensors, List.of());
  }

  /** Lets go of what was passed with it, once it is opened or refused. */
  @Override
  public void close() {
    for (TensorPlace tensor : tensors) {
      if (tensor.memory() instanceof PassedMemory passed) {
        passed.close();
      }
    }
  }
}
