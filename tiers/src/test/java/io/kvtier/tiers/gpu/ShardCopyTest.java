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
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The ranks of engines of all kinds take blocks apart and put them together again, with each
 * strategy: all bytes of the blocks are the same, and no others are written.
 */
final class ShardCopyTest {
  private static final CopyOptions SMALL = new CopyOptions(3, 8192, 64, 4, 4, 2, 2, 8);
  private static final int LAYERS = 4;
  private static final int TOKENS = 16;
  private static final int DIM = 6;

  /** The engine has more blocks than those that are copied. */
  private static final int BLOCKS = 6;

  private static final int COPIED = 4;

  /** An engine, and the order of blocks on the host. */
  private record Engine(int heads, int tp, int pp, boolean isHeadFirst, int page, String order) {
    List<KvLayout> ranks() {
      List<KvLayout> ranks = new ArrayList<>();
      for (int stage = 0; stage < pp; stage++) {
        for (int rank = 0; rank < tp; rank++) {
          ranks.add(rank(stage, rank));
        }
      }
      return ranks;
    }

    private KvLayout rank(int stage, int rank) {
      long own = Math.max(1, heads / tp);
      long pages = (long) BLOCKS * TOKENS / page;
      TensorShape shape =
          isHeadFirst
              ? TensorShape.contiguous("BCHND", List.of(pages, 2L, own, (long) page, (long) DIM), 1)
              : TensorShape.contiguous(
                  "CBNHD", List.of(2L, pages, (long) page, own, (long) DIM), 1);
      return new KvLayout(
          LAYERS / pp,
          BLOCKS,
          TOKENS,
          BlockOrder.parse(order),
          List.of(new KvPart("kv", shape, heads, rank * heads / tp)),
          LAYERS,
          stage * LAYERS / pp);
    }
  }

  private static List<Engine> engines() {
    List<Engine> all = new ArrayList<>();
    for (int heads : new int[] {8, 1}) {
      for (int tp : new int[] {1, 2, 4, 8}) {
        for (int pp : new int[] {1, 2}) {
          for (int page : new int[] {TOKENS, 2 * TOKENS}) {
            for (String order : List.of("LCND", "LCHND", "HLCND")) {
              all.add(new Engine(heads, tp, pp, false, page, order));
              all.add(new Engine(heads, tp, pp, true, page, order));
            }
          }
        }
      }
    }
    return all;
  }

  @ParameterizedTest
  @EnumSource(value = CopyStrategy.class, names = "ENCODED", mode = EnumSource.Mode.EXCLUDE)
  void ranksOfAnyEngine_takeBlocksApartAndPutThemTogether(CopyStrategy strategy) {
    for (Engine engine : engines()) {
      roundTrip(engine, strategy);
    }
  }

  private static void roundTrip(Engine engine, CopyStrategy strategy) {
    FakeGpu gpu = new FakeGpu(engine.hashCode());
    try (Arena arena = Arena.ofConfined()) {
      long blockBytes = engine.ranks().getFirst().blockBytes();
      MemorySegment host = arena.allocate(COPIED * blockBytes, 16);
      FakeGpu.fill(host, new Random(engine.hashCode()));
      MemorySegment back = arena.allocate(COPIED * blockBytes, 16);
      for (KvLayout rank : engine.ranks()) {
        long bytes = rank.partOfTensor(0).shape().spanBytes();
        List<TensorPlace> places = new ArrayList<>();
        List<MemorySegment> tensors = new ArrayList<>();
        for (int i = 0; i < rank.layers(); i++) {
          long address = gpu.allocate(bytes);
          tensors.add(FakeGpu.at(address, bytes));
          places.add(new TensorPlace(gpu.share(address, bytes), 0));
        }
        List<byte[]> before = tensors.stream().map(ShardCopyTest::bytes).toList();
        DeviceRegion region =
            assertInstanceOf(
                    RegionResult.Opened.class,
                    DeviceRegion.open(gpu, new DeviceRegionSpec(FakeGpu.UUID, rank, places)))
                .region();
        copy(gpu, strategy, CopyDirection.ONBOARD, region, host);
        int written = 0;
        for (int i = 0; i < tensors.size(); i++) {
          byte[] after = bytes(tensors.get(i));
          for (int at = 0; at < after.length; at++) {
            written += after[at] == before.get(i)[at] ? 0 : 1;
          }
        }
        long most = COPIED * rank.layerBytes() * rank.layers();
        assertTrue(written <= most, () -> engine + " writes more than its blocks");
        copy(gpu, strategy, CopyDirection.OFFLOAD, region, back);
        region.close();
      }
      assertEquals(-1, host.mismatch(back), () -> engine + " by " + strategy);
    }
    gpu.close();
  }

  private static byte[] bytes(MemorySegment memory) {
    return memory.toArray(ValueLayout.JAVA_BYTE);
  }

  private static void copy(
      FakeGpu gpu,
      CopyStrategy strategy,
      CopyDirection direction,
      DeviceRegion region,
      MemorySegment host) {
    CopyEngine copies = new CopyEngine(gpu, direction, SMALL, StrategyTable.only(strategy));
    Copy copy = new Copy();
    IndexRange layers = IndexRange.all(region.layout().layers());
    for (int block = 0; block < COPIED; block++) {
      long slot = host.address() + (long) block * region.layout().blockBytes();
      // Not the first blocks, and not in order.
      region.addRuns(BLOCKS - 1 - block, layers, slot, copy.runs);
    }
    assertTrue(copies.submit(copy));
    while (copies.inFlight() > 0) {
      copies.poll(done -> assertEquals(Status.OK, done.status));
    }
    copies.close();
  }
}
