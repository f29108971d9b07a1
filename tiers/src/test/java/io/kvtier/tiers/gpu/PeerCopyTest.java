package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.BlockOrder;
import io.kvtier.layout.IndexRange;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.KvPart;
import io.kvtier.layout.Runs;
import io.kvtier.layout.TensorShape;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.gpu.DeviceRegionSpec.TensorPlace;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Blocks from one region to another: the same bits as by the host, however each is laid out. */
final class PeerCopyTest {
  private static final int BLOCKS = 4;
  private static final CopyOptions SMALL = new CopyOptions(3, 8192, 32, 4, 4, 2, 2, BLOCKS);
  private static final PinnedSlabs NO_SLABS = new PinnedSlabs(_ -> MemorySegment.NULL, 0);

  private static KvLayout layout(String axes, List<Long> extents) {
    KvPart part = KvPart.of("kv", TensorShape.contiguous(axes, extents, 2));
    return new KvLayout(3, BLOCKS, 4, BlockOrder.LCND, List.of(part));
  }

  /** Keys and values apart, a tensor a layer. */
  private static final KvLayout PLANES = layout("CBNHD", List.of(2L, (long) BLOCKS, 4L, 2L, 8L));

  /** A block in one piece a layer. */
  private static final KvLayout JOINED = layout("BCNHD", List.of((long) BLOCKS, 2L, 4L, 2L, 8L));

  /** All layers in one tensor, tokens not told apart by blocks. */
  private static final KvLayout ONE_TENSOR = layout("LCNHD", List.of(3L, 2L, 4L * BLOCKS, 2L, 8L));

  private static DeviceRegion open(FakeGpu gpu, KvLayout layout) {
    List<TensorPlace> tensors = new ArrayList<>();
    for (int i = 0; i < layout.tensorCount(); i++) {
      long bytes = layout.partOfTensor(i).shape().spanBytes();
      tensors.add(new TensorPlace(gpu.share(gpu.allocate(bytes), bytes), 0));
    }
    RegionResult result =
        DeviceRegion.open(gpu, new DeviceRegionSpec(FakeGpu.UUID, layout, tensors));
    return assertInstanceOf(RegionResult.Opened.class, result).region();
  }

  /** The bytes of a block as they stand on the host. */
  private static byte[] bytes(DeviceRegion region, int block) {
    Runs entries = new Runs();
    region.addRuns(block, IndexRange.all(region.layout().layers()), 0, entries);
    Runs runs = RunLists.expanded(entries);
    byte[] bytes = new byte[region.layout().blockBytes()];
    for (int i = 0; i < runs.count(); i++) {
      MemorySegment.copy(
          FakeGpu.at(runs.deviceAddress(i), runs.bytes(i)),
          0,
          MemorySegment.ofArray(bytes),
          runs.hostAddress(i),
          runs.bytes(i));
    }
    return bytes;
  }

  private static DeviceTransfer transfer(
      DeviceRegion target, DeviceRegion source, IndexRange layers) {
    DeviceTransfer transfer = new DeviceTransfer(0);
    transfer.begin();
    transfer.direction = CopyDirection.PEER;
    transfer.region = target;
    transfer.source = source;
    transfer.layers = layers;
    transfer.count = 2;
    transfer.targets[0] = 1;
    transfer.sources[0] = 3;
    transfer.targets[1] = 2;
    transfer.sources[1] = 0;
    return transfer;
  }

  /** Copies, a lane's rounds made here; what came of it. */
  private static Status copy(FakeGpu gpu, CopyStrategy strategy, DeviceTransfer transfer) {
    CopyEngine engine =
        new CopyEngine(gpu, CopyDirection.PEER, SMALL, StrategyTable.only(strategy));
    DeviceLane lane =
        new DeviceLane(
            "peer",
            gpu,
            engine,
            NO_SLABS,
            1,
            () -> {},
            broken -> {
              throw new AssertionError(broken);
            });
    assertTrue(lane.offer(transfer));
    List<DeviceTransfer> finished = new ArrayList<>();
    for (int round = 0; finished.isEmpty() && round < 100_000; round++) {
      int ignored = lane.doWork() + lane.collect(finished::add);
    }
    assertEquals(1, finished.size());
    engine.close();
    return transfer.status;
  }

  @ParameterizedTest
  @EnumSource(
      value = CopyStrategy.class,
      names = {"PLAIN", "BATCH", "KERNEL"})
  void copy_betweenLayoutsOfAllKinds_blocksAreTheSame(CopyStrategy strategy) {
    List<KvLayout> layouts = List.of(PLANES, JOINED, ONE_TENSOR);
    for (KvLayout from : layouts) {
      for (KvLayout to : layouts) {
        assertTrue(from.hasSameShardAs(to));
        FakeGpu gpu = new FakeGpu(7);
        DeviceRegion source = open(gpu, from);
        DeviceRegion target = open(gpu, to);
        byte[] untouched = bytes(target, 0);
        assertEquals(
            Status.OK,
            copy(gpu, strategy, transfer(target, source, IndexRange.all(from.layers()))));
        assertEquals(List.of(), differing(bytes(source, 3), bytes(target, 1)));
        assertEquals(List.of(), differing(bytes(source, 0), bytes(target, 2)));
        assertEquals(List.of(), differing(untouched, bytes(target, 0)));
        source.close();
        target.close();
        gpu.close();
      }
    }
  }

  @Test
  void copy_someLayers_leavesTheOthersAlone() {
    FakeGpu gpu = new FakeGpu(8);
    DeviceRegion source = open(gpu, PLANES);
    DeviceRegion target = open(gpu, ONE_TENSOR);
    byte[] before = bytes(target, 1);
    assertEquals(
        Status.OK, copy(gpu, CopyStrategy.KERNEL, transfer(target, source, new IndexRange(1, 2))));
    byte[] expected = bytes(source, 3);
    int layer = before.length / 3;
    System.arraycopy(before, 0, expected, 0, layer);
    System.arraycopy(before, 2 * layer, expected, 2 * layer, layer);
    assertEquals(List.of(), differing(expected, bytes(target, 1)));
    source.close();
    target.close();
    gpu.close();
  }

  @Test
  void share_siblingReachesIt_copiesFromWhereItSeesIt() {
    FakeGpu owner = new FakeGpu(9);
    FakeGpu getter = new FakeGpu(10);
    DeviceRegion source = open(owner, PLANES);
    DeviceRegion target = open(getter, PLANES);
    assertEquals(Status.IO_ERROR, copy(getter, CopyStrategy.KERNEL, whole(target, source)));
    // The sibling opens the owner's handles itself.
    getter.adopt(owner);
    source.share(getter);
    assertTrue(source.isSeenBy(getter));
    assertEquals(6, getter.openMappings(), "each of both regions' tensors");
    assertEquals(Status.OK, copy(getter, CopyStrategy.KERNEL, whole(target, source)));
    assertEquals(List.of(), differing(bytes(source, 3), bytes(target, 1)));
    source.close();
    assertEquals(3, getter.openMappings());
    assertEquals(0, owner.openMappings());
    target.close();
    owner.close();
    getter.close();
  }

  private static DeviceTransfer whole(DeviceRegion target, DeviceRegion source) {
    return transfer(target, source, IndexRange.all(target.layout().layers()));
  }

  @Test
  void share_siblingDoesNotReachIt_isNotSeen() {
    FakeGpu owner = new FakeGpu(11);
    FakeGpu getter = new FakeGpu(12);
    DeviceRegion source = open(owner, PLANES);
    getter.reachesOthers = false;
    source.share(getter);
    assertFalse(source.isSeenBy(getter));
    // It reaches the GPU, but the driver opens none of the handles.
    getter.reachesOthers = true;
    source.share(getter);
    assertFalse(source.isSeenBy(getter));
    assertEquals(0, getter.openMappings());
    source.close();
    owner.close();
    getter.close();
  }

  private static List<Integer> differing(byte[] expected, byte[] actual) {
    List<Integer> places = new ArrayList<>();
    for (int i = 0; i < expected.length; i++) {
      if (expected[i] != actual[i]) {
        places.add(i);
      }
    }
    return places;
  }
}
