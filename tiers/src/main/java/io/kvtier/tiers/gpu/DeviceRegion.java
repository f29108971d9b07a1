package io.kvtier.tiers.gpu;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * An engine's KV tensors, opened in this process. The memory stays the engine's, and while a region
 * is open the driver does not free it, even when the engine has died: close it as soon as its
 * session ends and no copy of it is in flight.
 */
public final class DeviceRegion implements AutoCloseable {
  /** CUDA's numbers of errors that have a meaning here. */
  private static final int INVALID_VALUE = 1;

  private static final int INVALID_CONTEXT = 201;
  private static final int MAP_FAILED = 205;
  private static final int INVALID_HANDLE = 400;

  private final Gpu gpu;
  private final KvLayout layout;
  private final List<IpcHandle> opened;
  private final long[] addresses;
  private final List<GpuEvent> events;
  private final @Nullable RunPlan plan;
  private boolean isClosed;

  private DeviceRegion(
      Gpu gpu, KvLayout layout, List<IpcHandle> opened, long[] addresses, List<GpuEvent> events) {
    this.gpu = gpu;
    this.layout = layout;
    this.opened = opened;
    this.addresses = addresses;
    this.events = events;
    plan = RunPlan.of(layout, addresses);
  }

  /** Opens an engine's tensors, or says why not. */
  public static RegionResult open(GpuDriver driver, DeviceRegionSpec spec) {
    if (spec.tensors().size() != spec.layout().tensors()) {
      return new RegionResult.Refused(
          spec.tensors().size()
              + " tensors: expected "
              + spec.layout().tensors()
              + " for this layout, one of each part or one a layer");
    }
    for (GpuDevice device : driver.devices()) {
      if (device.isNamed(spec.device())) {
        try {
          return open(driver.open(device), spec);
        } catch (GpuException e) {
          return new RegionResult.Refused(e.reason());
        }
      }
    }
    return new RegionResult.Refused(
        "GPU "
            + spec.device()
            + " is not seen here: expected one of "
            + driver.devices().stream().map(GpuDevice::uuid).toList()
            + "; is CUDA_VISIBLE_DEVICES of the daemon too narrow?");
  }

  private static RegionResult open(Gpu gpu, DeviceRegionSpec spec) {
    List<IpcHandle> opened = new ArrayList<>();
    long[] addresses = new long[spec.tensors().size()];
    String reason = null;
    for (int i = 0; i < addresses.length && reason == null; i++) {
      DeviceRegionSpec.TensorPlace place = spec.tensors().get(i);
      DeviceMapping mapping;
      try {
        mapping = gpu.open(place.handle());
      } catch (GpuException e) {
        reason = "tensor " + i + ": " + explain(e);
        break;
      }
      opened.add(place.handle());
      reason = problem(gpu, spec, i, mapping);
      addresses[i] = mapping.address() + place.offset();
    }
    if (reason == null) {
      reason = overlap(spec.layout(), addresses);
    }
    List<GpuEvent> events = new ArrayList<>();
    for (int i = 0; i < spec.events().size() && reason == null; i++) {
      try {
        events.add(gpu.openEvent(spec.events().get(i)));
      } catch (GpuException e) {
        reason = "event " + i + ": " + explain(e);
      }
    }
    if (reason != null) {
      close(gpu, opened, events);
      return new RegionResult.Refused(reason);
    }
    return new RegionResult.Opened(new DeviceRegion(gpu, spec.layout(), opened, addresses, events));
  }

  private static @Nullable String problem(
      Gpu gpu, DeviceRegionSpec spec, int tensor, DeviceMapping mapping) {
    if (mapping.deviceOrdinal() != gpu.device().ordinal()) {
      return "tensor " + tensor + " is not on GPU " + gpu.device().uuid() + ", but on another";
    }
    long offset = spec.tensors().get(tensor).offset();
    long span;
    try {
      span = spec.layout().partOfTensor(tensor).shape().spanBytes();
    } catch (ArithmeticException _) {
      return "tensor " + tensor + " spans more than 64 bits can count";
    }
    if (offset < 0 || span > mapping.bytes() - offset) {
      return "tensor "
          + tensor
          + " of "
          + span
          + " bytes at offset "
          + offset
          + " is not within its allocation of "
          + mapping.bytes()
          + " bytes";
    }
    return null;
  }

  /** Tensors of one part may be interleaved, as the layers of one allocation are. */
  private static @Nullable String overlap(KvLayout layout, long[] addresses) {
    for (int i = 0; i < addresses.length; i++) {
      KvPart part = layout.partOfTensor(i);
      for (int j = i + 1; j < addresses.length; j++) {
        boolean overlaps =
            layout.partOfTensor(j).equals(part)
                ? part.shape().overlapsItselfAt(Math.abs(addresses[j] - addresses[i]))
                : addresses[i] == addresses[j];
        if (overlaps) {
          return "tensors "
              + i
              + " and "
              + j
              + " overlap: the second begins "
              + (addresses[j] - addresses[i])
              + " bytes after the first";
        }
      }
    }
    return null;
  }

  private static String explain(GpuException e) {
    String hint =
        switch (e.code()) {
          case INVALID_CONTEXT -> "; the handle may be of this very process";
          case INVALID_VALUE, INVALID_HANDLE ->
              "; expected the handle of an allocation whose owner lives";
          case MAP_FAILED -> "; is the engine in another container, or another user's?";
          default -> "";
        };
    return e.reason() + hint;
  }

  /** The GPU it is on. */
  public Gpu gpu() {
    return gpu;
  }

  /** How its blocks lie. */
  public KvLayout layout() {
    return layout;
  }

  /** How many events there are. */
  public int events() {
    return events.size();
  }

  /** One of the events, counted from 0. */
  GpuEvent event(int number) {
    return events.get(number);
  }

  /**
   * Adds the runs of some layers and heads of a block.
   *
   * @param hostAddress where the device sees the block's slot
   * @throws IllegalArgumentException when there is no such block, layer or head
   */
  public void addRuns(int block, Span layers, Span heads, long hostAddress, Runs runs) {
    if (isClosed) {
      throw new IllegalStateException("the region is closed");
    }
    layout.addRuns(block, layers, heads, addresses, hostAddress, runs);
  }

  /**
   * Adds the runs of some layers of a block, with all heads.
   *
   * @param hostAddress where the device sees the block's slot
   * @throws IllegalArgumentException when there is no such block or layer
   */
  public void addRuns(int block, Span layers, long hostAddress, Runs runs) {
    RunPlan known = plan;
    if (known == null || !known.suits(layers)) {
      addRuns(block, layers, Span.all(layout.heads()), hostAddress, runs);
      return;
    }
    if (isClosed) {
      throw new IllegalStateException("the region is closed");
    }
    if (block < 0 || block >= layout.blocks()) {
      throw new IllegalArgumentException(
          "block " + block + " is not in the region: it has " + layout.blocks() + ", from 0 on");
    }
    layers.requireWithin(layout.layers(), "layers");
    known.addRuns(block, layers, hostAddress, runs);
  }

  /** Ends the mappings; no copy of the region may be in flight. */
  @Override
  public void close() {
    if (!isClosed) {
      isClosed = true;
      close(gpu, opened, events);
    }
  }

  private static void close(Gpu gpu, List<IpcHandle> opened, List<GpuEvent> events) {
    for (GpuEvent event : events) {
      quietly(() -> gpu.destroy(event));
    }
    for (IpcHandle handle : opened) {
      quietly(() -> gpu.close(handle));
    }
  }

  /** One that can't be closed keeps no other from it; after an error of CUDA's none can. */
  private static void quietly(Runnable close) {
    try {
      close.run();
    } catch (GpuException _) {
      // It goes with the process.
    }
  }
}
