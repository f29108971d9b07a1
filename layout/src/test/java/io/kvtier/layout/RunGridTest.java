package io.kvtier.layout;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.RunGrid.Dimension;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Which grids there are, which runs they have, and how few entries a block needs with them. */
final class RunGridTest {
  private static RunGrid grid(int runBytes, Dimension... dimensions) {
    return RunGrid.of(runBytes, List.of(dimensions));
  }

  /** Heads in tokens in planes: 2 planes of 3 tokens with 4 heads of 8 bytes. */
  private static final RunGrid HEADS =
      grid(8, new Dimension(4, 24, 8), new Dimension(3, 100, 64), new Dimension(2, 1000, 192));

  @Test
  void offsets_countTheInnerDimensionFastest() {
    assertEquals(24, HEADS.runs());
    assertEquals(192, HEADS.bytes());
    assertEquals(0, HEADS.deviceOffset(0));
    assertEquals(24, HEADS.deviceOffset(1));
    assertEquals(100, HEADS.deviceOffset(4));
    assertEquals(1000 + 2 * 100 + 3 * 24, HEADS.deviceOffset(23));
    assertEquals(192 + 2 * 64 + 3 * 8, HEADS.hostOffset(23));
    assertEquals(HEADS.deviceOffset(23) + 8, HEADS.deviceExtent());
    assertEquals(HEADS.hostOffset(23) + 8, HEADS.hostExtent());
  }

  @ParameterizedTest
  @CsvSource({
    "8, 32, 96, 24",
    "8, 32, 100, 12",
    "8, 33, 96, 4",
    "9, 36, 108, 1",
  })
  void hostSpan_endsWhereTheRunsHaveGaps(long inner, long middle, long outer, int runs) {
    RunGrid grid =
        grid(
            8,
            new Dimension(4, 50, inner),
            new Dimension(3, 300, middle),
            new Dimension(2, 900, outer));
    assertEquals(runs, grid.runsOfHostSpan());
    Runs list = new Runs();
    list.add(0, 1000, grid);
    assertEquals(24 / runs, list.hostSpans());
    Runs expanded = Layouts.expanded(list);
    assertEquals(expanded.hostSpans(), list.hostSpans());
    assertEquals(24, list.count());
  }

  @Test
  void hostSpan_gridBehindAnotherOnTheHost_goesOn() {
    RunGrid dense = grid(8, new Dimension(4, 16, 8));
    Runs list = new Runs();
    list.add(0, 1000, dense);
    list.add(100, 1032, dense);
    list.add(200, 1064, 8);
    assertEquals(1, list.hostSpans());
    list.add(300, 1064, dense);
    assertEquals(2, list.hostSpans());
    assertEquals(4, list.entries());
    assertEquals(13, list.count());
    list.clear();
    assertEquals(0, list.count());
    list.add(0, 0, 8);
    assertNull(list.grid(0));
  }

  @Test
  void grid_thatCannotBe_isRefusedWithItsNumbers() {
    assertRefused("runs of 0 bytes: expected 1 or more", 0, new Dimension(2, 8, 8));
    assertRefused(
        "stride 7 on the device of runs of 8 bytes: expected at least the length of a run",
        8,
        new Dimension(2, 7, 8));
    assertRefused(
        "stride -8 on the host of runs of 8 bytes: expected at least the length of a run",
        8,
        new Dimension(2, 8, -8));
    assertRefused(
        "a grid of 4294967296 bytes: expected at most 2147483647",
        1 << 16,
        new Dimension(1 << 16, 1 << 16, 1 << 16));
    assertThrows(IllegalArgumentException.class, () -> new Dimension(0, 8, 8));
    IllegalArgumentException tooFar =
        assertThrows(
            IllegalArgumentException.class,
            () -> grid(8, new Dimension(3, 8, 8), new Dimension(3, Long.MAX_VALUE / 2, 24)));
    assertTrue(String.valueOf(tooFar.getMessage()).endsWith("more than 64 bits can count"));
  }

  private static void assertRefused(String reason, int runBytes, Dimension dimension) {
    assertEquals(
        reason,
        assertThrows(IllegalArgumentException.class, () -> grid(runBytes, dimension)).getMessage());
  }

  @Test
  void dimensionOfOneRun_hasNoStrides() {
    assertEquals(new Dimension(1, 0, 0), new Dimension(1, 5, 7));
  }

  /** One rank of an engine with 8 heads of 256 bytes, blocks of 16 tokens, a tensor a layer. */
  @ParameterizedTest
  @CsvSource({
    "CBNHD, LCND, 8, 1, 32, 64",
    "CBNHD, LCND, 4, 2, 32, 1024",
    "CBNHD, LCND, 1, 8, 32, 1024",
    "CBHND, LCND, 8, 1, 32, 8192",
    "CBHND, LCND, 2, 4, 32, 2048",
    "BCHND, HLCND, 2, 4, 64, 128",
    "CBNHD, HLCND, 8, 1, 256, 8192",
  })
  void addRuns_shortRunsOfALayer_areOneEntry(
      String axes, String order, int heads, int ranks, int entries, int runs) {
    KvLayout layout = rank(axes, order, heads, ranks);
    Runs list = new Runs();
    layout.addRuns(1, IndexRange.all(32), IndexRange.all(heads), new long[32], 0, list);
    assertEquals(entries, list.entries());
    assertEquals(runs, list.count());
    assertEquals(runs, Layouts.expanded(list).count());
  }

  private static KvLayout rank(String axes, String order, int heads, int ranks) {
    List<Long> extents = new ArrayList<>();
    for (int i = 0; i < axes.length(); i++) {
      extents.add(
          switch (axes.charAt(i)) {
            case 'C' -> 2L;
            case 'B' -> 4L;
            case 'N' -> 16L;
            case 'H' -> (long) heads;
            default -> 128L;
          });
    }
    KvPart part = new KvPart("kv", TensorShape.contiguous(axes, extents, 2), heads * ranks, 0);
    return new KvLayout(32, 4, 16, BlockOrder.parse(order), List.of(part));
  }

  /** What the layout refuses before is refused here, too: no table leaves a tensor or a slot. */
  @Test
  void add_cellsOutsideOfTheTensorOrTheBlock_isRefused() {
    KvLayout layout = rank("CBHND", "LCND", 2, 4);
    assertOutside(layout, 4, IndexRange.all(32), IndexRange.all(2), "a tensor of 65536 bytes");
    assertOutside(layout, 3, IndexRange.all(32), new IndexRange(1, 3), "a tensor of 65536 bytes");
    assertOutside(layout, 0, IndexRange.all(33), IndexRange.all(2), "a block of 2097152 bytes");
  }

  private static void assertOutside(
      KvLayout layout, int block, IndexRange layers, IndexRange heads, String where) {
    PartRuns part = new PartRuns(layout, layout.parts().getFirst(), layers, heads);
    String reason =
        String.valueOf(
            assertThrows(
                    IllegalStateException.class,
                    () -> part.add(block, new long[40], 0, 0, new Runs()))
                .getMessage());
    assertTrue(reason.endsWith("of part 'kv' are not all in " + where), reason);
  }

  @Test
  void plan_layersOfEqualForm_shareOneGrid() {
    RunPlan plan = RunPlan.of(rank("CBHND", "LCND", 2, 4), new long[32]);
    assertNotNull(plan);
    Runs runs = new Runs();
    plan.addRuns(1, IndexRange.all(32), 0, runs);
    for (int entry = 1; entry < 32; entry++) {
      assertSame(runs.grid(0), runs.grid(entry));
    }
  }

  /** Pairs of plans: whatever the device sides, the bytes of a block go to the same places. */
  @Test
  void addPairs_gridsOfTwoRegions_copyTheBytesThatTheRunsCopy() {
    int strided = 0;
    for (long seed = 0; seed < 3_000; seed++) {
      Random random = new Random(seed);
      KvLayout layout = Layouts.any(random);
      RunPlan target = RunPlan.of(layout, addresses(layout, 1L << 40));
      RunPlan source = RunPlan.of(layout, addresses(layout, 2L << 40));
      if (target == null || source == null) {
        continue;
      }
      assertTrue(target.isCutAs(source));
      IndexRange layers = IndexRange.all(layout.layers());
      int block = random.nextInt(layout.blocks());
      int other = random.nextInt(layout.blocks());
      Runs pairs = new Runs();
      target.addPairs(block, layers, source, other, pairs);
      Runs targets = new Runs();
      Runs sources = new Runs();
      target.addRuns(block, layers, 0, targets);
      source.addRuns(other, layers, 0, sources);
      Runs expected = new Runs();
      expected.addPairs(targets, sources);
      assertEquals(bytes(expected), bytes(pairs), "seed " + seed);
      strided += pairs.entries() < expected.entries() ? 1 : 0;
    }
    assertTrue(strided > 500, "only " + strided + " copies have grids");
  }

  private static long[] addresses(KvLayout layout, long first) {
    long[] addresses = new long[layout.tensorCount()];
    for (int i = 0; i < addresses.length; i++) {
      addresses[i] = first + i * (1L << 30);
    }
    return addresses;
  }

  private static Map<Long, Long> bytes(Runs list) {
    Runs runs = Layouts.expanded(list);
    Map<Long, Long> bytes = new TreeMap<>();
    for (int i = 0; i < runs.entries(); i++) {
      for (int at = 0; at < runs.bytes(i); at++) {
        bytes.put(runs.deviceAddress(i) + at, runs.hostAddress(i) + at);
      }
    }
    return bytes;
  }

  @Test
  void isCutAs_otherGridsOnTheHost_isFalse() {
    RunPlan one = RunPlan.of(rank("CBHND", "LCND", 2, 4), new long[32]);
    RunPlan alike = RunPlan.of(rank("BCHND", "LCND", 2, 4), new long[32]);
    RunPlan other = RunPlan.of(rank("CBNHD", "LCND", 2, 4), new long[32]);
    assertNotNull(one);
    assertNotNull(alike);
    assertNotNull(other);
    assertTrue(one.isCutAs(alike));
    assertTrue(!one.isCutAs(other));
    assertTrue(one.isCutAs(alike), "asked again");
  }
}
