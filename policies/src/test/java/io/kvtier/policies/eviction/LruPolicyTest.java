package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.policies.EvictionPolicy;
import org.junit.jupiter.api.Test;

final class LruPolicyTest {
  @Test
  void victim_pinnedOldest_skipsToNext() {
    LruPolicy policy = new LruPolicy(64);
    for (int block : new int[] {5, 2, 9}) {
      policy.onInsert(block, 1, block, 0, EvictionPolicy.NO_PARENT);
    }
    assertEquals(2, policy.victim(b -> b != 5, 2));
    assertEquals(EvictionPolicy.NONE, policy.victim(b -> b != 5, 1));
  }
}
