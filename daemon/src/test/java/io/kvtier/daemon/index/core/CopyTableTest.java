package io.kvtier.daemon.index.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class CopyTableTest {
  private static final int BLOCKS = 16;
  private static final List<CopyState> STATES = List.of(CopyState.values());
  private static final int[] FLAGS = {
    CopyTable.EVICTABLE, CopyTable.ONLY_HERE, CopyTable.ASIDE, CopyTable.TAKEN_OVER
  };

  private static Directory directory(int tiers) throws IOException {
    Directory directory = new Directory(BLOCKS, 1, 0, tiers);
    MemorySegment key = Arena.ofAuto().allocate(8, 8);
    for (int i = 0; i < BLOCKS; i++) {
      key.set(ValueLayout.JAVA_LONG, 0, i);
      assertEquals(Directory.NONE, directory.find(0, 0, 8, key, 0));
      assertEquals(i, directory.insertSought(0, 0, 8));
    }
    return directory;
  }

  @Test
  void randomChanges_eachCopyIsAsItWasLastSet_whateverOthersAre() throws IOException {
    for (int tiers = 1; tiers <= CopyTable.TIERS_MAX; tiers++) {
      try (Directory directory = directory(tiers)) {
        CopyTable copies = directory.copies();
        CopyState[][] states = new CopyState[tiers][BLOCKS];
        int[][] slots = new int[tiers][BLOCKS];
        int[][] flags = new int[tiers][BLOCKS];
        for (int tier = 0; tier < tiers; tier++) {
          Arrays.fill(states[tier], CopyState.NONE);
          Arrays.fill(slots[tier], CopyTable.NO_SLOT);
        }
        SplittableRandom random = new SplittableRandom(tiers);
        for (int step = 0; step < 20_000; step++) {
          int tier = random.nextInt(tiers);
          int block = random.nextInt(BLOCKS);
          CopyState next = STATES.get(random.nextInt(STATES.size()));
          if (states[tier][block].canBecome(next)) {
            copies.setState(tier, block, next);
            states[tier][block] = next;
          } else {
            assertThrows(IllegalStateException.class, () -> copies.setState(tier, block, next));
          }
          slots[tier][block] = random.nextInt();
          copies.setSlot(tier, block, slots[tier][block]);
          int flag = FLAGS[random.nextInt(FLAGS.length)];
          boolean is = random.nextBoolean();
          copies.set(flag, tier, block, is);
          flags[tier][block] = is ? flags[tier][block] | flag : flags[tier][block] & ~flag;
          checkRow(copies, random.nextInt(BLOCKS), states, slots, flags);
        }
      }
    }
  }

  private static void checkRow(
      CopyTable copies, int block, CopyState[][] states, int[][] slots, int[][] flags) {
    boolean isNowhere = true;
    boolean isInFirstAlone = states[0][block] == CopyState.RESIDENT;
    for (int tier = 0; tier < copies.tiers(); tier++) {
      assertEquals(states[tier][block], copies.state(tier, block));
      assertEquals(slots[tier][block], copies.slot(tier, block));
      for (int flag : FLAGS) {
        assertEquals((flags[tier][block] & flag) != 0, copies.has(flag, tier, block));
      }
      boolean isElsewhere = false;
      boolean isDownTo = false;
      for (int other = 0; other < copies.tiers(); other++) {
        boolean is = states[other][block] != CopyState.NONE;
        isElsewhere |= is && other != tier;
        isDownTo |= is && other <= tier;
      }
      assertEquals(isElsewhere, copies.isElsewhere(tier, block));
      assertEquals(isDownTo, copies.isDownTo(tier, block));
      isNowhere &= states[tier][block] == CopyState.NONE;
      isInFirstAlone &= tier == 0 || states[tier][block] == CopyState.NONE;
    }
    assertEquals(isNowhere, copies.isNowhere(block));
    assertEquals(isInFirstAlone, copies.isInFirstAlone(block));
  }

  @Test
  void recordUsedAgain_hasNoCopyOfItsFormerBlock() throws IOException {
    try (Directory directory = directory(3)) {
      CopyTable copies = directory.copies();
      copies.setState(2, 5, CopyState.RESERVED);
      copies.setSlot(2, 5, 77);
      copies.set(CopyTable.ASIDE, 1, 5, true);
      directory.unlink(5);
      directory.free(5);
      MemorySegment key = Arena.ofAuto().allocate(8, 8);
      key.set(ValueLayout.JAVA_LONG, 0, 1000);
      assertEquals(Directory.NONE, directory.find(0, 0, 8, key, 0));
      assertEquals(5, directory.insertSought(0, 0, 8));
      assertEquals(true, copies.isNowhere(5));
      assertEquals(CopyTable.NO_SLOT, copies.slot(2, 5));
      assertEquals(false, copies.has(CopyTable.ASIDE, 1, 5));
    }
  }

  @Test
  void changes_ofStatesUsesAndHolds_areToldOnce() throws IOException {
    try (Directory directory = directory(2)) {
      List<Integer> told = new ArrayList<>();
      directory.copies().watch(told::add);
      directory.copies().setState(1, 3, CopyState.RESERVED);
      directory.addUses(4, 1);
      directory.addUses(4, 1);
      directory.addUses(4, -2);
      directory.addHolds(6, 1);
      directory.addHolds(6, 1);
      directory.addHolds(6, -2);
      // Only the first use or hold, and the end of the last one, change what may leave.
      assertEquals(List.of(3, 4, 4, 6, 6), told);
    }
  }

  @Test
  void tiers_noneOrTooMany_areRefused() {
    for (int tiers : new int[] {0, CopyTable.TIERS_MAX + 1}) {
      assertThrows(IllegalArgumentException.class, () -> new CopyTable(MemorySegment.NULL, tiers));
    }
  }
}
