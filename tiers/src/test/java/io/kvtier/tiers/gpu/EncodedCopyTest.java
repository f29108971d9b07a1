package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.BlockOrder;
import io.kvtier.layout.IndexRange;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.KvPart;
import io.kvtier.layout.Runs;
import io.kvtier.layout.TensorShape;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.EncodingKind;
import io.kvtier.layout.encoding.GranuleCodec;
import io.kvtier.layout.encoding.GranuleRuns;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Blocks that are encoded on their way to the host, and decoded on their way back: the host has the
 * bytes that other encoders make, and the device gets those that other decoders make.
 */
@ParameterizedClass
@EnumSource(EncodingKind.class)
final class EncodedCopyTest {
  /** A batch has two blocks at most, and its table few entries. Copies have more thread blocks. */
  private static final CopyOptions SMALL = new CopyOptions(3, 20_480, 24, 4, 1, 3, 3, 8);

  private static final int LAYERS = 3;
  private static final int TOKENS = 16;
  private static final int DIM = 32;
  private static final int BLOCKS = 6;
  private static final int COPIED = 4;

  private final EncodingKind kind;
  private final Arena arena = Arena.ofShared();

  EncodedCopyTest(EncodingKind kind) {
    this.kind = kind;
  }

  @AfterEach
  void closeArena() {
    arena.close();
  }

  private static BlockEncoding encoding(EncodingKind kind, KvLayout layout) {
    return BlockEncoding.of(kind.id() + " bf16 1024", layout.blockBytes());
  }

  private static KvLayout layout(boolean isHeadFirst, int heads, int of, int first, String order) {
    TensorShape shape =
        isHeadFirst
            ? TensorShape.contiguous(
                "BCHND", List.of((long) BLOCKS, 2L, (long) heads, (long) TOKENS, (long) DIM), 2)
            : TensorShape.contiguous(
                "CBNHD", List.of(2L, (long) BLOCKS, (long) TOKENS, (long) heads, (long) DIM), 2);
    return new KvLayout(
        LAYERS,
        BLOCKS,
        TOKENS,
        BlockOrder.parse(order),
        List.of(new KvPart("kv", shape, of, first)));
  }

  /** An engine's tensors, with values as those of a model. */
  private final class Engine {
    final KvLayout layout;
    final BlockEncoding encoding;
    final List<MemorySegment> tensors = new ArrayList<>();
    final Random random;

    Engine(KvLayout layout, long seed) {
      this(kind, layout, seed);
    }

    Engine(EncodingKind kind, KvLayout layout, long seed) {
      this.layout = layout;
      random = new Random(seed);
      encoding = encoding(kind, layout);
      for (int i = 0; i < layout.tensorCount(); i++) {
        MemorySegment tensor = arena.allocate(layout.partOfTensor(i).shape().spanBytes(), 256);
        for (long at = 0; at < tensor.byteSize(); at += Short.BYTES) {
          tensor.set(ValueLayout.JAVA_SHORT, at, element(random));
        }
        tensors.add(tensor);
      }
    }

    private static short element(Random random) {
      double scale = random.nextInt(500) == 0 ? 1e-9 : 1;
      return (short) (Float.floatToIntBits((float) (random.nextGaussian() * scale)) >>> 16);
    }

    long[] addresses() {
      return tensors.stream().mapToLong(MemorySegment::address).toArray();
    }

    /** Adds the runs of some layers of a block. */
    void addRuns(int block, IndexRange layers, long place, Runs runs) {
      layout.addRuns(block, layers, IndexRange.all(layout.heads()), addresses(), place, runs);
    }

    /** The bytes of a block, with zeros where other ranks have theirs. */
    MemorySegment block(int number) {
      MemorySegment block = arena.allocate(layout.blockBytes(), 16);
      Runs runs = new Runs();
      addRuns(number, IndexRange.all(LAYERS), block.address(), runs);
      forEachRun(
          runs,
          (device, host, bytes) -> FakeGpu.at(host, bytes).copyFrom(FakeGpu.at(device, bytes)));
      return block;
    }

    void forEachRun(Runs runs, RunTable.Visitor visitor) {
      for (int i = 0; i < runs.entries(); i++) {
        var grid = runs.grid(i);
        if (grid == null) {
          visitor.visit(runs.deviceAddress(i), runs.hostAddress(i), runs.bytes(i));
          continue;
        }
        for (int run = 0; run < grid.runs(); run++) {
          visitor.visit(
              runs.deviceAddress(i) + grid.deviceOffset(run),
              runs.hostAddress(i) + grid.hostOffset(run),
              grid.runBytes());
        }
      }
    }

    Copy copy(int[] blocks, IndexRange layers, List<MemorySegment> slots) {
      Copy copy = new Copy();
      copy.encoding = encoding;
      for (int i = 0; i < blocks.length; i++) {
        copy.slots[i] = slots.get(i).address();
        addRuns(blocks[i], layers, Copy.placeOf(i), copy.runs);
      }
      return copy;
    }

    List<MemorySegment> slots(int count) {
      List<MemorySegment> slots = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        MemorySegment slot = arena.allocate(encoding.encodedBytes(), 16);
        FakeGpu.fill(slot, random);
        slots.add(slot);
      }
      return slots;
    }

    MemorySegment encoded(MemorySegment block) {
      MemorySegment encoded = arena.allocate(encoding.encodedBytes(), 16);
      assertTrue(new GranuleCodec(encoding).encode(block, encoded));
      return encoded;
    }

    /** The bytes of a block after it was stored: other bytes if its encoding is lossy. */
    MemorySegment stored(int number) {
      MemorySegment stored = arena.allocate(layout.blockBytes(), 16);
      assertTrue(new GranuleCodec(encoding).decode(encoded(block(number)), stored));
      return stored;
    }
  }

  private static void copy(FakeGpu gpu, CopyDirection direction, List<Copy> copies) {
    CopyEngine engine =
        new CopyEngine(gpu, direction, SMALL, StrategyTable.only(CopyStrategy.PLAIN));
    long bytes = 0;
    for (Copy copy : copies) {
      bytes += copy.runs.totalBytes();
      assertTrue(engine.submit(copy));
    }
    while (engine.inFlight() > 0) {
      int ignored = engine.poll(_ -> {});
    }
    copies.forEach(copy -> assertEquals(Status.OK, copy.status));
    assertEquals(bytes, engine.bytesBy(CopyStrategy.ENCODED));
    engine.close();
  }

  private static void assertSame(MemorySegment expected, MemorySegment found, String what) {
    assertEquals(-1, expected.mismatch(found), what);
  }

  @ParameterizedTest
  @CsvSource({
    "true, LCHND",
    "false, LCHND",
    "true, LCND",
    "false, LCND",
    "true, CLHND",
    "false, CLHND"
  })
  void blocks_thereAndBack_areWhatTheirEncodingKeeps(boolean isHeadFirst, String order) {
    for (long seed = 0; seed < 20; seed++) {
      String what = "seed " + seed;
      FakeGpu gpu = new FakeGpu(seed);
      gpu.hasBatchCopies = seed % 2 == 0;
      Engine from = new Engine(layout(isHeadFirst, 4, 4, 0, order), seed);
      Engine to = new Engine(layout(!isHeadFirst, 4, 4, 0, order), seed + 1000);
      assertNull(GranuleRuns.problem(from.layout, new long[LAYERS], from.encoding));
      int[] blocks = {5, 0, 3, 1};
      int[] targets = {2, 4, 0, 1};
      List<MemorySegment> slots = from.slots(COPIED);
      List<MemorySegment> others = new ArrayList<>(List.of(to.block(3), to.block(5)));
      copy(gpu, CopyDirection.OFFLOAD, List.of(from.copy(blocks, IndexRange.all(LAYERS), slots)));
      for (int i = 0; i < COPIED; i++) {
        assertSame(from.encoded(from.block(blocks[i])), slots.get(i), what);
      }
      // Some layers at a time, as engines that wait for each ask for them.
      copy(
          gpu,
          CopyDirection.ONBOARD,
          List.of(
              to.copy(targets, new IndexRange(1, 3), slots),
              to.copy(targets, new IndexRange(0, 1), slots)));
      for (int i = 0; i < COPIED; i++) {
        assertSame(from.stored(blocks[i]), to.block(targets[i]), what);
      }
      assertSame(others.get(0), to.block(3), what);
      assertSame(others.get(1), to.block(5), what);
      assertTrue(gpu.hasNothingLeft());
      gpu.close();
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = CopyDirection.class,
      names = {"OFFLOAD", "ONBOARD"})
  void kernel_encodesOrDecodes_hasTheThreadBlocksForThat(CopyDirection direction) {
    FakeGpu gpu = new FakeGpu(1);
    Engine engine = new Engine(layout(false, 4, 4, 0, "LCHND"), 1);
    List<MemorySegment> slots = engine.slots(COPIED);
    for (int i = 0; i < COPIED; i++) {
      slots.get(i).copyFrom(engine.encoded(engine.block(i)));
    }
    int[] blocks = {0, 1, 2, 3};
    copy(gpu, direction, List.of(engine.copy(blocks, IndexRange.all(LAYERS), slots)));
    assertEquals(SMALL.encodingBlocks(), gpu.encodingBlocks);
    gpu.close();
  }

  @ParameterizedTest
  @EnumSource(
      value = CopyDirection.class,
      names = {"OFFLOAD", "ONBOARD"})
  void kernel_copiesARawBlock_hasTheThreadBlocksForThat(CopyDirection direction) {
    FakeGpu gpu = new FakeGpu(1);
    Engine engine = new Engine(layout(false, 4, 4, 0, "LCHND"), 1);
    long bytes = engine.layout.blockBytes();
    MemorySegment raw = arena.allocate(COPIED * bytes, 16);
    CopyOptions options = new CopyOptions(2, 1 << 17, 24, 2, 1, 3, 3, 8);
    CopyEngine lane =
        new CopyEngine(gpu, direction, options, StrategyTable.only(CopyStrategy.STAGED));
    Copy copy = new Copy();
    for (int block = 0; block < COPIED; block++) {
      long place = raw.address() + block * bytes;
      engine.addRuns(block, IndexRange.all(LAYERS), place, copy.runs);
    }
    assertTrue(lane.submit(copy));
    while (lane.inFlight() > 0) {
      int ignored = lane.poll(_ -> {});
    }
    lane.close();
    assertEquals(options.stagingBlocks(), gpu.copyingBlocks);
    gpu.close();
  }

  /** Ranks decode their heads of a block that one rank has encoded. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void rank_getsABlock_decodesItsHeadsAlone(boolean isHeadFirst) {
    FakeGpu gpu = new FakeGpu(1);
    Engine from = new Engine(layout(isHeadFirst, 4, 4, 0, "LCHND"), 1);
    List<MemorySegment> slots = from.slots(1);
    copy(gpu, CopyDirection.OFFLOAD, List.of(from.copy(new int[] {2}, IndexRange.all(3), slots)));
    MemorySegment sum = arena.allocate(from.layout.blockBytes(), 16);
    for (int rank = 0; rank < 2; rank++) {
      Engine to = new Engine(layout(!isHeadFirst, 2, 4, 2 * rank, "LCHND"), 5 + rank);
      assertNull(GranuleRuns.problem(to.layout, new long[LAYERS], to.encoding));
      copy(gpu, CopyDirection.ONBOARD, List.of(to.copy(new int[] {4}, IndexRange.all(3), slots)));
      MemorySegment part = to.block(4);
      for (long at = 0; at < sum.byteSize(); at++) {
        byte both =
            (byte) (sum.get(ValueLayout.JAVA_BYTE, at) | part.get(ValueLayout.JAVA_BYTE, at));
        sum.set(ValueLayout.JAVA_BYTE, at, both);
      }
    }
    assertSame(from.stored(2), sum, "the heads of both ranks");
    gpu.close();
  }

  @Test
  void offload_blockThatDoesNotFit_isToldAndItsNeighboursAreWhole() {
    for (long seed = 0; seed < 20; seed++) {
      FakeGpu gpu = new FakeGpu(seed);
      Engine engine = new Engine(layout(false, 4, 4, 0, "LCHND"), seed);
      int unfit = engine.random.nextInt(COPIED);
      // The elements of one head have exponents of any size, and one is infinite.
      Runs runs = new Runs();
      engine.addRuns(unfit, new IndexRange(1, 2), 0, runs);
      long at = runs.deviceAddress(0);
      for (int token = 0; token < TOKENS; token++) {
        FakeGpu.fill(FakeGpu.at(at + token * 4L * DIM * 2, DIM * 2), engine.random);
      }
      FakeGpu.at(at, Short.BYTES).set(ValueLayout.JAVA_SHORT, 0, (short) 0x7f80);
      int[] blocks = {0, 1, 2, 3};
      List<MemorySegment> slots = engine.slots(COPIED);
      Copy copy = engine.copy(blocks, IndexRange.all(LAYERS), slots);
      copy(gpu, CopyDirection.OFFLOAD, List.of(copy));
      assertEquals(1L << unfit, copy.flaws, "seed " + seed);
      for (int i = 0; i < COPIED; i++) {
        if (i != unfit) {
          assertSame(engine.encoded(engine.block(i)), slots.get(i), "seed " + seed);
        }
      }
      gpu.close();
    }
  }

  @Test
  void onboard_damagedBytesOfAnyKind_areToldAndNothingElseIsWritten() {
    for (long seed = 0; seed < 100; seed++) {
      String what = "seed " + seed;
      FakeGpu gpu = new FakeGpu(seed);
      Engine engine = new Engine(layout(seed % 2 == 0, 4, 4, 0, "LCHND"), seed);
      List<MemorySegment> slots = new ArrayList<>();
      long damaged = 0;
      for (int i = 0; i < 3; i++) {
        MemorySegment slot = engine.encoded(engine.block(i));
        damaged |= damage(slot, engine.encoding, engine.random) ? 1L << i : 0;
        slots.add(slot);
      }
      Engine to = new Engine(engine.layout, seed + 1000);
      List<MemorySegment> others = List.of(to.block(0), to.block(1), to.block(2));
      Copy copy = to.copy(new int[] {3, 4, 5}, IndexRange.all(LAYERS), slots);
      copy(gpu, CopyDirection.ONBOARD, List.of(copy));
      assertEquals(damaged, copy.flaws, what);
      for (int i = 0; i < 3; i++) {
        assertSame(others.get(i), to.block(i), what);
        if ((damaged & 1L << i) == 0) {
          assertSame(engine.stored(i), to.block(3 + i), what);
        }
      }
      gpu.close();
    }
  }

  /** Damages a block, or not; true when it is damaged. */
  private static boolean damage(MemorySegment slot, BlockEncoding encoding, Random random) {
    int granule = random.nextInt(encoding.granules());
    long first = (long) granule * encoding.encodedGranuleBytes();
    MemorySegment bytes = slot.asSlice(first, encoding.encodedGranuleBytes());
    switch (random.nextInt(4)) {
      case 0 -> {
        return false;
      }
      case 1 -> flip(bytes, random.nextInt(bytes.toArray(ValueLayout.JAVA_BYTE).length), random);
      case 2 -> flip(bytes, random.nextInt(6), random);
      default -> FakeGpu.fill(bytes, random);
    }
    MemorySegment ignored = MemorySegment.ofArray(new byte[(int) encoding.rawBytes()]);
    return !new GranuleCodec(encoding).decode(slot, ignored);
  }

  private static void flip(MemorySegment bytes, int at, Random random) {
    byte other = (byte) (bytes.get(ValueLayout.JAVA_BYTE, at) ^ 1 << random.nextInt(8));
    bytes.set(ValueLayout.JAVA_BYTE, at, other);
  }

  @Test
  void rawAndEncodedCopies_inOneLane_areBothRight() {
    FakeGpu gpu = new FakeGpu(3);
    Engine engine = new Engine(layout(false, 4, 4, 0, "LCHND"), 3);
    List<MemorySegment> slots = engine.slots(2);
    MemorySegment raw = arena.allocate(engine.layout.blockBytes(), 16);
    Copy plain = new Copy();
    engine.addRuns(1, IndexRange.all(LAYERS), raw.address(), plain.runs);
    CopyEngine lane =
        new CopyEngine(gpu, CopyDirection.OFFLOAD, SMALL, StrategyTable.only(CopyStrategy.STAGED));
    assertTrue(lane.submit(engine.copy(new int[] {0}, IndexRange.all(LAYERS), slots)));
    assertTrue(lane.submit(plain));
    assertTrue(
        lane.submit(engine.copy(new int[] {2}, IndexRange.all(LAYERS), slots.subList(1, 2))));
    while (lane.inFlight() > 0) {
      int ignored = lane.poll(_ -> {});
    }
    lane.close();
    assertSame(engine.encoded(engine.block(0)), slots.get(0), "the first encoded one");
    assertSame(engine.block(1), raw, "the raw one");
    assertSame(engine.encoded(engine.block(2)), slots.get(1), "the second encoded one");
    gpu.close();
  }

  @Test
  void copiesOfEveryKind_inOneLane_areAllEncodedAsTheyShallBe() {
    FakeGpu gpu = new FakeGpu(4);
    CopyEngine lane =
        new CopyEngine(gpu, CopyDirection.OFFLOAD, SMALL, StrategyTable.only(CopyStrategy.PLAIN));
    List<Engine> engines = new ArrayList<>();
    List<MemorySegment> slots = new ArrayList<>();
    for (EncodingKind each : EncodingKind.values()) {
      Engine engine = new Engine(each, layout(false, 2, 2, 0, "LCHND"), 4);
      engines.add(engine);
      slots.addAll(engine.slots(1));
      assertTrue(
          lane.submit(
              engine.copy(
                  new int[] {0},
                  IndexRange.all(LAYERS),
                  slots.subList(slots.size() - 1, slots.size()))));
    }
    while (lane.inFlight() > 0) {
      int ignored = lane.poll(_ -> {});
    }
    lane.close();
    for (int i = 0; i < slots.size(); i++) {
      Engine engine = engines.get(i);
      assertSame(engine.encoded(engine.block(0)), slots.get(i), engine.encoding.toString());
    }
    gpu.close();
  }

  @Test
  void submit_granuleLargerThanASlot_isRefused() {
    FakeGpu gpu = new FakeGpu(1);
    CopyOptions tiny = new CopyOptions(2, 4096, 24, 4, 2, 3, 3, 8);
    CopyEngine engine =
        new CopyEngine(gpu, CopyDirection.OFFLOAD, tiny, StrategyTable.only(CopyStrategy.PLAIN));
    Copy copy = new Copy();
    copy.encoding = BlockEncoding.of(kind.id() + " bf16 16384", 16384);
    assertThrows(IllegalArgumentException.class, () -> engine.submit(copy));
    engine.close();
    gpu.close();
  }

  @Test
  void problem_layoutsThatCantBeEncoded_saysWhy() {
    BlockEncoding encoding = encoding(kind, layout(false, 4, 4, 0, "LCND"));
    // A rank has a quarter of each token's heads, and a granule all heads of four tokens.
    String order =
        String.valueOf(GranuleRuns.problem(layout(false, 1, 4, 1, "LCND"), new long[3], encoding));
    assertTrue(order.contains("expected an 'order' with heads outside of tokens"));
    String tensors =
        String.valueOf(
            GranuleRuns.problem(layout(false, 4, 4, 0, "LCND"), new long[] {0, 8, 0}, encoding));
    assertTrue(tensors.contains("at a multiple of 16"), tensors);
    TensorShape odd = TensorShape.contiguous("CBNHD", List.of(2L, 2L, 16L, 64L, 8L), 2);
    KvLayout narrow =
        new KvLayout(1, 2, 16, BlockOrder.LCHND, List.of(new KvPart("kv", odd, 64, 0)));
    String runs = String.valueOf(GranuleRuns.problem(narrow, new long[1], encoding(kind, narrow)));
    assertTrue(runs.contains("runs of 16 bytes"), runs);
  }
}
