package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import io.kvtier.policies.PolicyListener;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

final class ListenedPolicyTest {
  private final List<String> heard = new ArrayList<>();
  private final PolicyListener listener =
      new PolicyListener() {
        @Override
        public void onPut(int block) {
          heard.add("put " + block);
        }

        @Override
        public void onEvict(int block) {
          heard.add("evict " + block);
        }

        @Override
        public void onHot(int block) {
          heard.add("hot " + block);
        }
      };

  private static void insert(EvictionPolicy policy, int block) {
    policy.onInsert(block, 1, block, 0, EvictionPolicy.NO_PARENT);
  }

  @Test
  void onHot_isToldOnceForAThreshold_andAgainInTheNextStay() {
    ListenedPolicy policy = new ListenedPolicy(new LruPolicy(8), 8, 3, listener);
    for (int stay = 0; stay < 2; stay++) {
      insert(policy, 4);
      for (int i = 0; i < 300; i++) {
        policy.onHit(4);
      }
      assertEquals(255, policy.uses(4));
      policy.onRemove(4, Removal.EVICTED);
    }
    assertEquals(List.of("put 4", "hot 4", "evict 4", "put 4", "hot 4", "evict 4"), heard);
  }

  @Test
  void onEvict_deleted_isNotTold() {
    ListenedPolicy policy = new ListenedPolicy(new LruPolicy(8), 8, 255, listener);
    insert(policy, 1);
    policy.onRemove(1, Removal.DELETED);
    assertEquals(List.of("put 1"), heard);
  }

  @Test
  void twiceTheCapacity_evictsEachOldBlockOnce() {
    ListenedPolicy policy = new ListenedPolicy(new FifoPolicy(8), 8, 1, listener);
    for (int i = 0; i < 8; i++) {
      insert(policy, i);
    }
    heard.clear();
    for (int i = 0; i < 8; i++) {
      int victim = policy.victim(b -> true, 1);
      policy.onRemove(victim, Removal.EVICTED);
      insert(policy, victim);
    }
    List<String> expected = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      expected.add("evict " + i);
      expected.add("put " + i);
    }
    assertEquals(expected, heard);
  }

  @Test
  void hotUses_outOfRange_isRefused() {
    for (int uses : new int[] {0, 256}) {
      assertThrows(
          IllegalArgumentException.class,
          () -> new ListenedPolicy(new LruPolicy(8), 8, uses, listener));
    }
  }
}
