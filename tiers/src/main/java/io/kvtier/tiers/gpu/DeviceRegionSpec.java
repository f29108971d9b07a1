package io.kvtier.tiers.gpu;

import io.kvtier.layout.KvLayout;
import io.kvtier.layout.Replica;
import java.util.List;

/**
 * What an engine says of its KV tensors.
 *
 * @param device the UUID or PCI id of the GPU, because ordinals differ between processes; {@link
 *     #HOST} for tensors in host memory, which the engine copies itself
 * @param replica which of the ranks with equal bytes the engine's rank is
 * @param tensors in the order of the layout: part by part, layer by layer
 * @param events that copies may wait for
 */
public record DeviceRegionSpec(
    String device,
    KvLayout layout,
    Replica replica,
    List<TensorPlace> tensors,
    List<IpcHandle> events)
    implements AutoCloseable {
  /** The device of tensors in host memory. */
  public static final String HOST = "host";

  /**
   * Where a tensor is.
   *
   * @param offset of its first byte in the memory
   */
  public record TensorPlace(DeviceMemory memory, long offset) {}

  public DeviceRegionSpec {
    tensors = List.copyOf(tensors);
    events = List.copyOf(events);
    if (device.equals(HOST) && (!tensors.isEmpty() || !events.isEmpty())) {
      throw new IllegalArgumentException(
          "a region on the host has allocations, tensors or events: expected none, because the"
              + " engine copies its blocks itself");
    }
  }

  /** A region without events. */
  public DeviceRegionSpec(String device, KvLayout layout, List<TensorPlace> tensors) {
    this(device, layout, Replica.ONLY, tensors, List.of());
  }

  /** Whether the tensors are in host memory, and the engine copies its blocks itself. */
  public boolean isOnHost() {
    return device.equals(HOST);
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
