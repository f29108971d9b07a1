package io.kvtier.policies.eviction;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

final class LineagePolicyTest {
  private final LineagePolicy policy = new LineagePolicy(new LruPolicy(32), 32);

  /** The key of block n is n + 100. */
  private void insert(int block, int depth, int parent) {
    policy.onInsert(block, 1, block + 100, depth, depth == 0 ? 0 : parent + 100);
  }

  /** 0 1 2 3 and, sharing 0 1, 0 1 4 5. */
  private void insertTwoSequences() {
    insert(0, 0, 0);
    insert(1, 1, 0);
    insert(2, 2, 1);
    insert(3, 3, 2);
    policy.onHit(0);
    policy.onHit(1);
    insert(4, 2, 1);
    insert(5, 3, 4);
  }

  private List<Integer> drain() {
    List<Integer> victims = new ArrayList<>();
    while (policy.size() > 0) {
      int victim = policy.victim(b -> true, 1);
      policy.onRemove(victim, Removal.EVICTED);
      policy.checkInvariants();
      victims.add(victim);
    }
    return victims;
  }

  @Test
  void victims_tailsBeforeHeads_olderBranchFirst() {
    insertTwoSequences();
    assertEquals(List.of(3, 2, 5, 4, 1, 0), drain());
  }

  @Test
  void victims_branchUsedAgain_leavesLater() {
    insertTwoSequences();
    for (int block : new int[] {0, 1, 2, 3}) {
      policy.onHit(block);
    }
    assertEquals(List.of(5, 4, 3, 2, 1, 0), drain());
  }

  @Test
  void parentDeleted_orphansGoFirst() {
    insertTwoSequences();
    insert(6, 0, 0);
    policy.onRemove(4, Removal.DELETED);
    assertEquals(List.of(5, 3, 2, 1, 0, 6), drain());
  }

  @Test
  void parentComesBack_orphanIsNoneAnyMore() {
    insertTwoSequences();
    policy.onRemove(4, Removal.DELETED);
    insert(9, 2, 1);
    policy.onRemove(9, Removal.DELETED);
    policy.onInsert(4, 1, 104, 2, 101);
    policy.checkInvariants();
    assertEquals(List.of(3, 2, 5, 4, 1, 0), drain());
  }

  @Test
  void pinnedTail_itsParentGoes() {
    insertTwoSequences();
    assertEquals(2, policy.victim(b -> b != 3, 8));
    assertEquals(1, policy.victim(b -> b == 1, 8));
  }

  @Test
  void parentNeverSeen_isNotMissed() {
    insert(7, 5, 20);
    insert(8, 0, 0);
    policy.onHit(7);
    assertEquals(8, policy.victim(b -> true, 1));
  }

  @Test
  void parentMissingAtItsInsertion_leavesFirst_fromItsTail() {
    insert(0, 0, 0);
    insert(7, 5, 20);
    policy.onParentMissing(7);
    insert(8, 6, 7);
    policy.checkInvariants();
    assertEquals(List.of(8, 7, 0), drain());
  }

  @Test
  void parentMissing_usedOrParentComes_isForgotten() {
    insert(0, 0, 0);
    insert(7, 5, 20);
    policy.onParentMissing(7);
    policy.onHit(7);
    insert(9, 3, 30);
    policy.onParentMissing(9);
    insert(30, 2, 25);
    policy.checkInvariants();
    assertEquals(List.of(0, 7, 9, 30), drain());
  }

  @Test
  void parentMissing_thatIsThere_isNoneMissing() {
    insert(0, 0, 0);
    insert(1, 1, 0);
    policy.onParentMissing(1);
    policy.onParentMissing(0);
    policy.checkInvariants();
    insert(2, 0, 0);
    assertEquals(List.of(1, 0, 2), drain());
  }

  @Test
  void parentsInACircle_areNoTrap() {
    policy.onInsert(0, 1, 100, 1, 101);
    policy.onInsert(1, 1, 101, 1, 100);
    policy.onInsert(2, 1, 102, 1, 102);
    assertEquals(List.of(0, 1, 2), drain());
    assertEquals(EvictionPolicy.NONE, policy.victim(b -> true, 1));
  }
}
