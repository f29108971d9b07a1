package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

final class AgedGhostsTest {
  @Test
  void randomOperations_differFromAQueueOnlyWhereABucketIsFull() {
    int found = 0;
    int expected = 0;
    for (int seed = 0; seed < 20; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      int capacity = 1 + random.nextInt(200);
      AgedGhosts ghosts = new AgedGhosts(capacity);
      LinkedHashSet<Long> oracle = new LinkedHashSet<>();
      for (int step = 0; step < 20_000; step++) {
        long key = random.nextLong(400);
        boolean isFound = ghosts.remove(key);
        boolean isExpected = oracle.remove(key);
        // Some of the queue's were forgotten early: those behind them stay for a little longer.
        found += isFound ? 1 : 0;
        expected += isExpected ? 1 : 0;
        if (!isFound) {
          int sizeMax = random.nextInt(10) == 0 ? random.nextInt(capacity + 1) : capacity;
          ghosts.add(key, sizeMax);
          oracle.addLast(key);
          while (oracle.size() > sizeMax) {
            oracle.removeFirst();
          }
          assertTrue(ghosts.size() <= sizeMax);
        }
        ghosts.checkInvariants();
      }
    }
    assertEquals(1.0, found / (double) expected, 0.001, found + " of " + expected);
  }

  @Test
  void fewKeys_areAQueue() {
    // With no more keys than a bucket has words none is full.
    for (int seed = 0; seed < 50; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      AgedGhosts ghosts = new AgedGhosts(100);
      LinkedHashSet<Long> oracle = new LinkedHashSet<>();
      for (int step = 0; step < 5000; step++) {
        long key = random.nextLong(16);
        assertEquals(oracle.remove(key), ghosts.remove(key), "seed " + seed + " step " + step);
        if (random.nextInt(3) > 0) {
          int sizeMax = random.nextInt(9);
          ghosts.add(key, sizeMax);
          oracle.addLast(key);
          while (oracle.size() > sizeMax) {
            oracle.removeFirst();
          }
        }
        assertEquals(oracle.size(), ghosts.size());
      }
    }
  }

  @Test
  void add_asManyAsThereIsRoomFor_hardlyOneIsForgottenEarly() {
    int capacity = 100_000;
    AgedGhosts ghosts = new AgedGhosts(capacity);
    SplittableRandom random = new SplittableRandom(1);
    List<Long> keys = new ArrayList<>();
    for (int i = 0; i < 10 * capacity; i++) {
      keys.add(random.nextLong());
      ghosts.add(keys.getLast(), capacity);
    }
    int found = 0;
    for (long key : keys.subList(0, 8 * capacity)) {
      assertFalse(ghosts.remove(key));
    }
    for (long key : keys.subList(9 * capacity, 10 * capacity)) {
      found += ghosts.remove(key) ? 1 : 0;
    }
    assertTrue(found > 0.999 * capacity, found + " of " + capacity);
    assertTrue(ghosts.bytes() <= 32.6 * capacity, ghosts.bytes() + " bytes");
  }

  @Test
  void add_noCapacity_remembersNothing() {
    AgedGhosts ghosts = new AgedGhosts(0);
    ghosts.add(1, 1);
    assertFalse(ghosts.remove(1));
    assertEquals(0, ghosts.size());
  }
}
