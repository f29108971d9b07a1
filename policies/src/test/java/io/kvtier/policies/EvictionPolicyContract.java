package io.kvtier.policies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.BitSet;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** What every eviction policy must do, whatever its order. */
abstract class EvictionPolicyContract {
  static final int BLOCKS = 64;

  abstract EvictionPolicy create(int blocksMax);

  private static void insert(EvictionPolicy policy, int block) {
    policy.onInsert(block, 4096, block * 0x9E3779B97F4A7C15L, 0, EvictionPolicy.NONE);
  }

  @Test
  void victim_empty_none() {
    assertEquals(EvictionPolicy.NONE, create(BLOCKS).victim(b -> true, Integer.MAX_VALUE));
  }

  @Test
  void victim_allRefused_none() {
    EvictionPolicy policy = create(BLOCKS);
    for (int i = 0; i < 10; i++) {
      insert(policy, i);
    }
    assertEquals(EvictionPolicy.NONE, policy.victim(b -> false, Integer.MAX_VALUE));
    assertEquals(10, policy.size());
  }

  @Test
  void victim_onlyOneAccepted_isThatOne() {
    EvictionPolicy policy = create(BLOCKS);
    for (int i = 0; i < 10; i++) {
      insert(policy, i);
    }
    assertEquals(7, policy.victim(b -> b == 7, Integer.MAX_VALUE));
  }

  @Test
  void victim_stays_untilRemoved() {
    EvictionPolicy policy = create(BLOCKS);
    insert(policy, 3);
    assertEquals(3, policy.victim(b -> true, 1));
    assertEquals(1, policy.size());
    policy.onRemove(3);
    assertEquals(0, policy.size());
  }

  @Test
  void misuse_isRefused() {
    EvictionPolicy policy = create(BLOCKS);
    assertThrows(IllegalStateException.class, () -> policy.onHit(1));
    assertThrows(IllegalStateException.class, () -> policy.onRemove(1));
    insert(policy, 1);
    assertThrows(IllegalStateException.class, () -> insert(policy, 1));
  }

  @Test
  void randomOperations_victimsAreResident_invariantsHold_memoryIsFixed() {
    for (int seed = 0; seed < 50; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      EvictionPolicy policy = create(BLOCKS);
      long metadata = policy.metadataBytes();
      BitSet resident = new BitSet();
      for (int step = 0; step < 2000; step++) {
        int block = random.nextInt(BLOCKS);
        switch (random.nextInt(4)) {
          case 0 -> {
            if (!resident.get(block)) {
              insert(policy, block);
              resident.set(block);
            }
          }
          case 1 -> {
            if (resident.get(block)) {
              policy.onHit(block);
            }
          }
          case 2 -> {
            if (resident.get(block)) {
              policy.onRemove(block);
              resident.clear(block);
            }
          }
          default -> {
            int pinned = random.nextInt(BLOCKS);
            int victim = policy.victim(b -> b != pinned, Integer.MAX_VALUE);
            boolean some = resident.cardinality() > (resident.get(pinned) ? 1 : 0);
            assertEquals(some, victim != EvictionPolicy.NONE);
            assertTrue(victim == EvictionPolicy.NONE || (resident.get(victim) && victim != pinned));
          }
        }
        policy.checkInvariants();
        assertEquals(resident.cardinality(), policy.size());
        assertEquals(metadata, policy.metadataBytes());
      }
    }
  }
}
