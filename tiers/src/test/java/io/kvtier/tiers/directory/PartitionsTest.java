package io.kvtier.tiers.directory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;

final class PartitionsTest {
  private static List<Long> nodes(Random random, int count) {
    List<Long> nodes = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      nodes.add(random.nextLong() | 1);
    }
    return nodes;
  }

  private static long[] owners(Partitions partitions) {
    long[] owners = new long[Partitions.COUNT];
    for (int i = 0; i < owners.length; i++) {
      owners[i] = partitions.owner(i);
    }
    return owners;
  }

  private static BitSet differences(long[] before, long[] after) {
    BitSet moved = new BitSet();
    for (int i = 0; i < before.length; i++) {
      moved.set(i, before[i] != after[i]);
    }
    return moved;
  }

  /** Nodes that come and go in any order leave the owners that the present nodes have alone. */
  @Property(tries = 20)
  void owners_anyHistory_areThoseOfThePresentNodes(@ForAll long seed) {
    Random random = new Random(seed);
    List<Long> nodes = nodes(random, 2 + random.nextInt(12));
    Partitions partitions = new Partitions();
    List<Long> present = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      long node = nodes.get(random.nextInt(nodes.size()));
      long[] before = owners(partitions);
      BitSet told = present.remove(node) ? partitions.leave(node) : partitions.join(node);
      if (partitions.nodes() > present.size()) {
        present.add(node);
      }
      assertEquals(differences(before, owners(partitions)), told);
    }
    Partitions fresh = new Partitions();
    Collections.shuffle(present, random);
    present.forEach(fresh::join);
    assertEquals(new BitSet(), differences(owners(partitions), owners(fresh)));
  }

  @Property(tries = 10)
  void change_movesOnlyThePartitionsOfThatNode(@ForAll long seed) {
    Random random = new Random(seed);
    Partitions partitions = new Partitions();
    nodes(random, 1 + random.nextInt(30)).forEach(partitions::join);
    long[] before = owners(partitions);
    long node = random.nextLong() | 1;

    BitSet came = partitions.join(node);
    came.stream().forEach(partition -> assertEquals(node, partitions.owner(partition)));
    assertEquals(came, partitions.leave(node));
    assertEquals(new BitSet(), differences(before, owners(partitions)));
  }

  @Test
  void owners_ofManyNodes_haveEqualShares() {
    Partitions partitions = new Partitions();
    nodes(new Random(1), 1000).forEach(partitions::join);
    Map<Long, Integer> shares = new HashMap<>();
    for (int i = 0; i < Partitions.COUNT; i++) {
      shares.merge(partitions.owner(i), 1, Integer::sum);
    }

    assertEquals(1000, shares.size());
    for (int share : shares.values()) {
      assertTrue(share > 70 && share < 200, share + " partitions");
    }
  }

  @Test
  void owner_withoutNodes_isNobody() {
    Partitions partitions = new Partitions();
    assertEquals(Partitions.NOBODY, partitions.owner(0));
    var _ = partitions.join(5);
    var _ = partitions.join(5);
    assertEquals(1, partitions.nodes());
    assertEquals(Partitions.COUNT, partitions.leave(5).cardinality());
    assertEquals(Partitions.NOBODY, partitions.owner(0));
  }

  @Test
  void partition_isOfTheUpperBits() {
    assertEquals(0, Partitions.of(0));
    assertEquals(Partitions.COUNT - 1, Partitions.of(-1));
  }
}
