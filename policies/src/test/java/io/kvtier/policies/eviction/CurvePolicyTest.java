package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import io.kvtier.policies.BitMixer;
import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import io.kvtier.policies.WhatIf;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;

final class CurvePolicyTest {
  private static final int BLOCKS = 16_384;

  /** A tier that is asked for keys, and takes those that it does not have. */
  private static final class Tier {
    private final EvictionPolicy policy;
    private final int capacity;
    private final Map<Long, Integer> blocks = new HashMap<>();
    private final List<Long> keys = new ArrayList<>();
    private long hits;

    Tier(EvictionPolicy policy, int capacity) {
      this.policy = policy;
      this.capacity = capacity;
    }

    void ask(long key) {
      Integer block = blocks.get(key);
      if (block != null) {
        hits++;
        policy.onHit(block);
        return;
      }
      int place = keys.size();
      if (place == capacity) {
        place = policy.victim(b -> true, 1);
        policy.onRemove(place, Removal.EVICTED);
        blocks.remove(keys.get(place));
        keys.set(place, key);
      } else {
        keys.add(key);
      }
      blocks.put(key, place);
      policy.onInsert(place, 1, BitMixer.mix(key + 1), 0, EvictionPolicy.NO_PARENT);
    }
  }

  private static Tier watched(String policy, int capacity) {
    EvictionPolicy inner = EvictionPolicies.create(policy, capacity, capacity);
    return new Tier(new CurvePolicy(inner, capacity, capacity), capacity);
  }

  /** A few keys are asked for often, and many seldom. */
  private static LongSupplier skewed(long keys) {
    SplittableRandom random = new SplittableRandom(1);
    return () -> (long) (keys * Math.pow(random.nextDouble(), 3));
  }

  private static double ratio(WhatIf one) {
    return (double) one.blockHits() / one.references();
  }

  @Test
  void curve_isWhatTiersOfTheseSizesHit() {
    Tier tier = watched("lineage/lru", BLOCKS);
    List<Tier> truth = new ArrayList<>();
    for (double factor : new double[] {0.5, 1, 2, 10}) {
      int capacity = (int) (factor * BLOCKS);
      truth.add(new Tier(EvictionPolicies.create("lru", capacity, capacity), capacity));
    }
    LongSupplier keys = skewed(40L * BLOCKS);
    int asked = 40 * BLOCKS;
    for (int i = 0; i < asked; i++) {
      long key = keys.getAsLong();
      tier.ask(key);
      truth.forEach(one -> one.ask(key));
    }
    List<WhatIf> curve = tier.policy.whatIf();
    assertEquals(List.of(0.5, 1.0, 2.0, 10.0), curve.stream().map(WhatIf::factor).toList());
    for (int i = 0; i < curve.size(); i++) {
      assertEquals(asked, curve.get(i).offered());
      assertEquals((double) truth.get(i).hits / asked, ratio(curve.get(i)), 0.02, "size " + i);
    }
    tier.policy.checkInvariants();
  }

  @Test
  void wrappedPolicy_evictsAsBefore() {
    for (String policy : List.of("lineage/lru", "s3fifo", "arc")) {
      Tier plain = new Tier(EvictionPolicies.create(policy, 500, 500), 500);
      Tier watched = watched(policy, 500);
      LongSupplier keys = skewed(4000);
      for (int i = 0; i < 50_000; i++) {
        long key = keys.getAsLong();
        plain.ask(key);
        watched.ask(key);
      }
      assertEquals(plain.keys, watched.keys, policy);
      watched.policy.checkInvariants();
    }
  }

  @Test
  void blocksThatWereHandedOver_countForNothing() {
    Tier tier = watched("lru", 64);
    for (int key = 0; key < 64; key++) {
      tier.ask(key);
      tier.ask(key);
    }
    tier.policy.onHandedOver();
    for (WhatIf one : tier.policy.whatIf()) {
      assertEquals(0, one.offered() + one.references() + one.blockHits());
    }
    tier.ask(1);
    assertEquals(1, tier.policy.whatIf().getFirst().offered());
  }

  @Test
  void tierOfFewerBlocksThanItCouldHave_isTheOneThatIsSimulated() {
    EvictionPolicy inner = EvictionPolicies.create("lru", BLOCKS, BLOCKS);
    Tier tier = new Tier(new CurvePolicy(inner, BLOCKS, BLOCKS), BLOCKS / 4);
    LongSupplier keys = skewed(10L * BLOCKS);
    for (int i = 0; i < 40 * BLOCKS; i++) {
      tier.ask(keys.getAsLong());
    }
    double real = (double) tier.hits / (40 * BLOCKS);
    assertEquals(real, ratio(tier.policy.whatIf().get(1)), 0.03);
    tier.policy.checkInvariants();
  }

  @Test
  void uses_allocateNothing() {
    Tier tier = watched("lru", 1024);
    for (int key = 0; key < 1024; key++) {
      tier.ask(key);
    }
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    for (int round = 0; round < 20; round++) {
      for (int block = 0; block < 1024; block++) {
        tier.policy.onHit(block);
      }
    }
    long before = threads.getCurrentThreadAllocatedBytes();
    for (int block = 0; block < 1024; block++) {
      tier.policy.onHit(block);
      tier.policy.onRemove(block, Removal.DELETED);
      tier.policy.onInsert(block, 1, BitMixer.mix(block + 99), 0, EvictionPolicy.NO_PARENT);
    }
    long allocated = threads.getCurrentThreadAllocatedBytes() - before;
    assertTrue(allocated < 512, allocated + " bytes");
  }
}
