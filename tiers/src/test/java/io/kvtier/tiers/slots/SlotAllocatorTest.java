package io.kvtier.tiers.slots;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
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
  void allocate_laneThatIsWanted_comesFirst_andOthersWhenItHasNone() {
    RegionLanes lanes = new RegionLanes(new int[] {0, 1, 1, 1}, 2);
    SlotAllocator slots = new SlotAllocator(new int[4], 1, 4 * PAGE, PAGE, lanes);
    int sizeClass = slots.sizeClass(PAGE);
    List<Integer> taken = new ArrayList<>();
    for (int i = 0; i < 12; i++) {
      int slot = slots.allocate(sizeClass, SlotAllocator.DAEMON, true, false, i, 1);
      assertEquals(1, slots.laneOf(slots.regionOf(slot)), "slot " + i);
      taken.add(slot);
    }
    for (int i = 12; i < 16; i++) {
      int slot = slots.allocate(sizeClass, SlotAllocator.DAEMON, true, false, i, 1);
      assertEquals(0, slots.laneOf(slots.regionOf(slot)), "slot " + i);
    }
    assertEquals(
        SlotAllocator.NONE, slots.allocate(sizeClass, SlotAllocator.DAEMON, true, false, 99, 1));
    slots.free(taken.get(5));
    assertEquals(taken.get(5), slots.allocate(sizeClass, SlotAllocator.DAEMON, true, false, 5, 0));
    slots.checkInvariants();
  }

  @Test
  void allocate_anyLane_takesTheLanesInTurn_alsoAfterOneThatWasWanted() {
    SlotAllocator slots =
        new SlotAllocator(new int[4], 1, 4 * PAGE, PAGE, RegionLanes.inTurn(4, 2));
    int sizeClass = slots.sizeClass(PAGE);
    int[] ofLane = new int[2];
    for (int i = 0; i < 8; i++) {
      int lane = i < 4 ? 1 : SlotAllocator.ANY_LANE;
      int slot = slots.allocate(sizeClass, SlotAllocator.DAEMON, true, false, i, lane);
      ofLane[slots.laneOf(slots.regionOf(slot))]++;
    }
    assertArrayEquals(new int[] {2, 6}, ofLane);
  }

  @Test
  void allocate_laneWithoutRegions_isLeftOut() {
    SlotAllocator slots =
        new SlotAllocator(new int[1], 1, 4 * PAGE, PAGE, new RegionLanes(new int[] {2}, 3));
    int sizeClass = slots.sizeClass(PAGE);
    for (int i = 0; i < 4; i++) {
      assertNotEquals(
          SlotAllocator.NONE, slots.allocate(sizeClass, SlotAllocator.DAEMON, true, false, i, 0));
    }
    slots.checkInvariants();
  }

  @Test
  void randomOperations_lanesAndParts_aSlotIsFoundWheneverThereIsOne() {
    for (int seed = 0; seed < 100; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      int lanes = 1 + random.nextInt(4);
      int regions = 1 + random.nextInt(8);
      int[] laneOf = random.ints(regions, 0, lanes).toArray();
      int[] partOf = random.ints(regions, 0, 2).toArray();
      SlotAllocator slots =
          new SlotAllocator(partOf, 2, 16 * PAGE, PAGE, new RegionLanes(laneOf, lanes));
      int[] classes = {
        slots.sizeClass(0, PAGE), slots.sizeClass(1, PAGE), slots.sizeClass(1, 5 * PAGE)
      };
      List<Integer> used = new ArrayList<>();
      for (int step = 0; step < 500; step++) {
        if (random.nextInt(5) > 1) {
          int sizeClass = classes[random.nextInt(3)];
          int wanted = random.nextInt(lanes + 1) - 1;
          int free = slots.freeOfClass(sizeClass);
          int slot = slots.allocate(sizeClass, SlotAllocator.DAEMON, true, false, step, wanted);
          assertEquals(
              slot == SlotAllocator.NONE && free > 0, false, "seed " + seed + ", step " + step);
          if (slot != SlotAllocator.NONE) {
            used.add(slot);
          }
        } else if (!used.isEmpty()) {
          slots.free(used.set(random.nextInt(used.size()), used.getLast()));
          int ignored = used.removeLast();
        }
        slots.checkInvariants();
      }
    }
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
