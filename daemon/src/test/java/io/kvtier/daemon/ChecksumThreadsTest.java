package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import io.kvtier.daemon.config.KvtierdConfig.CopyConfig;
import io.kvtier.tiers.numa.NumaCalls;
import io.kvtier.tiers.numa.NumaFiles;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.numa.NumaNode;
import io.kvtier.tiers.numa.NumaPlan;
import io.kvtier.tiers.numa.NumaTopology;
import io.kvtier.tiers.transfer.LanePipelines;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.ThreadedPipeline;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** How many threads make checksums near each NUMA node. */
final class ChecksumThreadsTest {
  private static final NumaHomes TWO_HOMES =
      new NumaHomes(
          NumaPlan.of(new NumaTopology(List.of(node(0), node(1)), List.of(), Map.of()), 4, 1 << 20),
          new NumaFiles(),
          NumaCalls.LINUX);

  private static NumaNode node(int number) {
    return new NumaNode(number, new BitSet(), true, 1 << 30, true);
  }

  private static Pipeline start(int threads, NumaHomes homes) {
    return ChecksumThreads.start(
        new CopyConfig(threads, 8, 0),
        homes,
        () -> {},
        broken -> {
          throw new AssertionError(broken);
        });
  }

  @Test
  void share_byWeights_andOneToEach() {
    assertArrayEquals(new int[] {4, 4}, ChecksumThreads.share(8, new int[] {16, 16}));
    assertArrayEquals(new int[] {2, 6}, ChecksumThreads.share(8, new int[] {4, 12}));
    assertArrayEquals(new int[] {1, 7}, ChecksumThreads.share(8, new int[] {0, 12}));
    assertArrayEquals(new int[] {1, 1}, ChecksumThreads.share(2, new int[] {0, 12}));
  }

  @Test
  void start_severalHomes_haveThreadsOfTheirOwn() {
    try (Pipeline pipeline = start(2, TWO_HOMES)) {
      assertInstanceOf(LanePipelines.class, pipeline);
    }
  }

  @Test
  void start_oneNode_orFewerThreadsThanHomes_isOnePipelineForAll() {
    try (Pipeline oneNode = start(2, NumaHomes.none());
        Pipeline oneThread = start(1, TWO_HOMES)) {
      assertEquals(ThreadedPipeline.class, oneNode.getClass());
      assertEquals(ThreadedPipeline.class, oneThread.getClass());
    }
  }
}
