package io.kvtier.tiers.directory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;

final class HolderTableTest {
  /** Whether an entry is dead: none is. */
  private static boolean isDead(long entry) {
    return entry == 0;
  }

  private static Set<Integer> holders(HolderTable table, long hash) {
    int[] holders = new int[HolderTable.HOLDERS_MAX];
    Set<Integer> all = new HashSet<>();
    int count = table.find(hash, holders);
    for (int i = 0; i < count; i++) {
      assertTrue(all.add(holders[i]), "a holder is there twice");
    }
    return all;
  }

  /** A table with space is a map of sets. */
  @Property(tries = 200)
  void table_anyOrderOfChanges_isAMapOfSets(@ForAll long seed) {
    Random random = new Random(seed);
    try (HolderTable table = new HolderTable(64 * 64)) {
      long[] hashes = random.longs(60).toArray();
      Map<Long, Set<Integer>> expected = new HashMap<>();
      for (int i = 0; i < 2000; i++) {
        long hash = hashes[random.nextInt(hashes.length)];
        int holder = 1 + random.nextInt(7);
        Set<Integer> holders = expected.computeIfAbsent(hash, _ -> new HashSet<>());
        if (random.nextBoolean()) {
          boolean isNoted = holders.contains(holder) || holders.size() < HolderTable.HOLDERS_MAX;
          assertEquals(isNoted, table.put(hash, holder, HolderTableTest::isDead));
          if (isNoted) {
            holders.add(holder);
          }
        } else {
          assertEquals(holders.remove(holder), table.remove(hash, holder));
        }
      }
      long size = 0;
      for (Map.Entry<Long, Set<Integer>> each : expected.entrySet()) {
        assertEquals(each.getValue(), holders(table, each.getKey()));
        size += each.getValue().size();
      }
      assertEquals(size, table.size());
      assertEquals(0, table.displaced());
    }
  }

  @Test
  void table_fullToNineTenths_losesNothing() {
    try (HolderTable table = new HolderTable(1 << 20)) {
      Random random = new Random(1);
      int count = (int) (0.9 * table.bytes() / Long.BYTES);
      long[] hashes = random.longs(count).toArray();
      for (long hash : hashes) {
        assertTrue(table.put(hash, 9, HolderTableTest::isDead));
      }
      assertEquals(0, table.displaced());
      for (long hash : hashes) {
        assertEquals(Set.of(9), holders(table, hash));
      }
    }
  }

  @Test
  void table_overfull_staysOfItsSize_andCountsWhatItLost() {
    try (HolderTable table = new HolderTable(1 << 12)) {
      Random random = new Random(2);
      for (int i = 0; i < 5000; i++) {
        assertTrue(table.put(random.nextLong(), 3, HolderTableTest::isDead));
      }
      assertEquals(1 << 12, table.bytes());
      assertTrue(table.size() <= 512);
      assertEquals(5000, table.size() + table.displaced());
    }
  }

  @Test
  void put_toAFullTable_isFound_andOneOtherEntryIsLost() {
    try (HolderTable table = new HolderTable(1 << 12)) {
      Random random = new Random(2);
      List<Long> known = new ArrayList<>();
      while (table.displaced() == 0) {
        long hash = random.nextLong();
        assertTrue(table.put(hash, 3, HolderTableTest::isDead));
        known.add(hash);
      }
      known.removeIf(hash -> holders(table, hash).isEmpty());
      for (int i = 0; i < 1000; i++) {
        long hash = random.nextLong();
        long lost = table.displaced();
        assertTrue(table.put(hash, 3, HolderTableTest::isDead));
        known.add(hash);
        assertEquals(Set.of(3), holders(table, hash));
        known.removeIf(one -> holders(table, one).isEmpty());
        assertEquals(table.size(), known.size());
        assertTrue(table.displaced() <= lost + 1);
      }
    }
  }

  @Test
  void sweep_removesWhatIsToGo_aFewBucketsATime() {
    try (HolderTable table = new HolderTable(1 << 14)) {
      Random random = new Random(3);
      for (int i = 0; i < 1000; i++) {
        assertTrue(table.put(random.nextLong(), 1 + i % 2, HolderTableTest::isDead));
      }
      int calls = 1;
      while (!table.sweep(10, entry -> HolderTable.holderOf(entry) == 2)) {
        calls++;
      }
      assertEquals(Math.ceilDiv(table.buckets(), 10), calls);
      assertEquals(500, table.size());
    }
  }

  @Test
  void put_ofABlockWithTheMostHolders_takesThePlaceOfADeadOne() {
    try (HolderTable table = new HolderTable(1024)) {
      long hash = 7L << 20;
      for (int holder = 1; holder <= HolderTable.HOLDERS_MAX; holder++) {
        assertTrue(table.put(hash, holder, HolderTableTest::isDead));
      }
      assertFalse(table.put(hash, 9, HolderTableTest::isDead));
      assertTrue(table.put(hash, 9, entry -> HolderTable.holderOf(entry) == 3));
      assertEquals(Set.of(1, 2, 4, 9), holders(table, hash));
      assertEquals(HolderTable.HOLDERS_MAX, table.size());
    }
  }

  @Test
  void put_numberOfNoHolder_isRefused() {
    try (HolderTable table = new HolderTable(1024)) {
      assertThrows(IllegalArgumentException.class, () -> table.put(1, 0, HolderTableTest::isDead));
      assertThrows(
          IllegalArgumentException.class, () -> table.put(1, 65_536, HolderTableTest::isDead));
      assertTrue(table.put(1L << 20, 65_535, HolderTableTest::isDead));
      assertFalse(table.remove(1L << 20, 1));
    }
  }
}
