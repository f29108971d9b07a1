package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.BlockOrder;
import io.kvtier.layout.IndexRange;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.KvPart;
import io.kvtier.layout.TensorShape;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.gpu.DeviceRegionSpec.TensorPlace;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;

/** One direction of a GPU, its rounds made by the test. */
final class DeviceLaneTest {
  private static final int BLOCKS = 32;
  private static final TensorShape SHAPE =
      TensorShape.contiguous("CBNHD", List.of(2L, (long) BLOCKS, 4L, 2L, 8L), 2);
  private static final KvLayout LAYOUT =
      new KvLayout(1, BLOCKS, 4, BlockOrder.LCND, List.of(KvPart.of("kv", SHAPE)));

  @Test
  void doWork_manyTransfersOffered_keepsTheGpuBusyWhileItTakesThem() {
    FakeGpu gpu = new FakeGpu(1);
    long tensor = gpu.allocate(SHAPE.spanBytes());
    DeviceRegionSpec spec =
        new DeviceRegionSpec(
            FakeGpu.UUID,
            LAYOUT,
            List.of(new TensorPlace(gpu.share(tensor, SHAPE.spanBytes()), 0)));
    DeviceRegion region =
        assertInstanceOf(RegionResult.Opened.class, DeviceRegion.open(gpu, spec)).region();
    try (Arena arena = Arena.ofShared()) {
      MemorySegment slab = arena.allocate((long) BLOCKS * LAYOUT.blockBytes(), 16);
      CopyEngine engine = engine(gpu, CopyDirection.OFFLOAD);
      DeviceLane lane = lane("lane", gpu, engine, slab);
      for (int block = 0; block < BLOCKS; block++) {
        assertTrue(lane.offer(transfer(region, block)));
      }
      assertTrue(lane.doWork() > 0);
      assertTrue(gpu.kernels > 0, "the GPU has nothing to do yet");
      assertTrue(engine.inFlight() < BLOCKS, "all were taken before the GPU had anything to do");

      List<DeviceTransfer> finished = new ArrayList<>();
      for (int round = 0; finished.size() < BLOCKS && round < 100_000; round++) {
        int ignored = lane.doWork();
        ignored = lane.collect(finished::add);
      }
      assertEquals(BLOCKS, finished.size());
      finished.forEach(one -> assertEquals(Status.OK, one.status));
      engine.close();
    }
    region.close();
    gpu.close();
  }

  @Test
  void expect_nothingToDo_threadIsAwakeForThatLong() {
    FakeGpu gpu = new FakeGpu(1);
    CopyEngine engine = engine(gpu, CopyDirection.ONBOARD);
    DeviceLane lane = lane("lane that expects", gpu, engine, MemorySegment.NULL);
    lane.start(() -> {});
    try {
      waitUntil(() -> stateOf("lane that expects") == Thread.State.WAITING);
      lane.expect(60_000_000_000L);
      waitUntil(() -> stateOf("lane that expects") == Thread.State.RUNNABLE);
      lane.expect(0);
      waitUntil(() -> stateOf("lane that expects") == Thread.State.WAITING);
    } finally {
      lane.close();
      gpu.close();
    }
  }

  private static CopyEngine engine(FakeGpu gpu, CopyDirection direction) {
    return new CopyEngine(
        gpu,
        direction,
        new CopyOptions(2, 4096, 64, 4, 4, 2, 2, BLOCKS),
        StrategyTable.only(CopyStrategy.STAGED));
  }

  private static DeviceLane lane(String name, FakeGpu gpu, CopyEngine engine, MemorySegment slab) {
    return new DeviceLane(
        name, gpu, engine, new PinnedSlabs(_ -> slab, 1), BLOCKS, () -> {}, _ -> {});
  }

  private static Thread.State stateOf(String name) {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().equals(name))
        .findFirst()
        .orElseThrow()
        .getState();
  }

  private static void waitUntil(BooleanSupplier condition) {
    long end = System.nanoTime() + 30_000_000_000L;
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() - end < 0, "not within 30 s");
      Thread.onSpinWait();
    }
  }

  private static DeviceTransfer transfer(DeviceRegion region, int block) {
    DeviceTransfer transfer = new DeviceTransfer(block);
    transfer.begin();
    transfer.region = region;
    transfer.layers = IndexRange.all(1);
    transfer.count = 1;
    transfer.targets[0] = block;
    transfer.offsets[0] = (long) block * LAYOUT.blockBytes();
    return transfer;
  }
}
