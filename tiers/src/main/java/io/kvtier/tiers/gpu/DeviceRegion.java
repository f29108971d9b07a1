package io.kvtier.tiers.gpu;

import io.kvtier.layout.IndexRange;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.KvPart;
import io.kvtier.layout.Runs;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.GranuleRuns;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An engine's KV tensors, opened in this process. The memory stays the engine's, and while a region
 * is open the driver does not free it, even when the engine has died: close it as soon as its
 * session ends and no copy of it is in flight.
 */
public final class DeviceRegion implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(DeviceRegion.class);

  /** CUDA's numbers of errors that have a meaning here. */
  private static final int INVALID_VALUE = 1;

  private static final int INVALID_CONTEXT = 201;
  private static final int MAP_FAILED = 205;
  private static final int INVALID_HANDLE = 400;

  private final Gpu gpu;
  private final DeviceRegionSpec spec;
  private final List<DeviceMemory> opened;
  private final DeviceMapping[] mappings;
  private final List<GpuEvent> events;
  private final RegionView view;

  /** How other GPUs see it, of those that can; written by one thread, read by their lanes. */
  private final Map<Gpu, RegionView> peers = new ConcurrentHashMap<>();

  private boolean isClosed;

  private DeviceRegion(
      Gpu gpu,
      DeviceRegionSpec spec,
      List<DeviceMemory> opened,
      DeviceMapping[] mappings,
      List<GpuEvent> events) {
    this.gpu = gpu;
    this.spec = spec;
    this.opened = opened;
    this.mappings = mappings;
    this.events = events;
    view = new RegionView(spec.layout(), addresses(spec, mappings));
  }

  /** Opens an engine's tensors, or says why not; the specification may be closed after it. */
  public static RegionResult open(GpuDriver driver, DeviceRegionSpec spec) {
    if (spec.tensors().size() != spec.layout().tensorCount()) {
      return new RegionResult.Refused(
          spec.tensors().size()
              + " tensors: expected "
              + spec.layout().tensorCount()
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
    List<DeviceMemory> opened = new ArrayList<>();
    DeviceMapping[] mappings = new DeviceMapping[spec.tensors().size()];
    String reason = null;
    for (int i = 0; i < mappings.length && reason == null; i++) {
      DeviceRegionSpec.TensorPlace place = spec.tensors().get(i);
      try {
        mappings[i] = gpu.open(place.memory());
      } catch (GpuException e) {
        reason = "tensor " + i + ": " + explain(e);
        break;
      }
      opened.add(place.memory());
      reason = problem(gpu, spec, i, mappings[i]);
    }
    if (reason == null) {
      reason = overlap(spec.layout(), addresses(spec, mappings));
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
    return new RegionResult.Opened(new DeviceRegion(gpu, spec, opened, mappings, events));
  }

  private static long[] addresses(DeviceRegionSpec spec, DeviceMapping[] mappings) {
    long[] addresses = new long[mappings.length];
    for (int i = 0; i < addresses.length; i++) {
      addresses[i] = mappings[i].address() + spec.tensors().get(i).offset();
    }
    return addresses;
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
                ? part.shape().overlapsCopyAt(Math.abs(addresses[j] - addresses[i]))
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

  /** Why its blocks can't be encoded as they should, in words; null when they can. */
  @Nullable String problem(@Nullable BlockEncoding encoding) {
    String why =
        encoding == null
            ? null
            : GranuleRuns.problem(spec.layout(), addresses(spec, mappings), encoding);
    return why == null
        ? null
        : "blocks of the namespace can be encoded, and those of the region can't: "
            + why
            + "; or register a namespace without "
            + BlockEncoding.PROPERTY;
  }

  /** The GPU it is on. */
  public Gpu gpu() {
    return gpu;
  }

  /** How its blocks lie. */
  public KvLayout layout() {
    return spec.layout();
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
  public void addRuns(int block, IndexRange layers, IndexRange heads, long hostAddress, Runs runs) {
    requireOpen();
    view.addRuns(block, layers, heads, hostAddress, runs);
  }

  /**
   * Adds the runs of some layers of a block, with all heads.
   *
   * @param hostAddress where the device sees the block's slot
   * @throws IllegalArgumentException when there is no such block or layer
   */
  public void addRuns(int block, IndexRange layers, long hostAddress, Runs runs) {
    requireOpen();
    view.addRuns(block, layers, hostAddress, runs);
  }

  /**
   * Adds the runs from a block of another region to one of this, as this one's GPU sees both.
   *
   * @param scratch two lists to work with
   * @throws GpuException when the GPU does not see the other
   * @throws IllegalArgumentException when there is no such block or layer, or blocks of the two are
   *     not alike
   */
  void addRunsFrom(
      DeviceRegion source,
      int sourceBlock,
      int block,
      IndexRange layers,
      Runs runs,
      Runs[] scratch) {
    requireOpen();
    source.requireOpen();
    RegionView seen = source.gpu.equals(gpu) ? source.view : source.peers.get(gpu);
    if (seen == null) {
      throw new GpuException("GPU " + gpu.device().uuid() + " does not see the region", 0);
    }
    if (view.addPairs(block, layers, seen, sourceBlock, runs)) {
      return;
    }
    for (Runs side : scratch) {
      side.clear();
    }
    view.addRuns(block, layers, 0, scratch[0]);
    seen.addRuns(sourceBlock, layers, 0, scratch[1]);
    runs.addPairs(scratch[0], scratch[1]);
  }

  private void requireOpen() {
    if (isClosed) {
      throw new IllegalStateException("the region is closed");
    }
  }

  /** Whether a GPU can copy from it. */
  boolean isSeenBy(Gpu other) {
    return other.equals(gpu) || peers.containsKey(other);
  }

  /** Lets another GPU copy from it, if it can. */
  void share(Gpu other) {
    if (isSeenBy(other)) {
      return;
    }
    List<DeviceMemory> mapped = new ArrayList<>();
    try {
      if (!other.reaches(gpu)) {
        LOG.info(
            "GPU {} can't access GPU {}: blocks between them are copied through host memory",
            other.device().ordinal(),
            gpu.device().ordinal());
        return;
      }
      long[] addresses = new long[opened.size()];
      for (int i = 0; i < addresses.length; i++) {
        DeviceRegionSpec.TensorPlace place = spec.tensors().get(i);
        addresses[i] = other.openPeer(place.memory(), mappings[i]) + place.offset();
        mapped.add(place.memory());
      }
      peers.put(other, new RegionView(spec.layout(), addresses));
    } catch (GpuException e) {
      mapped.forEach(memory -> quietly(() -> other.close(memory)));
      LOG.warn(
          "GPU {} can't access a region of GPU {}: {}. Blocks are copied through host memory",
          other.device().ordinal(),
          gpu.device().ordinal(),
          e.reason());
    }
  }

  /** Ends the mappings; no copy of the region may be in flight. */
  @Override
  public void close() {
    if (!isClosed) {
      isClosed = true;
      for (Gpu other : peers.keySet()) {
        close(other, opened, List.of());
      }
      peers.clear();
      view.forget();
      close(gpu, opened, events);
    }
  }

  private static void close(Gpu gpu, List<DeviceMemory> opened, List<GpuEvent> events) {
    for (GpuEvent event : events) {
      quietly(() -> gpu.destroy(event));
    }
    for (DeviceMemory memory : opened) {
      quietly(() -> gpu.close(memory));
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
