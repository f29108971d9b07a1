package io.kvtier.tiers.slots;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class SlotAllocatorTest {
  private static final int PAGE = 4096;

  @Test
  void allocate_untilFull_thenNone_andCapHolds() {
    SlotAllocator slots = new SlotAllocator(2, 8 * PAGE, PAGE);
    int sizeClass = slots.sizeClass(PAGE + 1);
    assertEquals(2 * PAGE, slots.slotBytes(sizeClass));
    for (int i = 0; i < 8; i++) {
      assertNotEquals(SlotAllocator.NONE, slots.allocate(sizeClass, SlotAllocator.DAEMON, true, i));
    }
    assertEquals(SlotAllocator.NONE, slots.allocate(sizeClass, SlotAllocator.DAEMON, true, 9));
    assertEquals(slots.bytesCapacity(), slots.bytesUsed());
    slots.checkInvariants();
  }

  @Test
  void granularity_tiersOfAnySize_haveANumberForEverySlot() {
    long gib = 1L << 30;
    assertEquals(PAGE, SlotAllocator.granularity(64, gib, PAGE));
    assertEquals(PAGE, SlotAllocator.granularity(8 << 10, gib, PAGE));
    assertEquals(4 * PAGE, SlotAllocator.granularity(30 << 10, gib, PAGE));
    int regions = 8 << 10;
    SlotAllocator slots = new SlotAllocator(regions, gib, PAGE);
    int large = slots.sizeClass(gib);
    for (int i = 0; i < regions - 1; i++) {
      assertNotEquals(SlotAllocator.NONE, slots.allocate(large, SlotAllocator.DAEMON, true, i));
    }
    int small = slots.sizeClass(1);
    int slot = SlotAllocator.NONE;
    for (int i = 0; i < 1 << 18; i++) {
      slot = slots.allocate(small, SlotAllocator.DAEMON, true, i);
    }
    assertEquals(Integer.MAX_VALUE, slot, "the last number of all");
    assertEquals(gib - PAGE, slots.offsetOf(slot));
    assertEquals((1 << 18) - 1, slots.blockInSlot(slot));
    assertThrows(IllegalArgumentException.class, () -> new SlotAllocator(regions + 1, gib, PAGE));
  }

  @Test
  void allocate_session_onlyFromItsOwnOrUngrantedRegions_unlessItMayTake() {
    SlotAllocator slots = new SlotAllocator(2, 4 * PAGE, PAGE);
    int sizeClass = slots.sizeClass(PAGE);
    int first = slots.allocate(sizeClass, 1, false, 0);
    int second = slots.allocate(sizeClass, 2, false, 1);
    assertNotEquals(slots.regionOf(first), slots.regionOf(second));
    assertEquals(1, slots.grantedTo(slots.regionOf(first)));
    assertEquals(SlotAllocator.NONE, slots.allocate(sizeClass, 3, false, 2));
    int taken = slots.allocate(sizeClass, 3, true, 2);
    assertEquals(3, slots.grantedTo(slots.regionOf(taken)));
  }

  @Test
  void isWritableByOthers_allButTheOnlyWriter() {
    SlotAllocator slots = new SlotAllocator(1, 4 * PAGE, PAGE);
    assertFalse(slots.isWritableByOthers(0, 1));
    slots.addWriter(0, 1);
    assertFalse(slots.isWritableByOthers(0, 1));
    assertTrue(slots.isWritableByOthers(0, 2));
    slots.addWriter(0, 2);
    slots.addWriter(0, 3);
    assertTrue(slots.isWritableByOthers(0, 1));
    slots.revoke(2);
    slots.revoke(3);
    assertTrue(slots.isWritableByOthers(0, 1), "a session's end does not unmap what it mapped");
  }

  @Test
  void drain_emptiedRegion_goesToAnotherClass() {
    SlotAllocator slots = new SlotAllocator(1, 8 * PAGE, PAGE);
    int small = slots.sizeClass(PAGE);
    int large = slots.sizeClass(4 * PAGE);
    int slot = slots.allocate(small, SlotAllocator.DAEMON, true, 7);
    assertEquals(SlotAllocator.NONE, slots.allocate(large, SlotAllocator.DAEMON, true, 8));
    slots.drain(0);
    assertEquals(SlotAllocator.NONE, slots.allocate(small, SlotAllocator.DAEMON, true, 8));
    slots.free(slot);
    assertEquals(SlotAllocator.NONE, slots.draining(0));
    assertNotEquals(SlotAllocator.NONE, slots.allocate(large, SlotAllocator.DAEMON, true, 8));
    slots.checkInvariants();
  }

  @Test
  void allocate_emptyRegionOfAnotherClass_changesItsClass() {
    SlotAllocator slots = new SlotAllocator(1, 8 * PAGE, PAGE);
    int small = slots.sizeClass(PAGE);
    int large = slots.sizeClass(4 * PAGE);
    slots.free(slots.allocate(small, SlotAllocator.DAEMON, true, 7));
    assertNotEquals(SlotAllocator.NONE, slots.allocate(large, SlotAllocator.DAEMON, true, 8));
    assertEquals(0, slots.freeOfClass(small));
    slots.checkInvariants();
  }

  @Test
  void allocate_severalLanes_takesThemInTurn_andOpenOnesOnly() {
    SlotAllocator slots = new SlotAllocator(4, 4 * PAGE, PAGE, 2);
    int sizeClass = slots.sizeClass(PAGE);
    int[] ofLane = new int[2];
    for (int i = 0; i < 8; i++) {
      int slot = slots.allocate(sizeClass, SlotAllocator.DAEMON, true, i);
      ofLane[slots.laneOf(slots.regionOf(slot))]++;
    }
    assertEquals(4, ofLane[0]);
    assertEquals(4, ofLane[1]);
    slots.openLanes(lane -> lane == 1);
    for (int i = 0; i < 4; i++) {
      int slot = slots.allocate(sizeClass, SlotAllocator.DAEMON, true, i);
      assertEquals(1, slots.laneOf(slots.regionOf(slot)));
    }
    assertEquals(
        SlotAllocator.NONE, slots.allocate(sizeClass, SlotAllocator.DAEMON, true, 99), "lane 0");
    slots.checkInvariants();
  }

  @Test
  void adopt_slotsOfAnEarlierStart_theRestIsFree() {
    SlotAllocator slots = new SlotAllocator(2, 16 * PAGE, PAGE);
    int sizeClass = slots.sizeClass(4 * PAGE);
    int other = slots.sizeClass(2 * PAGE);
    int slot = slots.adopt(sizeClass, 1, 8L * PAGE, 5);
    assertEquals(5, slots.blockInSlot(slot));
    assertEquals(8L * PAGE, slots.offsetOf(slot));
    assertEquals(SlotAllocator.NONE, slots.adopt(sizeClass, 1, 8L * PAGE, 6), "taken");
    assertEquals(SlotAllocator.NONE, slots.adopt(sizeClass, 1, 7L * PAGE, 6), "no such slot");
    assertEquals(SlotAllocator.NONE, slots.adopt(sizeClass, 1, 16L * PAGE, 6), "beyond the end");
    assertEquals(SlotAllocator.NONE, slots.adopt(sizeClass, 2, 0, 6), "no such region");
    assertEquals(SlotAllocator.NONE, slots.adopt(other, 1, 0, 6), "of another size");
    slots.endAdoption();
    slots.checkInvariants();
    for (int i = 0; i < 3 + 4; i++) {
      assertNotEquals(
          SlotAllocator.NONE, slots.allocate(sizeClass, SlotAllocator.DAEMON, true, 10 + i));
    }
    assertEquals(SlotAllocator.NONE, slots.allocate(sizeClass, SlotAllocator.DAEMON, true, 99));
    slots.checkInvariants();
  }

  @Test
  void free_twice_isRefused() {
    SlotAllocator slots = new SlotAllocator(1, 4 * PAGE, PAGE);
    int slot = slots.allocate(slots.sizeClass(PAGE), SlotAllocator.DAEMON, true, 0);
    slots.free(slot);
    assertThrows(IllegalStateException.class, () -> slots.free(slot));
  }

  @Test
  void sizeClass_largerThanRegion_none() {
    assertEquals(SlotAllocator.NONE, new SlotAllocator(1, 4 * PAGE, PAGE).sizeClass(5 * PAGE));
  }

  @Test
  void randomOperations_slotsNeverOverlap_andBalance() {
    for (int seed = 0; seed < 100; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      SlotAllocator slots = new SlotAllocator(4, 16 * PAGE, PAGE);
      int[] classes = {
        slots.sizeClass(PAGE), slots.sizeClass(3 * PAGE), slots.sizeClass(16 * PAGE)
      };
      Map<Integer, Integer> used = new HashMap<>();
      for (int step = 0; step < 500; step++) {
        if (random.nextInt(3) > 0) {
          int slot =
              slots.allocate(
                  classes[random.nextInt(3)], random.nextInt(3), random.nextBoolean(), step);
          if (slot != SlotAllocator.NONE) {
            assertEquals(null, used.put(slot, step));
            assertEquals(step, slots.blockInSlot(slot));
            assertTrue(slots.offsetOf(slot) + slots.slotBytes(slots.classOf(slot)) <= 16 * PAGE);
          }
        } else if (!used.isEmpty()) {
          int slot = used.keySet().iterator().next();
          used.remove(slot);
          slots.free(slot);
        }
        slots.checkInvariants();
        assertEquals(used.size(), slots.slotsTotal() - slots.slotsFree());
      }
    }
  }
}
