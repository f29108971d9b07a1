package io.kvtier.policies;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.LinkedHashSet;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class LruPolicyTest extends EvictionPolicyContract {
  @Override
  EvictionPolicy create(int blocksMax) {
    return new LruPolicy(blocksMax);
  }

  @Test
  void victim_isAlwaysTheLeastRecentlyUsed() {
    SplittableRandom random = new SplittableRandom(1);
    LruPolicy policy = new LruPolicy(BLOCKS);
    LinkedHashSet<Integer> oracle = new LinkedHashSet<>();
    for (int step = 0; step < 20_000; step++) {
      int block = random.nextInt(BLOCKS);
      if (oracle.remove(block)) {
        policy.onHit(block);
      } else {
        policy.onInsert(block, 1, block, 0, EvictionPolicy.NONE);
      }
      oracle.add(block);
      if (oracle.size() > BLOCKS / 2) {
        int victim = policy.victim(b -> true, 1);
        assertEquals(oracle.getFirst(), victim);
        policy.onRemove(victim);
        oracle.removeFirst();
      }
    }
  }

  @Test
  void victim_pinnedOldest_skipsToNext() {
    LruPolicy policy = new LruPolicy(BLOCKS);
    for (int block : new int[] {5, 2, 9}) {
      policy.onInsert(block, 1, block, 0, EvictionPolicy.NONE);
    }
    assertEquals(2, policy.victim(b -> b != 5, 2));
    assertEquals(EvictionPolicy.NONE, policy.victim(b -> b != 5, 1));
  }
}
