package io.kvtier.layout;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The runs of the layouts that engines use, and the layouts that are refused. */
final class KvLayoutTest {
  private static final int LAYERS = 32;
  private static final int BLOCKS = 100;
  private static final int TOKENS = 16;
  private static final int HEADS = 8;
  private static final int DIM = 128;
  private static final int BF16 = 2;

  private static KvLayout llama(String axes, String order, Long... extents) {
    TensorShape shape = TensorShape.contiguous(axes, List.of(extents), BF16);
    return new KvLayout(
        LAYERS, BLOCKS, TOKENS, BlockOrder.parse(order), List.of(KvPart.of("kv", shape)));
  }

  private static KvLayout nhd() {
    return llama("CBNHD", "LCND", 2L, 100L, 16L, 8L, 128L);
  }

  private static Runs runs(KvLayout layout, IndexRange layers, IndexRange heads) {
    return Layouts.expanded(withGrids(layout, layers, heads));
  }

  private static Runs withGrids(KvLayout layout, IndexRange layers, IndexRange heads) {
    Runs runs = new Runs();
    long[] tensors = new long[layout.tensorCount()];
    for (int i = 0; i < tensors.length; i++) {
      tensors[i] = (i + 1L) << 32;
    }
    layout.addRuns(3, layers, heads, tensors, 0, runs);
    return runs;
  }

  @Test
  void addRuns_llamaBlockOfSixteenTokens_is64RunsOf32KiB() {
    KvLayout layout = nhd();
    Runs runs = runs(layout, IndexRange.all(LAYERS), IndexRange.all(HEADS));
    assertEquals(2 << 20, layout.blockBytes());
    assertEquals(64, runs.count());
    for (int i = 0; i < runs.count(); i++) {
      assertEquals(32 << 10, runs.bytes(i));
    }
    assertEquals((1L << 32) + 3 * (32 << 10), runs.deviceAddress(0));
    assertEquals((1L << 32) + 103 * (32 << 10), runs.deviceAddress(1));
    assertEquals((2L << 32) + 3 * (32 << 10), runs.deviceAddress(2));
  }

  @ParameterizedTest
  @CsvSource({
    // All layers of a block are adjacent, in the block's order: one run.
    "BLCNHD, LCND, 100/32/2/16/8/128, 1, 2097152",
    // The keys and values of a block are adjacent in each layer.
    "BCNHD, LCND, 100/2/16/8/128, 32, 65536",
    "CBHND, LCHND, 2/100/8/16/128, 64, 32768",
    // Heads stand before tokens on the device, and after them on the host.
    "CBHND, LCND, 2/100/8/16/128, 8192, 256",
    // A pool of tokens without a block axis.
    "LNHD, LCND, 32/1600/8/128, 32, 32768",
    "NCLHD, NCLD, 1600/2/32/8/128, 1, 2097152",
    "CBNHD, NCLD, 2/100/16/8/128, 1024, 2048",
    // MLA: one latent vector for each token.
    "BND, LCND, 100/16/576, 32, 18432",
  })
  void addRuns_layoutsOfEngines_haveExpectedRuns(
      String axes, String order, String extents, int count, int bytes) {
    Long[] lengths =
        List.of(extents.split("/", -1)).stream().map(Long::valueOf).toArray(Long[]::new);
    KvLayout layout = llama(axes, order, lengths);
    Runs runs = runs(layout, IndexRange.all(LAYERS), IndexRange.all(layout.heads()));
    assertEquals(count, runs.count());
    assertEquals(bytes, runs.bytes(0));
    assertEquals(layout.blockBytes(), runs.totalBytes());
    assertTrue(count <= layout.runsPerBlock());
    Runs ofLayer = runs(layout, new IndexRange(1, 2), IndexRange.all(layout.heads()));
    assertEquals(ofLayer.count(), layout.runsPerLayer());
    long entriesOfBlock = 0;
    for (int layers = 1; layers <= LAYERS; layers++) {
      Runs some = withGrids(layout, IndexRange.all(layers), IndexRange.all(layout.heads()));
      entriesOfBlock = some.entries();
      assertTrue(entriesOfBlock <= layers * layout.entriesPerLayer(), layers + " layers");
    }
    assertTrue(layout.entriesPerLayer() <= Math.max(2, entriesOfBlock), "not many more than that");
  }

  @Test
  void addRuns_someLayers_haveTheirOffsetInTheWholeBlock() {
    Runs runs = runs(nhd(), new IndexRange(4, 8), IndexRange.all(HEADS));
    assertEquals(8, runs.count());
    assertEquals(4 * 2 * (32 << 10), runs.hostAddress(0));
  }

  @Test
  void addRuns_oneRankOfTwo_skipsHeadsOfTheOther() {
    TensorShape shape = TensorShape.contiguous("CBNHD", List.of(2L, 100L, 16L, 4L, 128L), BF16);
    KvLayout second =
        new KvLayout(
            LAYERS, BLOCKS, TOKENS, BlockOrder.LCND, List.of(new KvPart("kv", shape, HEADS, 4)));
    Runs runs = runs(second, IndexRange.all(LAYERS), IndexRange.all(4));
    assertEquals(2 << 20, second.blockBytes());
    assertEquals(1 << 20, runs.totalBytes());
    assertEquals(4 * DIM * BF16, runs.hostAddress(0));
    assertEquals(HEADS * DIM * BF16, runs.hostAddress(1) - runs.hostAddress(0));
  }

  @Test
  void addRuns_scales_followTheValues() {
    TensorShape values = TensorShape.contiguous("CBNHD", List.of(2L, 100L, 16L, 8L, 128L), 1);
    TensorShape scales = TensorShape.contiguous("CBNH", List.of(2L, 100L, 16L, 8L), 4);
    KvLayout layout =
        new KvLayout(
            LAYERS,
            BLOCKS,
            TOKENS,
            BlockOrder.LCND,
            List.of(KvPart.of("kv", values), KvPart.of("scales", scales)));
    Runs runs = runs(layout, IndexRange.all(LAYERS), IndexRange.all(HEADS));
    assertEquals((1 << 20) + (32 << 10), layout.blockBytes());
    assertEquals(128, runs.count());
    assertEquals(1 << 20, runs.hostAddress(64));
    assertEquals(512, runs.bytes(64));
    assertEquals(64, layout.tensorCount());
  }

  @Test
  void addRuns_unknownBlockLayerOrHead_isRefusedWithItsNumber() {
    KvLayout layout = nhd();
    long[] tensors = new long[LAYERS];
    Runs runs = new Runs();
    assertRefused(
        "block 100 is not in the region: it has 100, from 0 on",
        () -> layout.addRuns(100, IndexRange.all(1), IndexRange.all(1), tensors, 0, runs));
    assertRefused(
        "block -1 is not in the region: it has 100, from 0 on",
        () -> layout.addRuns(-1, IndexRange.all(1), IndexRange.all(1), tensors, 0, runs));
    assertRefused(
        "layers 30 to 33 are not all here: there are 32",
        () -> layout.addRuns(0, new IndexRange(30, 33), IndexRange.all(1), tensors, 0, runs));
    assertRefused(
        "heads 0 to 9 are not all here: there are 8",
        () -> layout.addRuns(0, IndexRange.all(1), IndexRange.all(9), tensors, 0, runs));
    assertRefused(
        "3 tensors: expected 32 for this layout",
        () -> layout.addRuns(0, IndexRange.all(1), IndexRange.all(1), new long[3], 0, runs));
    assertEquals(0, runs.count());
  }

  @Test
  void shape_impossible_isRefusedWithTheValue() {
    assertRefused(
        "stride 1000 of axis 'N' makes elements overlap: expected at least 1024, what the faster"
            + " axes span",
        () -> new TensorShape("NHD", List.of(16L, 8L, 128L), List.of(1000L, 128L, 1L), 2));
    assertRefused(
        "stride 0 of axis 'H' makes elements overlap: expected at least 1, what the faster axes"
            + " span",
        () -> new TensorShape("NHD", List.of(16L, 8L, 128L), List.of(1024L, 0L, 1L), 2));
    assertRefused(
        "stride 2 of axis 'D': expected 1, since the elements of a cell are copied together",
        () -> new TensorShape("ND", List.of(16L, 128L), List.of(256L, 2L), 2));
    assertRefused(
        "axes 'NXD' have an unknown letter 'X': expected letters of LCBNHD (layer, k|v, block,"
            + " token, head, element)",
        () -> TensorShape.contiguous("NXD", List.of(16L, 8L, 128L), 2));
    assertRefused(
        "axes 'NND' have 'N' twice: expected each once",
        () -> TensorShape.contiguous("NND", List.of(16L, 8L, 128L), 2));
    assertRefused(
        "extent 0 of axis 'N': expected 1 or more",
        () -> TensorShape.contiguous("ND", List.of(0L, 128L), 2));
  }

  @Test
  void layout_differsFromItsTensors_isRefusedWithTheValue() {
    assertRefused(
        "extent 99 of axis 'B' of part 'kv': expected 100, the blocks",
        () -> llama("CBNHD", "LCND", 2L, 99L, 16L, 8L, 128L));
    assertRefused(
        "extent 17 of axis 'N' of part 'kv': expected 16, the tokens of a block, or"
            + " a multiple of it",
        () -> llama("CBNHD", "LCND", 2L, 100L, 17L, 8L, 128L));
    assertRefused(
        "extent 1599 of axis 'N' of part 'kv': expected 1600, the tokens of all blocks",
        () -> llama("NHD", "LCND", 1599L, 8L, 128L));
    assertRefused(
        "extent 31 of axis 'L' of part 'kv': expected 32, the layers",
        () -> llama("LBNHD", "LCND", 31L, 100L, 16L, 8L, 128L));
    assertRefused(
        "axes 'CHD' of part 'kv' tell no blocks apart: expected B, or N over the tokens of all"
            + " blocks",
        () -> llama("CHD", "LCND", 2L, 8L, 128L));
    assertRefused(
        "heads 5 to 9 of part 'kv' are not all in a block of 8 heads",
        () ->
            new KvPart(
                "kv", TensorShape.contiguous("BNHD", List.of(9L, 16L, 4L, 128L), 2), HEADS, 5));
    assertRefused(
        "order 'LCN' of a block: expected D at its end, as in LCND", () -> BlockOrder.parse("LCN"));
    assertTrue(BlockOrder.parse("LCNHD").equals(BlockOrder.LCND));
  }

  @Test
  void hasSameShardAs_otherBytes_isFalse() {
    TensorShape shape = TensorShape.contiguous("CBNHD", List.of(2L, 4L, 4L, 2L, 8L), 2);
    KvPart one = KvPart.of("kv", shape);
    KvLayout layout = new KvLayout(3, 4, 4, BlockOrder.LCND, List.of(one));
    KvPart half = new KvPart("kv", one.shape(), 4, 2);
    assertFalse(layout.hasSameShardAs(new KvLayout(3, 4, 4, BlockOrder.LCND, List.of(half))));
    assertFalse(layout.hasSameShardAs(new KvLayout(3, 4, 4, BlockOrder.NCLD, List.of(one))));
    assertFalse(layout.hasSameShardAs(new KvLayout(2, 4, 4, BlockOrder.LCND, List.of(one))));
    TensorShape wider = TensorShape.contiguous("CBNHD", List.of(2L, 4L, 4L, 2L, 4L), 4);
    assertTrue(
        layout.hasSameShardAs(
            new KvLayout(3, 4, 4, BlockOrder.LCND, List.of(KvPart.of("kv", wider)))),
        "elements of other sizes, but the same bytes");
  }

  @ParameterizedTest
  @CsvSource({
    "CLND, 4/4, CLNHD:1x4:2x2x8",
    // Each layer has its keys and its values side by side, which two parts can't have.
    "LCND, 4/4, LCNHD:1x4:1x2x8:1x2x8",
    // Values of other elements than keys.
    "CLND, 4/6, CLNHD:1x4:1x2x8:1x2x12",
    "CLND, 4/4/4, CLNHD:1x4:3x2x8",
  })
  void blockForm_keysAndValuesApart_isThatOfOnePartWhereTheBytesAreEqual(
      String order, String dims, String form) {
    List<KvPart> parts = new ArrayList<>();
    for (String dim : dims.split("/", -1)) {
      List<Long> extents = List.of(4L, 4L, 2L, Long.parseLong(dim));
      parts.add(KvPart.of("kv", TensorShape.contiguous("BNHD", extents, BF16)));
    }
    assertEquals(form, new KvLayout(1, 4, 4, BlockOrder.parse(order), parts).blockForm());
  }

  @Test
  void blockForm_gapBetweenKeysAndValues_isNotThatOfOnePart() {
    KvPart part = KvPart.of("kv", TensorShape.contiguous("BNHD", List.of(4L, 1L, 1L, 4L), BF16));
    KvLayout layout = new KvLayout(1, 4, 1, BlockOrder.parse("CLND"), List.of(part, part));
    assertEquals(16 + 8, layout.blockBytes());
    assertEquals("CLNHD:1x1:1x1x8:1x1x8", layout.blockForm());
  }

  private static void assertRefused(String message, Runnable call) {
    assertEquals(message, assertThrows(IllegalArgumentException.class, call::run).getMessage());
  }
}
