package io.kvtier.layout;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** A plan adds the runs that its layout computes. */
final class RunPlanTest {
  /** Maps the device address of each byte of a copy to its host address. */
  private static Map<Long, Long> bytes(Runs list) {
    Runs runs = Layouts.expanded(list);
    Map<Long, Long> all = new TreeMap<>();
    for (int run = 0; run < runs.count(); run++) {
      for (int i = 0; i < runs.bytes(run); i++) {
        all.put(runs.deviceAddress(run) + i, runs.hostAddress(run) + i);
      }
    }
    return all;
  }

  @Test
  void addRuns_anyLayout_equalsTheRunsOfTheLayout() {
    int ordered = 0;
    for (long seed = 0; seed < 2_000; seed++) {
      Random random = new Random(seed);
      KvLayout layout = Layouts.any(random);
      long[] addresses = new long[layout.tensorCount()];
      for (int i = 0; i < addresses.length; i++) {
        addresses[i] = (1L << 40) + i * (1L << 30);
      }
      RunPlan plan = RunPlan.of(layout, addresses);
      if (layout.blocksOfPage() == KvLayout.PAGES_DIFFER) {
        assertNull(plan, "seed " + seed);
        continue;
      }
      assertNotNull(plan);
      for (int block = 0; block < layout.blocks(); block++) {
        IndexRange layers = Layouts.anySpan(random, layout.layers());
        Runs expected = new Runs();
        layout.addRuns(block, layers, IndexRange.all(layout.heads()), addresses, 4096, expected);
        Runs entries = new Runs();
        plan.addRuns(block, layers, 4096, entries);
        Runs planned = Layouts.expanded(entries);
        assertEquals(bytes(expected), bytes(planned), "seed " + seed);
        if (plan.keepsOrder(layers)) {
          ordered++;
          for (int run = 1; run < planned.count() && layout.parts().size() == 1; run++) {
            assertTrue(
                planned.hostAddress(run) > planned.hostAddress(run - 1), "order, seed " + seed);
          }
        }
      }
    }
    assertTrue(ordered > 1_000);
  }
}
