package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import io.kvtier.policies.WhatIf;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

final class AutoPolicyTest {
  private static final int CAPACITY = 100;
  private static final AutoPolicy.Contest CONTEST = new AutoPolicy.Contest(0.05, 0.98, 0.25, 2);
  private final Map<Long, Integer> blockOf = new HashMap<>();
  private final long[] keyOf = new long[CAPACITY];

  private static AutoPolicy create(String... members) {
    return new AutoPolicy(CAPACITY, CAPACITY, List.of(members), CAPACITY, CONTEST);
  }

  /** A request of one block. */
  private void touch(EvictionPolicy policy, long key) {
    Integer known = blockOf.get(key);
    if (known != null) {
      policy.onHit(known);
      return;
    }
    int block = policy.size();
    if (block == CAPACITY) {
      block = policy.victim(b -> true, 1);
      policy.onRemove(block, Removal.EVICTED);
      blockOf.remove(keyOf[block]);
    }
    blockOf.put(key, block);
    keyOf[block] = key;
    policy.onInsert(block, 1, key * 0x9E3779B97F4A7C15L, 0, EvictionPolicy.NO_PARENT);
  }

  @Test
  void anotherMemberIsBetter_takesOver_withEveryBlock() {
    AutoPolicy policy = create("lru", "lfu:halflife=20");
    // A few keys of lasting use among scans that are soon longer than the tier: nothing for LRU.
    long scanned = 1000;
    for (int round = 0; round < 200; round++) {
      for (int key = 1; key <= 20; key++) {
        touch(policy, key);
      }
      for (int i = 0; i < (round < 5 ? 20 : CAPACITY + 20); i++) {
        touch(policy, scanned++);
      }
      policy.checkInvariants();
      assertEquals(blockOf.size(), policy.size());
    }
    assertEquals("lfu:halflife=20", policy.inCharge());
    assertEquals(1, policy.switches());
    BitSet seen = new BitSet();
    policy.forEach(seen::set);
    assertEquals(CAPACITY, seen.cardinality());
  }

  @Test
  void smallTier_comesToHoldWhatTheLeaderWould() {
    AutoPolicy auto = create("lru", "lfu:halflife=20");
    EvictionPolicy lfu = EvictionPolicies.create("lfu:halflife=20", CAPACITY, CAPACITY);
    AutoPolicyTest alone = new AutoPolicyTest();
    SplittableRandom random = new SplittableRandom(1);
    for (int i = 0; i < 40_000; i++) {
      // Popular keys among ever new ones.
      long key = random.nextInt(3) == 0 ? 10_000 + i : (long) (600 * cube(random.nextDouble()));
      touch(auto, key);
      alone.touch(lfu, key);
    }
    assertEquals("lfu:halflife=20", auto.inCharge());
    Set<Long> missing = new HashSet<>(alone.blockOf.keySet());
    missing.removeAll(blockOf.keySet());
    // The shadow hears of a request when the next one begins.
    assertTrue(missing.size() <= 1, missing.toString());
    auto.checkInvariants();
  }

  private static double cube(double x) {
    return x * x * x;
  }

  @Test
  void oneMember_isThatMember() {
    AutoPolicy auto = create("lru");
    LruPolicy lru = new LruPolicy(CAPACITY);
    List<EvictionPolicy> both = List.of(auto, lru);
    List<List<Integer>> victims = List.of(new ArrayList<>(), new ArrayList<>());
    for (int i = 0; i < 1000; i++) {
      for (int p = 0; p < 2; p++) {
        EvictionPolicy policy = both.get(p);
        int block = policy.size();
        if (block == CAPACITY) {
          block = policy.victim(b -> true, 1);
          policy.onRemove(block, Removal.EVICTED);
          victims.get(p).add(block);
        }
        policy.onInsert(block, 1, 1 + i, 0, EvictionPolicy.NO_PARENT);
        policy.onHit(i % Math.min(i + 1, CAPACITY));
      }
    }
    assertEquals(victims.get(1), victims.get(0));
  }

  @Test
  void whatIf_ofALoop_needsTheWholeLoop() {
    AutoPolicy policy = create("lru");
    for (int i = 0; i < 15_000; i++) {
      touch(policy, 1 + i % 150);
    }
    for (WhatIf whatIf : policy.whatIf()) {
      double ratio = (double) whatIf.prefixHits() / whatIf.references();
      assertEquals(whatIf.factor() < 1.5 ? 0 : 0.99, ratio, 0.011, whatIf.toString());
    }
  }

  @Test
  void whatIf_blocksHandedOver_countForNothing() {
    AutoPolicy policy = create("lru", "lfu:halflife=20");
    for (int key = 1; key <= 60; key++) {
      touch(policy, key);
    }
    policy.onHandedOver();
    for (int i = 0; i < 6_000; i++) {
      touch(policy, 1 + i % 60);
    }
    for (WhatIf whatIf : policy.whatIf()) {
      assertTrue(whatIf.references() > 5_000, whatIf.toString());
      if (whatIf.factor() >= 1) {
        assertEquals(whatIf.references(), whatIf.prefixHits(), whatIf.toString());
        assertEquals(whatIf.references(), whatIf.blockHits(), whatIf.toString());
      }
    }
  }

  @Test
  void whatIf_anotherTookCharge_largerTiersHoldWhatTheyHeld() {
    AutoPolicy policy = create("lru", "lfu:halflife=20");
    SplittableRandom random = new SplittableRandom(1);
    int i = 0;
    while (policy.switches() == 0) {
      // Popular keys among ever new ones.
      long key = random.nextInt(3) == 0 ? 10_000 + i : (long) (600 * cube(random.nextDouble()));
      touch(policy, key);
      i++;
      assertTrue(i < 40_000, "none takes charge");
    }
    long soFar = policy.whatIf().getFirst().offered();
    assertTrue(soFar < 10, soFar + " are counted, of those before");
    for (int more = 0; more < 100; more++) {
      touch(policy, (long) (600 * cube(random.nextDouble())));
    }
    List<WhatIf> answers = policy.whatIf();
    for (WhatIf answer : answers) {
      assertEquals(answers.getFirst().offered(), answer.offered(), answer.toString());
    }
    WhatIf same =
        answers.stream().filter(each -> each.policy().equals(policy.inCharge())).findFirst().get();
    WhatIf tenfold = answers.getLast();
    assertEquals(10, tenfold.factor());
    // One that began empty would have met most of these keys for the first time.
    assertTrue(
        tenfold.blockHits() > same.blockHits() && tenfold.blockHits() >= 65, answers.toString());
    policy.checkInvariants();
  }

  @Test
  void whatIf_ofASample_tellsOfHowManyTouches() {
    // Far more blocks than a shadow has: each sees a part of the sequences.
    int blocks = 1 << 18;
    AutoPolicy policy =
        new AutoPolicy(blocks, blocks, List.of("lru", "lfu:halflife=20"), 1 << 12, CONTEST);
    for (int block = 0; block < 100_000; block++) {
      policy.onInsert(block, 1, (block + 1) * 0x9E3779B97F4A7C15L, 0, EvictionPolicy.NO_PARENT);
    }
    for (WhatIf whatIf : policy.whatIf()) {
      assertTrue(whatIf.offered() > 99_000, whatIf.toString());
      assertTrue(whatIf.references() <= whatIf.offered(), whatIf.toString());
    }
    WhatIf twice =
        policy.whatIf().stream().filter(each -> each.factor() == 2).findFirst().orElseThrow();
    double share = (double) twice.references() / twice.offered();
    assertTrue(share > 0.05 && share < 0.25, twice + ": a shadow of 2^16 blocks stands for 2^19");
  }
}
