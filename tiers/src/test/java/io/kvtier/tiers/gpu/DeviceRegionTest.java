package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.kvtier.layout.BlockOrder;
import io.kvtier.layout.IndexRange;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.KvPart;
import io.kvtier.layout.Replica;
import io.kvtier.layout.Runs;
import io.kvtier.layout.TensorShape;
import io.kvtier.tiers.gpu.DeviceRegionSpec.TensorPlace;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What an engine may register, what is refused and why, and that nothing stays open. */
final class DeviceRegionTest {
  private static final int LAYERS = 2;
  private static final TensorShape SHAPE =
      TensorShape.contiguous("CBNHD", List.of(2L, 10L, 4L, 2L, 8L), 2);
  private static final KvLayout LAYOUT =
      new KvLayout(LAYERS, 10, 4, BlockOrder.LCND, List.of(KvPart.of("kv", SHAPE)));
  private static final long BYTES = SHAPE.spanBytes();

  private final FakeGpu gpu = new FakeGpu(1);
  private final long memory = gpu.allocate(4 * BYTES);
  private final IpcHandle handle = gpu.share(memory, 4 * BYTES);

  @AfterEach
  void close() {
    gpu.close();
  }

  private RegionResult open(String device, long... offsets) {
    List<TensorPlace> tensors = new ArrayList<>();
    for (long offset : offsets) {
      tensors.add(new TensorPlace(handle, offset));
    }
    return DeviceRegion.open(gpu, new DeviceRegionSpec(device, LAYOUT, tensors));
  }

  private void assertRefused(String reason, RegionResult result) {
    assertEquals(reason, assertInstanceOf(RegionResult.Refused.class, result).reason());
    assertEquals(0, gpu.openMappings(), "nothing stays open");
  }

  @Test
  void open_tensorsOfOneAllocation_givesTheirRuns() {
    DeviceRegion region =
        assertInstanceOf(RegionResult.Opened.class, open(FakeGpu.UUID, 0, 2 * BYTES)).region();
    assertEquals(2, gpu.openMappings());
    Runs runs = new Runs();
    region.addRuns(1, IndexRange.all(LAYERS), IndexRange.all(2), 1000, runs);
    assertEquals(4, runs.count());
    Runs each = RunLists.expanded(runs);
    assertEquals(memory + 128, each.deviceAddress(0));
    assertEquals(memory + 2 * BYTES + 128, each.deviceAddress(2));
    region.close();
    region.close();
    assertEquals(0, gpu.openMappings());
    assertThrows(
        IllegalStateException.class,
        () -> region.addRuns(1, IndexRange.all(LAYERS), IndexRange.all(2), 1000, runs));
  }

  @Test
  void open_deviceByUuidWithoutPrefixOrByPciId_isFound() {
    assertInstanceOf(RegionResult.Opened.class, open(FakeGpu.UUID.substring(4), 0, BYTES));
    assertInstanceOf(RegionResult.Opened.class, open("0000:00:00.0", 0, BYTES));
  }

  @Test
  void open_interleavedLayersOfOneAllocation_isFound() {
    TensorShape shape =
        new TensorShape("BNHD", List.of(10L, 4L, 2L, 8L), List.of(2L * 64, 16L, 8L, 1L), 2);
    KvLayout layout = new KvLayout(LAYERS, 10, 4, BlockOrder.LCND, List.of(KvPart.of("kv", shape)));
    DeviceRegionSpec spec =
        new DeviceRegionSpec(
            FakeGpu.UUID,
            layout,
            List.of(new TensorPlace(handle, 0), new TensorPlace(handle, 128)));
    assertInstanceOf(RegionResult.Opened.class, DeviceRegion.open(gpu, spec));
    DeviceRegionSpec halfway =
        new DeviceRegionSpec(
            FakeGpu.UUID, layout, List.of(new TensorPlace(handle, 0), new TensorPlace(handle, 64)));
    assertEquals(
        "tensors 0 and 1 overlap: the second begins 64 bytes after the first",
        assertInstanceOf(RegionResult.Refused.class, DeviceRegion.open(gpu, halfway)).reason());
  }

  @Test
  void open_whatCannotBe_isRefusedWithTheReason() {
    assertRefused(
        "3 tensors: expected 2 for this layout, one of each part or one a layer",
        open(FakeGpu.UUID, 0, BYTES, 2 * BYTES));
    assertRefused(
        "GPU GPU-7 is not seen here: expected one of ["
            + FakeGpu.UUID
            + "]; is CUDA_VISIBLE_DEVICES of the daemon too narrow?",
        open("GPU-7", 0, BYTES));
    assertRefused(
        "tensor 1 of 2560 bytes at offset 7681 is not within its allocation of 10240 bytes",
        open(FakeGpu.UUID, 0, 3 * BYTES + 1));
    assertRefused(
        "tensor 0 of 2560 bytes at offset -1 is not within its allocation of 10240 bytes",
        open(FakeGpu.UUID, -1, BYTES));
    assertRefused(
        "tensors 0 and 1 overlap: the second begins 2558 bytes after the first",
        open(FakeGpu.UUID, 0, BYTES - 2));
    assertRefused(
        "tensors 0 and 1 overlap: the second begins 0 bytes after the first",
        open(FakeGpu.UUID, 0, 0));
  }

  @Test
  void open_tensorBeyondAllMemory_isRefused() {
    List<Long> strides = List.of(Long.MAX_VALUE / 2, 16L, 8L, 1L);
    TensorShape shape = new TensorShape("BNHD", List.of(2L, 4L, 2L, 8L), strides, 2);
    KvLayout layout = new KvLayout(1, 2, 4, BlockOrder.LCND, List.of(KvPart.of("kv", shape)));
    assertRefused(
        "tensor 0 spans more than 64 bits can count",
        DeviceRegion.open(
            gpu, new DeviceRegionSpec(FakeGpu.UUID, layout, List.of(new TensorPlace(handle, 0)))));
  }

  @Test
  void open_events_areEndedWithTheRegion() {
    DeviceRegionSpec spec =
        new DeviceRegionSpec(
            FakeGpu.UUID,
            LAYOUT,
            Replica.ONLY,
            List.of(new TensorPlace(handle, 0), new TensorPlace(handle, 2 * BYTES)),
            List.of(handle, handle));
    DeviceRegion region =
        assertInstanceOf(RegionResult.Opened.class, DeviceRegion.open(gpu, spec)).region();
    assertEquals(2, region.events());
    assertEquals(2, gpu.events());
    region.close();
    assertEquals(0, gpu.events());
  }

  @Test
  void open_unknownHandle_isRefusedWithAHint() {
    DeviceRegionSpec spec =
        new DeviceRegionSpec(
            FakeGpu.UUID,
            LAYOUT,
            List.of(
                new TensorPlace(handle, 0),
                new TensorPlace(new IpcHandle(new byte[IpcHandle.BYTES]), 0)));
    assertRefused(
        "tensor 1: cuIpcOpenMemHandle: CUDA_ERROR_INVALID_VALUE; expected the handle of an"
            + " allocation whose owner lives",
        DeviceRegion.open(gpu, spec));
  }

  @Test
  void open_memoryOfAnotherDevice_isRefused() {
    gpu.shareOnDevice(1);
    IpcHandle other = gpu.share(memory, 4 * BYTES);
    DeviceRegionSpec spec =
        new DeviceRegionSpec(
            FakeGpu.UUID,
            LAYOUT,
            List.of(new TensorPlace(other, 0), new TensorPlace(other, BYTES)));
    assertRefused(
        "tensor 0 is not on GPU " + FakeGpu.UUID + ", but on another",
        DeviceRegion.open(gpu, spec));
  }

  @Test
  void handle_ofAnotherSize_isRefused() {
    assertThrows(IllegalArgumentException.class, () -> IpcHandle.parse("00ff"));
  }
}
