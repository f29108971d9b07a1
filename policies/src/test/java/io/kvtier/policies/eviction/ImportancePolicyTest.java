package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class ImportancePolicyTest {
  private static final int BLOCKS = 64;
  private static final int LOW = 0;
  private static final int HIGH = 2;

  static List<String> specifications() {
    List<String> all = new ArrayList<>();
    EvictionPolicies.names().forEach(all::add);
    all.add("lineage/sieve");
    all.add("auto:shadow=16:margin=0:certainty=0");
    return all;
  }

  private static EvictionPolicy create(String specification) {
    return new ImportancePolicy(EvictionPolicies.create(specification, BLOCKS, BLOCKS), BLOCKS);
  }

  private static void insert(EvictionPolicy policy, int block, int importance) {
    policy.onInsert(block, 4096, (block + 1) * 0x9E3779B97F4A7C15L, 0, EvictionPolicy.NO_PARENT);
    if (importance != EvictionPolicy.NORMAL) {
      policy.onImportance(block, importance);
    }
  }

  private static int evict(EvictionPolicy policy) {
    int victim = policy.victim(_ -> true, BLOCKS);
    policy.onRemove(victim, Removal.EVICTED);
    policy.checkInvariants();
    return victim;
  }

  @ParameterizedTest
  @MethodSource("specifications")
  void victim_blocksOfLowImportance_leaveBeforeAllOthersInTheirOrder(String specification) {
    EvictionPolicy policy = create(specification);
    for (int block = 0; block < BLOCKS; block++) {
      insert(policy, block, block % 4 == 3 ? LOW : EvictionPolicy.NORMAL);
      policy.onHit(block);
    }
    for (int block = 3; block < BLOCKS; block += 4) {
      assertEquals(block, evict(policy));
    }
    assertNotEquals(3, evict(policy) % 4);
  }

  @ParameterizedTest
  @MethodSource("specifications")
  void victim_importantBlocks_outliveOthers(String specification) {
    if (specification.equals("fifo")) {
      return; // It knows no uses, and so no further chances.
    }
    EvictionPolicy policy = create(specification);
    for (int block = 0; block < BLOCKS; block++) {
      insert(policy, block, block % 2 == 0 ? HIGH : EvictionPolicy.NORMAL);
    }
    int important = 0;
    for (int i = 0; i < BLOCKS / 2; i++) {
      important += evict(policy) % 2 == 0 ? 1 : 0;
    }
    assertTrue(important <= BLOCKS / 16, important + " important blocks were evicted");
  }

  @Test
  void victim_importanceThree_isPassedThreeTimes() {
    EvictionPolicy policy = create("lru");
    insert(policy, 0, EvictionPolicy.HIGHEST);
    insert(policy, 1, HIGH);
    for (int block = 2; block < 5; block++) {
      insert(policy, block, EvictionPolicy.NORMAL);
    }
    List<Integer> left = new ArrayList<>();
    for (int i = 0; i < 5; i++) {
      left.add(evict(policy));
    }
    assertEquals(List.of(2, 3, 4, 1, 0), left);
  }

  @Test
  void onHit_givesAllChancesBack() {
    EvictionPolicy policy = create("lru");
    insert(policy, 0, HIGH);
    insert(policy, 1, EvictionPolicy.NORMAL);
    insert(policy, 2, EvictionPolicy.NORMAL);
    assertEquals(1, evict(policy));
    policy.onHit(0);
    insert(policy, 3, EvictionPolicy.NORMAL);
    assertEquals(2, evict(policy));
    assertEquals(3, evict(policy), "block 0 is passed again");
    assertEquals(0, evict(policy));
  }

  @ParameterizedTest
  @MethodSource("specifications")
  void victim_onlyImportantBlocks_oneLeavesAllTheSame(String specification) {
    EvictionPolicy policy = create(specification);
    for (int block = 0; block < BLOCKS; block++) {
      insert(policy, block, EvictionPolicy.HIGHEST);
    }
    for (int left = BLOCKS; left > 0; left--) {
      assertNotEquals(EvictionPolicy.NONE, evict(policy));
    }
    assertEquals(0, policy.size());
  }

  @Test
  void victim_refusedBlocks_keepTheirChances() {
    EvictionPolicy policy = create("lru");
    insert(policy, 0, HIGH);
    insert(policy, 1, LOW);
    insert(policy, 2, EvictionPolicy.NORMAL);
    insert(policy, 3, EvictionPolicy.NORMAL);
    for (int i = 0; i < 5; i++) {
      assertEquals(2, policy.victim(block -> block == 2, BLOCKS));
      assertEquals(EvictionPolicy.NONE, policy.victim(block -> false, BLOCKS));
    }
    policy.onRemove(1, Removal.DELETED);
    assertEquals(2, evict(policy));
  }

  @Test
  void onImportance_changes_countsFromThenOn() {
    EvictionPolicy policy = create("lru");
    for (int block = 0; block < 4; block++) {
      insert(policy, block, LOW);
    }
    policy.onImportance(0, EvictionPolicy.NORMAL);
    policy.onImportance(1, HIGH);
    assertEquals(2, evict(policy));
    assertEquals(3, evict(policy));
    assertEquals(0, evict(policy));
    // The number of a block that has left may be another's: nothing of it is remembered.
    insert(policy, 2, EvictionPolicy.NORMAL);
    insert(policy, 3, EvictionPolicy.NORMAL);
    assertEquals(2, evict(policy));
  }

  @ParameterizedTest
  @MethodSource("specifications")
  void nobodySaysHowImportantBlocksAre_nothingChanges(String specification) {
    EvictionPolicy plain = EvictionPolicies.create(specification, BLOCKS, BLOCKS);
    EvictionPolicy wrapped = create(specification);
    assertEquals(plain.metadataBytes(), wrapped.metadataBytes());
    SplittableRandom random = new SplittableRandom(3);
    Set<Integer> tracked = new HashSet<>();
    for (int step = 0; step < 5_000; step++) {
      int block = random.nextInt(BLOCKS);
      if (tracked.contains(block)) {
        plain.onHit(block);
        wrapped.onHit(block);
      } else if (tracked.size() < BLOCKS / 2) {
        insert(plain, block, EvictionPolicy.NORMAL);
        insert(wrapped, block, EvictionPolicy.NORMAL);
        tracked.add(block);
      } else {
        int victim = plain.victim(_ -> true, BLOCKS);
        assertEquals(victim, wrapped.victim(_ -> true, BLOCKS));
        plain.onRemove(victim, Removal.EVICTED);
        wrapped.onRemove(victim, Removal.EVICTED);
        tracked.remove(victim);
      }
    }
  }

  @ParameterizedTest
  @MethodSource("specifications")
  void randomCalls_keepTheStructure(String specification) {
    EvictionPolicy policy = create(specification);
    SplittableRandom random = new SplittableRandom(11);
    Set<Integer> tracked = new HashSet<>();
    for (int step = 0; step < 5_000; step++) {
      int block = random.nextInt(BLOCKS);
      if (!tracked.contains(block)) {
        insert(policy, block, random.nextInt(4));
        tracked.add(block);
      } else {
        switch (random.nextInt(5)) {
          case 0 -> policy.onHit(block);
          case 1 -> policy.onPassed(block);
          case 2 -> policy.onImportance(block, random.nextInt(4));
          case 3 -> {
            policy.onRemove(block, Removal.DELETED);
            tracked.remove(block);
          }
          default -> {
            int odd = random.nextInt(3);
            int victim = policy.victim(one -> one % 3 != odd, 1 + random.nextInt(BLOCKS));
            assertTrue(
                victim == EvictionPolicy.NONE || (tracked.contains(victim) && victim % 3 != odd));
          }
        }
      }
      policy.checkInvariants();
      assertEquals(tracked.size(), policy.size());
    }
    Set<Integer> shown = new HashSet<>();
    policy.forEach(block -> assertTrue(shown.add(block), "block " + block + " came twice"));
    assertEquals(tracked, shown);
  }
}
