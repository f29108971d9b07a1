package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class ForecastPolicyTest {
  private static final int CAPACITY = 256;

  private final ForecastPolicy policy = new ForecastPolicy(CAPACITY, CAPACITY, 8);
  private final Map<Long, Integer> resident = new HashMap<>();
  private final long[] keyOf = new long[CAPACITY];

  /** Uses the blocks {@code from} to {@code to}, exclusive, of a sequence; answers the hits. */
  private int request(long sequence, int from, int to) {
    int hits = 0;
    for (int depth = from; depth != to; depth += from < to ? 1 : -1) {
      hits += touch(sequence, depth) ? 1 : 0;
    }
    return hits;
  }

  private static long key(long sequence, int depth) {
    return sequence << 16 | depth + 1;
  }

  private static long fingerprint(long key) {
    long z = key * 0x9E3779B97F4A7C15L;
    z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
    return z ^ z >>> 31;
  }

  private boolean touch(long sequence, int depth) {
    long key = key(sequence, depth);
    Integer block = resident.get(key);
    if (block != null) {
      policy.onHit(block);
      return true;
    }
    int id = policy.size();
    if (id == CAPACITY) {
      id = policy.victim(b -> true, 1);
      policy.onRemove(id, Removal.EVICTED);
      resident.remove(keyOf[id]);
    }
    policy.onInsert(
        id,
        1,
        fingerprint(key),
        depth,
        depth == 0 ? EvictionPolicy.NO_PARENT : fingerprint(key(sequence, depth - 1)));
    resident.put(key, id);
    keyOf[id] = key;
    return false;
  }

  @Test
  void victims_headFirstRequest_tailLeavesFirst() {
    request(1, 0, 5);
    assertVictims(4, 3, 2, 1, 0);
  }

  @Test
  void victims_tailFirstRequest_tailLeavesFirst() {
    request(1, 4, -1);
    assertVictims(4, 3, 2, 1, 0);
  }

  private void assertVictims(int... depths) {
    for (int depth : depths) {
      int victim = policy.victim(b -> true, 1);
      assertEquals(key(1, depth), keyOf[victim]);
      policy.onRemove(victim, Removal.EVICTED);
    }
    assertEquals(0, policy.size());
    policy.checkInvariants();
  }

  /**
   * Sequences that are used again after a round of all of them, twice the tier: least recently used
   * first would never hit. Half of what fits is known by its own worth to be kept.
   */
  @Test
  void loopOfTwiceTheTier_keepsAPart() {
    int hits = 0;
    int sequences = 2 * CAPACITY / 8;
    for (int round = 0; round < 40; round++) {
      for (int sequence = 0; sequence < sequences; sequence++) {
        int found = request(sequence, 0, 8);
        hits += round < 20 ? 0 : found;
      }
    }
    policy.checkInvariants();
    assertTrue(hits > 20 * CAPACITY / 2, hits + " hits in 20 rounds");
  }

  /** Pairs of turns with a pause between, among requests that come once. */
  @Test
  void scanBesideConversations_conversationsStay() {
    int hits = 0;
    int turns = 0;
    for (int i = 0; i < 4000; i++) {
      request(1_000_000 + i, 0, 24);
      request(i % 8, 0, 6);
      if (i >= 2000) {
        hits += request(i % 8, 0, 6);
        turns += 6;
      }
    }
    policy.checkInvariants();
    assertTrue(hits > 0.9 * turns, hits + " of " + turns);
  }

  @Test
  void ghosts_neverMoreThanTheirShare() {
    for (int i = 0; i < 2000; i++) {
      request(i, 0, 5);
      assertTrue(policy.ghosts() <= 8 * CAPACITY);
    }
    assertEquals(8 * CAPACITY, policy.ghosts());
    policy.checkInvariants();
  }
}
