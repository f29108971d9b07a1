package io.kvtier.layout;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;

/** The bytes that a copy of one head of one layer has are cells of this head and layer. */
final class BlockCellsProperties {
  @Property(tries = 500)
  void find_anyLayout_agreesWithTheRunsOfEachLayerAndHead(@ForAll long seed) {
    KvLayout layout = Layouts.any(new Random(seed));
    BlockCells cells = new BlockCells(layout);
    Shard shard = layout.shard();
    int found = 0;
    for (int layer = 0; layer < layout.layers(); layer++) {
      for (int head = 0; head < layout.heads(); head++) {
        Runs entries = new Runs();
        IndexRange oneLayer = new IndexRange(layer, layer + 1);
        IndexRange oneHead = new IndexRange(head, head + 1);
        layout.addRuns(0, oneLayer, oneHead, new long[layout.tensorCount()], 0, entries);
        Runs runs = Layouts.expanded(entries);
        for (int run = 0; run < runs.count(); run++) {
          for (int at = 0; at < runs.bytes(run); at++) {
            assertTrue(cells.find(runs.hostAddress(run) + at));
            assertEquals(shard.layers().from() + layer, cells.layer());
            if (cells.head() != BlockCells.ALL_HEADS) {
              assertEquals(shard.heads().from() + head, cells.head());
              found++;
            }
          }
        }
      }
    }
    assertEquals(bytesOfHeads(layout), found);
    assertThrows(IllegalArgumentException.class, () -> cells.find(layout.blockBytes()));
  }

  /** The bytes that the tensors have of a block in parts with several heads. */
  private static long bytesOfHeads(KvLayout layout) {
    long bytes = 0;
    for (KvPart part : layout.parts()) {
      if (part.blockHeads() > 1) {
        bytes +=
            KvLayout.partBytes(part, layout.layers(), layout.blockTokens())
                / part.blockHeads()
                * part.shape().extent(KvAxis.HEAD);
      }
    }
    return bytes;
  }
}
