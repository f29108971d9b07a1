package io.kvtier.policies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import io.kvtier.policies.EvictionPolicy.Removal;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** What every eviction policy on the class path must do, whatever its order. */
@ParameterizedClass
@MethodSource("specifications")
final class EvictionPolicyContractTest {
  private static final int BLOCKS = 64;

  /** Those in which a block that was passed keeps its place: that is not one by uses. */
  private static final Set<String> STAY =
      Set.of("fifo", "forecast", "s3fifo", "sieve", "lineage/s3fifo", "lineage/sieve");

  private final String specification;
  private final int[] placeOf = new int[BLOCKS];

  EvictionPolicyContractTest(String specification) {
    this.specification = specification;
  }

  static List<String> specifications() {
    List<String> all = new ArrayList<>();
    EvictionPolicies.names().forEach(all::add);
    for (String inner : List.of("s3fifo", "sieve", "arc", "tinylfu", "lfu")) {
      all.add("lineage/" + inner);
    }
    // A small margin and small shadows: it changes its mind often.
    all.add("auto:shadow=16:margin=0:certainty=0");
    all.add("auto:shadow=16:margin=0:certainty=0:wear=none");
    return all;
  }

  private boolean isAuto() {
    return specification.startsWith("auto");
  }

  private EvictionPolicy create(int blocksMax) {
    return EvictionPolicies.create(specification, blocksMax, blocksMax);
  }

  private static long fingerprint(long key) {
    long z = (key + 1) * 0x9E3779B97F4A7C15L;
    z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
    return z ^ z >>> 31;
  }

  private static void insert(EvictionPolicy policy, int block, long key) {
    policy.onInsert(block, 4096, fingerprint(key), 0, EvictionPolicy.NO_PARENT);
  }

  /** Sequences of eight blocks each. */
  private static void insertInSequence(EvictionPolicy policy, int block, long key) {
    int depth = (int) (key & 7);
    long parent = depth == 0 ? EvictionPolicy.NO_PARENT : fingerprint(key - 1);
    policy.onInsert(block, 4096, fingerprint(key), depth, parent);
  }

  @Test
  void victim_empty_none() {
    assertEquals(EvictionPolicy.NONE, create(BLOCKS).victim(b -> true, Integer.MAX_VALUE));
  }

  @Test
  void victim_allRefused_none() {
    EvictionPolicy policy = create(BLOCKS);
    for (int i = 0; i < 10; i++) {
      insert(policy, i, i);
    }
    assertEquals(EvictionPolicy.NONE, policy.victim(b -> false, Integer.MAX_VALUE));
    assertEquals(10, policy.size());
  }

  @Test
  void victim_onlyOneAccepted_isThatOne() {
    EvictionPolicy policy = create(BLOCKS);
    for (int i = 0; i < 10; i++) {
      insert(policy, i, i);
    }
    for (int accepted = 0; accepted < 10; accepted++) {
      int only = accepted;
      policy.onHit(only);
      assertEquals(only, policy.victim(b -> b == only, Integer.MAX_VALUE));
    }
  }

  @Test
  void victim_fewLooks_asksAboutFew() {
    EvictionPolicy policy = create(BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
      insert(policy, i, i);
    }
    int[] asked = new int[1];
    int victim =
        policy.victim(
            b -> {
              asked[0]++;
              return false;
            },
            8);
    assertEquals(EvictionPolicy.NONE, victim);
    assertTrue(asked[0] <= 24, asked[0] + " questions for 8 looks");
  }

  @Test
  void onPassed_everyBlockInItsTurn_changesNoVictim() {
    EvictionPolicy policy = create(BLOCKS);
    EvictionPolicy twin = create(BLOCKS);
    List<Integer> turns = new ArrayList<>();
    for (EvictionPolicy each : List.of(policy, twin)) {
      for (int i = 0; i < BLOCKS; i++) {
        insertInSequence(each, i, i);
        each.onHit(i / 2);
      }
      // Some lose their parents.
      each.onRemove(0, Removal.DELETED);
      each.onRemove(9, Removal.DELETED);
    }
    long metadata = policy.metadataBytes();
    String whatIf = policy.whatIf().toString();
    policy.forEach(turns::add);
    turns.forEach(policy::onPassed);
    policy.checkInvariants();
    assertEquals(metadata, policy.metadataBytes());
    assertEquals(whatIf, policy.whatIf().toString());
    while (twin.size() > 0) {
      int victim = twin.victim(b -> true, 1);
      assertEquals(victim, policy.victim(b -> true, 1));
      twin.onRemove(victim, Removal.EVICTED);
      policy.onRemove(victim, Removal.EVICTED);
    }
    assertEquals(0, policy.size());
  }

  @Test
  void onPassed_theNextVictim_waitsForAnotherTurnWhereTheOrderIsThatOfUses() {
    EvictionPolicy policy = create(BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
      insert(policy, i, i);
    }
    for (int i = 0; i < BLOCKS / 2; i++) {
      policy.onRemove(policy.victim(b -> true, 1), Removal.EVICTED);
    }
    int next = policy.victim(b -> true, 1);
    policy.onPassed(next);
    policy.checkInvariants();
    assertEquals(STAY.contains(specification), next == policy.victim(b -> true, 1));
  }

  /** A sequence longer than the tier, which comes in parts: each names the block before it. */
  @Test
  void sequenceLongerThanTheTier_underLineage_keepsItsHead() {
    EvictionPolicy policy = create(BLOCKS);
    BitSet resident = new BitSet();
    int ids = 0;
    for (int place = 0; place < 4 * BLOCKS; place++) {
      int id = ids;
      if (ids < BLOCKS) {
        ids++;
      } else {
        id = policy.victim(b -> true, 1);
        policy.onRemove(id, Removal.EVICTED);
        resident.clear(placeOf[id]);
      }
      placeOf[id] = place;
      policy.onInsert(id, 4096, fingerprint(place), place, place == 0 ? 0 : fingerprint(place - 1));
      if (place > 0 && !resident.get(place - 1)) {
        policy.onParentMissing(id);
      }
      resident.set(place);
      policy.checkInvariants();
    }
    assertEquals(BLOCKS, resident.cardinality());
    if (specification.startsWith("lineage/") || specification.equals("lineage")) {
      assertTrue(resident.nextClearBit(0) >= BLOCKS - 2, specification + " keeps " + resident);
    }
  }

  @Test
  void victim_stays_untilRemoved() {
    EvictionPolicy policy = create(BLOCKS);
    insert(policy, 3, 3);
    assertEquals(3, policy.victim(b -> true, 1));
    assertEquals(1, policy.size());
    policy.onRemove(3, Removal.EVICTED);
    assertEquals(0, policy.size());
  }

  @Test
  void onInsert_sameKeyAgain_isTrackedOnce() {
    EvictionPolicy policy = create(BLOCKS);
    for (int round = 0; round < 10; round++) {
      insert(policy, 5, 5);
      policy.onHit(5);
      assertEquals(1, policy.size());
      policy.onRemove(5, round % 2 == 0 ? Removal.DELETED : Removal.EVICTED);
      assertEquals(0, policy.size());
      policy.checkInvariants();
    }
    assertEquals(EvictionPolicy.NONE, policy.victim(b -> true, Integer.MAX_VALUE));
  }

  @Test
  void misuse_isRefused() {
    EvictionPolicy policy = create(BLOCKS);
    assertThrows(IllegalStateException.class, () -> policy.onHit(1));
    assertThrows(IllegalStateException.class, () -> policy.onRemove(1, Removal.DELETED));
    insert(policy, 1, 1);
    assertThrows(IllegalStateException.class, () -> insert(policy, 1, 1));
  }

  @Test
  void forEach_showsEveryBlockOnce() {
    SplittableRandom random = new SplittableRandom(3);
    EvictionPolicy policy = create(BLOCKS);
    BitSet resident = new BitSet();
    for (int i = 0; i < BLOCKS; i += 2) {
      insert(policy, i, i);
      resident.set(i);
    }
    for (int i = 0; i < 40; i++) {
      policy.onHit(2 * random.nextInt(BLOCKS / 2));
    }
    int victim = policy.victim(b -> true, Integer.MAX_VALUE);
    policy.onRemove(victim, Removal.EVICTED);
    resident.clear(victim);
    BitSet seen = new BitSet();
    policy.forEach(b -> {
      assertFalse(seen.get(b));
      seen.set(b);
    });
    assertEquals(resident, seen);
  }

  @Test
  void victims_asManyAsAskedFor_allDifferent() {
    EvictionPolicy policy = create(BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
      insertInSequence(policy, i, i);
    }
    for (int i = 0; i < BLOCKS; i++) {
      policy.onHit(i % 7);
    }
    BitSet gone = new BitSet();
    for (int asked = 1; asked <= BLOCKS; asked++) {
      int victim = policy.victim(b -> true, 1);
      assertNotEquals(EvictionPolicy.NONE, victim);
      assertFalse(gone.get(victim));
      gone.set(victim);
      policy.onRemove(victim, Removal.EVICTED);
      assertEquals(BLOCKS - asked, policy.size());
    }
  }

  @Test
  void twiceTheCapacity_evictsAsManyAsTooMany_eachOnce() {
    EvictionPolicy policy = create(BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
      insert(policy, i, i);
    }
    long[] keyOf = new long[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
      keyOf[i] = i;
    }
    BitSet evicted = new BitSet();
    for (int i = BLOCKS; i < 2 * BLOCKS; i++) {
      int block = policy.victim(b -> true, 1);
      assertFalse(evicted.get((int) keyOf[block]));
      evicted.set((int) keyOf[block]);
      policy.onRemove(block, Removal.EVICTED);
      keyOf[block] = i;
      insert(policy, block, i);
    }
    assertEquals(BLOCKS, evicted.cardinality());
    if (!specification.endsWith("tinylfu") && !specification.equals("forecast")) {
      // TinyLFU keeps the old where the new is used no more often; so does a forecast that has seen
      // nothing come back soon.
      assertEquals(BLOCKS, evicted.nextClearBit(0));
    }
  }

  @Test
  void metadataBytes_isWhatThePolicyTakes() {
    int blocks = 1 << 16;
    var _ = create(blocks);
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    long before = threads.getCurrentThreadAllocatedBytes();
    EvictionPolicy policy = create(blocks);
    double taken = threads.getCurrentThreadAllocatedBytes() - before;
    assertEquals(1.0, policy.metadataBytes() / taken, 0.01, specification);
  }

  @Test
  void hundredfoldChurn_memoryIsFixed_invariantsHold() {
    EvictionPolicy policy = create(BLOCKS);
    long metadata = policy.metadataBytes();
    SplittableRandom random = new SplittableRandom(7);
    for (int key = 0; key < 100 * BLOCKS; key++) {
      int block = key % BLOCKS;
      if (key >= BLOCKS) {
        block = policy.victim(b -> true, 1);
        policy.onRemove(block, Removal.EVICTED);
      }
      // One in four comes back: ghosts are found, and found missing.
      insert(policy, block, random.nextInt(4) == 0 ? -1 - key : key);
      if (key % BLOCKS == 0) {
        policy.checkInvariants();
      }
    }
    policy.checkInvariants();
    if (isAuto()) {
      assertTrue(policy.metadataBytes() < 2 * metadata);
    } else {
      assertEquals(metadata, policy.metadataBytes());
      assertTrue(metadata < 4096 + 128L * BLOCKS, metadata + " bytes");
    }
  }

  @Test
  void sameOperations_sameVictims() {
    List<Integer> first = victimsOf(create(BLOCKS), 11);
    assertEquals(first, victimsOf(create(BLOCKS), 11));
    assertTrue(first.size() > 1000);
  }

  private static List<Integer> victimsOf(EvictionPolicy policy, long seed) {
    SplittableRandom random = new SplittableRandom(seed);
    int[] blockOf = new int[4 * BLOCKS];
    int[] keyOf = new int[BLOCKS];
    java.util.Arrays.fill(blockOf, EvictionPolicy.NONE);
    List<Integer> victims = new ArrayList<>();
    for (int step = 0; step < 20_000; step++) {
      int key = Math.min(random.nextInt(blockOf.length), random.nextInt(blockOf.length));
      if (blockOf[key] != EvictionPolicy.NONE) {
        policy.onHit(blockOf[key]);
        continue;
      }
      int block = policy.size();
      if (block == BLOCKS) {
        block = policy.victim(b -> true, 1);
        victims.add(block);
        policy.onRemove(block, Removal.EVICTED);
        blockOf[keyOf[block]] = EvictionPolicy.NONE;
      }
      insertInSequence(policy, block, key);
      blockOf[key] = block;
      keyOf[block] = key;
    }
    return victims;
  }

  @Test
  void randomOperations_victimsAreResidentAndNeverPinned_invariantsHold() {
    for (int seed = 0; seed < 50; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      EvictionPolicy policy = create(BLOCKS);
      long metadata = policy.metadataBytes();
      BitSet resident = new BitSet();
      for (int step = 0; step < 2000; step++) {
        int block = random.nextInt(BLOCKS);
        switch (random.nextInt(5)) {
          case 0, 1 -> {
            if (resident.get(block)) {
              policy.onHit(block);
            } else {
              // A key has one block at a time.
              insertInSequence(policy, block, block + (long) BLOCKS * random.nextInt(3));
              resident.set(block);
            }
          }
          case 2 -> {
            if (resident.get(block)) {
              policy.onRemove(block, random.nextBoolean() ? Removal.DELETED : Removal.EVICTED);
              resident.clear(block);
            }
          }
          default -> {
            int pinned = random.nextInt(BLOCKS);
            int victim = policy.victim(b -> b != pinned, Integer.MAX_VALUE);
            boolean some = resident.cardinality() > (resident.get(pinned) ? 1 : 0);
            assertEquals(some, victim != EvictionPolicy.NONE);
            assertTrue(victim == EvictionPolicy.NONE || (resident.get(victim) && victim != pinned));
            if (victim != EvictionPolicy.NONE && random.nextBoolean()) {
              policy.onRemove(victim, Removal.EVICTED);
              resident.clear(victim);
            }
          }
        }
        policy.checkInvariants();
        assertEquals(resident.cardinality(), policy.size());
        if (!isAuto()) {
          assertEquals(metadata, policy.metadataBytes());
        }
      }
    }
  }
}
