package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.slots.SlotAllocator;
import java.io.IOException;
import org.junit.jupiter.api.Test;

class TierLineTest {
  private static final int BLOCKS = 1 << 16;

  private long heapLeft = Long.MAX_VALUE;

  /** A tier of three parts, of which the second has no region. */
  private TierLine line(Directory directory) {
    SlotAllocator slots = new SlotAllocator(new int[] {0, 2, 2}, 3, 1 << 20, 4096, 1);
    return new TierLine(
        TierLine.HOST,
        new TierLine.Common(directory, block -> 4096, null, part -> BLOCKS / 4, wanted -> heapLeft),
        slots,
        "lru",
        TierLine.Rows.NONE);
  }

  @Test
  void swapPolicy_noHeapForIt_isRefusedInWordsAndNothingChanges() throws IOException {
    try (Directory directory = new Directory(BLOCKS, 1)) {
      TierLine line = line(directory);
      line.swapPolicy("forecast");
      heapLeft = line.policyBytes() - 1;
      line.swapPolicy("fifo");
      IllegalArgumentException refused =
          assertThrows(IllegalArgumentException.class, () -> line.swapPolicy("forecast"));
      assertTrue(String.valueOf(refused.getMessage()).contains("-Xmx"), refused::toString);
      assertEquals("fifo", line.policyName());
    }
  }

  @Test
  void policyBytes_partWithoutRegions_takesNextToNothing() throws IOException {
    try (Directory directory = new Directory(BLOCKS, 1)) {
      TierLine line = line(directory);
      assertTrue(line.policyBytes() < 2.1 * 8 * BLOCKS, line.policyBytes() + " bytes");
    }
  }
}
