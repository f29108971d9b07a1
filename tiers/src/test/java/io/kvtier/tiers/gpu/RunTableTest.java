package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.RunGrid;
import io.kvtier.layout.RunGrid.Dimension;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What stands in a table, and what the kernel makes of it. */
final class RunTableTest {
  private static final int ENTRIES = 16;

  /** Two heads of 4 bytes in three tokens. */
  private static final RunGrid HEADS =
      RunGrid.of(4, List.of(new Dimension(2, 100, 8), new Dimension(3, 1000, 16)));

  private final Arena arena = Arena.ofConfined();
  private final MemorySegment memory = arena.allocate(RunTable.bytes(ENTRIES), 32);
  private final RunTable table = new RunTable(memory, 7000, ENTRIES);

  @AfterEach
  void close() {
    arena.close();
  }

  private record Run(long source, long target, long bytes) {}

  private List<Run> runs(int pieces) {
    List<Run> runs = new ArrayList<>();
    for (int entry = 0; entry < table.count(); entry++) {
      RunTable.visit(
          memory,
          entry,
          pieces,
          (source, target, bytes) -> runs.add(new Run(source, target, bytes)));
    }
    return runs;
  }

  @Test
  void add_runAndPartOfAGrid_areTheirBytes() {
    table.begin(RunTable.Sides.DEVICE_TO_HOST);
    table.add(null, 50, 60, 0, 5, 0);
    table.add(HEADS, 10_000, 20_000, 6, 11, 0);
    assertEquals(7000, table.address());
    assertEquals(
        List.of(
            new Run(50, 60, 5),
            new Run(10_102, 20_010, 2),
            new Run(11_000, 20_016, 4),
            new Run(11_100, 20_024, 4),
            new Run(12_000, 20_032, 1)),
        runs(1));
  }

  @Test
  void add_otherSides_swapsOrPacks() {
    table.begin(RunTable.Sides.HOST_TO_DEVICE);
    table.add(HEADS, 10_000, 20_000, 8, 4, 0);
    assertEquals(List.of(new Run(20_016, 11_000, 4)), runs(1));
    table.begin(RunTable.Sides.DEVICE_TO_STAGING);
    table.add(HEADS, 10_000, 20_000, 4, 8, 0);
    assertEquals(List.of(new Run(10_100, 20_004, 4), new Run(11_000, 20_008, 4)), runs(1));
    table.begin(RunTable.Sides.STAGING_TO_DEVICE);
    table.add(HEADS, 10_000, 20_000, 4, 8, 0);
    assertEquals(List.of(new Run(20_004, 10_100, 4), new Run(20_008, 11_000, 4)), runs(1));
  }

  @Test
  void pieces_ofTheLongestEntry_coverIt() {
    table.begin(RunTable.Sides.DEVICE_TO_HOST);
    assertEquals(0, table.pieces(RunTable.PIECE_BYTES));
    table.add(null, 0, 0, 0, 2 * RunTable.PIECE_BYTES + 1, 0);
    table.add(null, 0, 0, 0, 1, 0);
    assertEquals(3, table.pieces(RunTable.PIECE_BYTES));
    assertEquals(1, table.usefulBlocks(RunTable.PIECE_BYTES));
    assertEquals(
        2L * RunTable.PIECE_BYTES, runs(2).getFirst().bytes(), "what is behind is not copied");
  }

  @Test
  void isFull_asManyEntriesOrFormsAsFit() {
    table.begin(RunTable.Sides.DEVICE_TO_HOST);
    for (int i = 0; i < RunTable.FORMS_MAX; i++) {
      RunGrid grid = RunGrid.of(4 + i, List.of(new Dimension(2, 100, 100)));
      assertFalse(table.isFull(grid));
      table.add(grid, 0, 0, 0, 8, 0);
    }
    assertTrue(table.isFull(HEADS), "no form is left");
    assertFalse(table.isFull(null));
    RunGrid equal = RunGrid.of(5, List.of(new Dimension(2, 100, 100)));
    assertFalse(table.isFull(equal), "a form that is there");
    for (int i = RunTable.FORMS_MAX; i < ENTRIES; i++) {
      table.add(equal, 0, 0, 0, 8, 0);
    }
    assertTrue(table.isFull(null));
    table.begin(RunTable.Sides.DEVICE_TO_HOST);
    assertFalse(table.isFull(HEADS));
  }

  @Test
  void forms_ofRunsAndGrids_areThoseThatTheKernelReads() {
    table.begin(RunTable.Sides.DEVICE_TO_HOST);
    table.add(null, 0, 0, 0, 8, 0);
    assertEquals(0, table.forms());
    RunTable.requireForms(memory, 0, 1);
    table.add(HEADS, 0, 0, 0, 8, 0);
    table.add(HEADS, 0, 0, 8, 8, 0);
    assertEquals(1, table.forms());
    RunTable.requireForms(memory, 1, 3);
    IllegalStateException e =
        assertThrows(
            IllegalStateException.class, () -> RunTable.requireForms(memory, 0, table.count()));
    assertEquals("entry 1 has form 0, and the kernel reads 0 forms", e.getMessage());
    table.begin(RunTable.Sides.DEVICE_TO_HOST);
    assertEquals(0, table.forms());
  }

  @Test
  void add_bytesOutsideOfTheGrid_areRefused() {
    table.begin(RunTable.Sides.DEVICE_TO_HOST);
    assertRefused(-1, 4);
    assertRefused(0, 0);
    assertRefused(0, 25);
    assertRefused(20, 5);
    assertRefused(Integer.MAX_VALUE, 2);
    assertEquals(0, table.count());
  }

  private void assertRefused(int from, int bytes) {
    String reason =
        String.valueOf(
            assertThrows(
                    IllegalArgumentException.class, () -> table.add(HEADS, 0, 0, from, bytes, 0))
                .getMessage());
    assertTrue(reason.startsWith("bytes " + from + " to " + ((long) from + bytes)), reason);
  }

  /** The kernel reads these bytes: its source declares them, too. */
  @Test
  void add_grid_hasTheBytesThatTheKernelReads() {
    table.begin(RunTable.Sides.DEVICE_TO_HOST);
    table.add(HEADS, 10_000, 20_000, 6, 11, 9);
    long[] longs = {100, 1000, 0, 8, 16, 0};
    for (int i = 0; i < longs.length; i++) {
      assertEquals(longs[i], memory.getAtIndex(ValueLayout.JAVA_LONG, i));
    }
    int[] ints = {4, 2, 3, 4 | 100 | 1000 | 8 | 16};
    for (int i = 0; i < ints.length; i++) {
      assertEquals(ints[i], memory.get(ValueLayout.JAVA_INT, 48 + 4L * i));
    }
    assertEquals(10_000, memory.get(ValueLayout.JAVA_LONG, 512));
    assertEquals(20_000, memory.get(ValueLayout.JAVA_LONG, 520));
    int[] entry = {0, 6, 11, 9};
    for (int i = 0; i < entry.length; i++) {
      assertEquals(entry[i], memory.get(ValueLayout.JAVA_INT, 528 + 4L * i));
    }
    table.add(null, 1, 2, 0, 3, 0);
    assertEquals(-1, memory.get(ValueLayout.JAVA_INT, 512 + 32 + 16));
  }
}
