package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

final class AgedGhostsTest {
  @Test
  void randomOperations_neverFindWhatIsNotAmongTheLast() {
    int found = 0;
    int expected = 0;
    for (int seed = 0; seed < 20; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      int capacity = 1 + random.nextInt(200);
      AgedGhosts ghosts = new AgedGhosts(capacity);
      Map<Long, Integer> times = new HashMap<>();
      int now = 0;
      for (int step = 0; step < 20_000; step++) {
        long key = random.nextLong(400);
        int agesMax = random.nextInt(2 * capacity);
        Integer time = times.get(key);
        boolean isAmongTheLast = time != null && now - time < Math.min(capacity, agesMax);
        boolean isFound = ghosts.remove(key, agesMax);
        assertTrue(isAmongTheLast || !isFound, "seed " + seed + " step " + step);
        found += isFound ? 1 : 0;
        expected += isAmongTheLast ? 1 : 0;
        if (isFound) {
          times.remove(key);
          assertFalse(ghosts.remove(key, Integer.MAX_VALUE));
        } else if (time == null || now - time >= capacity) {
          ghosts.add(key);
          times.put(key, ++now);
        }
      }
    }
    assertTrue(found > 0.97 * expected, found + " of " + expected);
  }

  @Test
  void add_asManyAsThereIsRoomFor_ofAHundredOneIsForgottenEarly() {
    int capacity = 100_000;
    AgedGhosts ghosts = new AgedGhosts(capacity);
    SplittableRandom random = new SplittableRandom(1);
    List<Long> keys = new ArrayList<>();
    for (int i = 0; i < 10 * capacity; i++) {
      keys.add(random.nextLong());
      ghosts.add(keys.getLast());
    }
    int found = 0;
    for (long key : keys.subList(0, 9 * capacity)) {
      assertFalse(ghosts.remove(key, Integer.MAX_VALUE));
    }
    for (long key : keys.subList(9 * capacity, 10 * capacity)) {
      found += ghosts.remove(key, Integer.MAX_VALUE) ? 1 : 0;
    }
    assertTrue(found > 0.98 * capacity, found + " of " + capacity);
    assertEquals(16L * capacity, ghosts.bytes());
  }

  @Test
  void add_noCapacity_remembersNothing() {
    AgedGhosts ghosts = new AgedGhosts(0);
    ghosts.add(1);
    assertFalse(ghosts.remove(1, 1));
    assertEquals(0, ghosts.bytes());
  }
}
