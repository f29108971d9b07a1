package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

final class GhostsTest {
  @Test
  void randomOperations_agreeWithLinkedSets() {
    for (int seed = 0; seed < 20; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      int capacity = 1 + random.nextInt(40);
      Ghosts ghosts = new Ghosts(capacity, 2);
      List<LinkedHashSet<Long>> oracle = List.of(new LinkedHashSet<>(), new LinkedHashSet<>());
      for (int step = 0; step < 5000; step++) {
        // Few keys with few low bits: chains of collisions, and gaps closed across the table's end.
        long key = random.nextLong(64) << 3;
        int queue = random.nextInt(2);
        switch (random.nextInt(8)) {
          case 0 -> {
            ghosts.remove(key);
            oracle.forEach(q -> q.remove(key));
          }
          case 1 -> {
            int sizeMax = random.nextInt(capacity + 1);
            ghosts.trim(queue, sizeMax);
            while (oracle.get(queue).size() > sizeMax) {
              oracle.get(queue).removeFirst();
            }
          }
          default -> {
            ghosts.add(queue, key);
            oracle.forEach(q -> q.remove(key));
            if (oracle.get(0).size() + oracle.get(1).size() == capacity) {
              oracle.get(oracle.get(queue).isEmpty() ? 1 - queue : queue).removeFirst();
            }
            oracle.get(queue).add(key);
          }
        }
        ghosts.checkInvariants();
        for (int q = 0; q < 2; q++) {
          assertEquals(oracle.get(q).size(), ghosts.size(q));
        }
        for (long probe = 0; probe < 64; probe++) {
          long sought = probe << 3;
          int expected =
              oracle.get(0).contains(sought) ? 0 : oracle.get(1).contains(sought) ? 1 : -1;
          assertEquals(expected, ghosts.queueOf(sought));
        }
      }
    }
  }

  @Test
  void add_noCapacity_remembersNothing() {
    Ghosts ghosts = new Ghosts(0, 1);
    ghosts.add(0, 1);
    assertEquals(0, ghosts.size());
    assertEquals(Ghosts.NONE, ghosts.queueOf(1));
  }
}
