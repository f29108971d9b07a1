package io.kvtier.layout;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;

/**
 * The runs of random layouts cover the bytes that the oracle finds, with as few runs as possible.
 */
final class KvLayoutProperties {
  private static final long HOST = 1L << 40;

  @Property(tries = 2000)
  void addRuns_anyLayout_coversTheBytesOfTheOracle(@ForAll long seed) {
    Random random = new Random(seed);
    KvLayout layout = Layouts.any(random);
    int block = random.nextInt(layout.blocks());
    IndexRange layers = Layouts.anySpan(random, layout.layers());
    IndexRange heads = Layouts.anySpan(random, layout.heads());
    long[] tensors = tensorAddresses(layout, random);
    Runs entries = new Runs();
    layout.addRuns(block, layers, heads, tensors, HOST, entries);
    Runs runs = Layouts.expanded(entries);

    Map<Long, Long> expected =
        layers.count() == 0 || heads.count() == 0
            ? Map.of()
            : LayoutOracle.bytes(layout, block, layers, heads, tensors);
    Map<Long, Long> found = new HashMap<>();
    long hostEnd = HOST;
    for (int i = 0; i < runs.count(); i++) {
      assertTrue(runs.hostAddress(i) >= hostEnd, "runs are in the order of their host addresses");
      hostEnd = runs.hostAddress(i) + runs.bytes(i);
      for (int j = 0; j < runs.bytes(i); j++) {
        found.put(runs.hostAddress(i) + j - HOST, runs.deviceAddress(i) + j);
      }
    }
    assertEquals(expected, found);
    assertEquals(expected.size(), runs.totalBytes());
    assertEquals(expected.size(), entries.totalBytes());
    assertEquals(LayoutOracle.fewestRuns(expected), runs.count());
    assertTrue(hostEnd <= HOST + layout.blockBytes());
  }

  private static long[] tensorAddresses(KvLayout layout, Random random) {
    long[] addresses = new long[layout.tensorCount()];
    long next = 1L << 32;
    for (int i = 0; i < addresses.length; i++) {
      // Some tensors are adjacent in memory.
      next += random.nextInt(3);
      addresses[i] = next;
      next += layout.partOfTensor(i).shape().spanBytes();
    }
    return addresses;
  }
}
