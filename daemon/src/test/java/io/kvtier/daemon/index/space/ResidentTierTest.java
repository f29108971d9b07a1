package io.kvtier.daemon.index.space;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.tiers.slots.SlotAllocator;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.Test;

class ResidentTierTest {
  private static final TierRows NO_ROWS =
      new TierRows() {
        @Override
        public void added(int block) {}

        @Override
        public void removed(int block) {}
      };

  private static final int HOST = 0;
  private static final int SSD = 1;
  private static final int BLOCKS = 1 << 16;

  private long heapLeft = Long.MAX_VALUE;

  /** A tier of three parts, of which the second has no region. */
  private ResidentTier line(Directory directory) {
    SlotAllocator slots = new SlotAllocator(new int[] {0, 2, 2}, 3, 1 << 20, 4096, 1);
    return new ResidentTier(
        HOST,
        KnownTiers.HOST,
        new TierParts.Common(
            directory, block -> 4096, null, part -> BLOCKS / 4, wanted -> heapLeft),
        slots,
        0,
        "lru",
        NO_ROWS);
  }

  @Test
  void swapPolicy_noHeapForIt_isRefusedInWordsAndNothingChanges() throws IOException {
    try (Directory directory = new Directory(BLOCKS, 1)) {
      ResidentTier line = line(directory);
      line.swapPolicy("forecast");
      heapLeft = line.policyBytes() - 1;
      line.swapPolicy("fifo");
      IllegalArgumentException refused =
          assertThrows(IllegalArgumentException.class, () -> line.swapPolicy("forecast"));
      assertTrue(String.valueOf(refused.getMessage()).contains("-Xmx"), refused::toString);
      assertEquals("fifo", line.policyName());
    }
  }

  /** Blocks on SSD, in the order of their numbers, and the first of them in memory as well. */
  private static ResidentTier ssdUnder(
      Directory directory, String policy, int blocks, int inMemory) {
    return lines(directory, policy, blocks, inMemory)[SSD];
  }

  private static ResidentTier[] lines(
      Directory directory, String policy, int blocks, int inMemory) {
    TierParts.Common common =
        new TierParts.Common(directory, block -> 4096, null, part -> BLOCKS, wanted -> 1L << 40);
    ResidentTier[] lines = new ResidentTier[2];
    for (int tier = HOST; tier <= SSD; tier++) {
      SlotAllocator slots = new SlotAllocator(new int[1], 1, 4096L * blocks, 4096, 1);
      lines[tier] =
          new ResidentTier(
              tier,
              tier == HOST ? KnownTiers.HOST : KnownTiers.SSD,
              common,
              slots,
              0,
              policy,
              NO_ROWS);
    }
    directory
        .copies()
        .watch(block -> {
          lines[HOST].recount(block);
          lines[SSD].recount(block);
        });
    MemorySegment key = Arena.ofAuto().allocate(8, 8);
    for (int i = 0; i < blocks; i++) {
      key.set(ValueLayout.JAVA_LONG, 0, i);
      assertEquals(Directory.NONE, directory.find(0, 0, 8, key, 0));
      int block = directory.insertSought(0, 0, 8);
      place(lines[SSD], block);
      if (i < inMemory) {
        place(lines[HOST], block);
      }
    }
    return lines;
  }

  private static void place(ResidentTier line, int block) {
    assertTrue(
        line.allocate(
            block,
            line.slots().sizeClass(4096),
            SlotAllocator.DAEMON,
            true,
            false,
            SlotAllocator.ANY_LANE));
    line.setState(block, CopyState.STAGING);
    line.becomeResident(block);
  }

  @Test
  void victimOnlyHere_manyStandInMemoryToo_isGivenUpUntilManyWereAskedFor() throws IOException {
    try (Directory directory = new Directory(BLOCKS, 1)) {
      int blocks = 3000;
      ResidentTier ssd = ssdUnder(directory, "lru", blocks, blocks - 1);
      int asked = 1;
      while (ssd.victims().onlyHere(0) == EvictionPolicy.NONE) {
        asked++;
        assertTrue(asked < blocks, "the only one is never found");
      }
      // Blocks that a search passes go to the newest end, so that each look is at another block.
      // There were 1,024 looks at first, and each call adds 64. The block is found as soon as the
      // looks suffice.
      assertTrue(1024 + 64 * asked >= blocks, "found after " + asked + " calls, some of them long");
      assertTrue(asked <= 2 * 1024 / 64 + 1, asked + " calls");
      for (int i = 0; i < 10; i++) {
        assertEquals(blocks - 1, ssd.victims().onlyHere(0), "it is where the next search begins");
      }
      ssd.checkInvariants();
    }
  }

  @Test
  void victimOnlyHere_whatStandsInMemoryToo_isNotCountedAsUsed() throws IOException {
    for (int inMemory : new int[] {400, 399}) {
      try (Directory directory = new Directory(BLOCKS, 1)) {
        ResidentTier ssd = ssdUnder(directory, "auto:shadow=65536", 400, inMemory);
        String before = ssd.whatIf().toString();
        for (int i = 0; i < 5; i++) {
          int expected = inMemory == 400 ? EvictionPolicy.NONE : 399;
          assertEquals(expected, ssd.victims().onlyHere(0));
        }
        assertEquals(before, ssd.whatIf().toString());
        ssd.checkInvariants();
      }
    }
  }

  @Test
  void policyBytes_partWithoutRegions_takesNextToNothing() throws IOException {
    try (Directory directory = new Directory(BLOCKS, 1)) {
      ResidentTier line = line(directory);
      assertTrue(line.policyBytes() < 2.1 * 8 * BLOCKS, line.policyBytes() + " bytes");
    }
  }

  @Test
  void victimOnlyHere_afterASearchInVain_noLongerWaitsWhenThatIsOver() throws IOException {
    try (Directory directory = new Directory(BLOCKS, 1)) {
      int blocks = 3000;
      ResidentTier[] lines = lines(directory, "lru", blocks, blocks - 1);
      ResidentTier ssd = lines[SSD];
      assertEquals(EvictionPolicy.NONE, ssd.victims().onlyHere(0));
      place(lines[HOST], blocks - 1);
      assertEquals(EvictionPolicy.NONE, ssd.victims().onlyHere(0), "there is none");
      // The block is behind the 1,024 blocks that were passed.
      lines[HOST].evict(1030);
      assertEquals(1030, ssd.victims().onlyHere(0));
      ssd.checkInvariants();
    }
  }

  @Test
  void victimOnlyHere_afterASearchInVainByAnotherPolicy_searchesAtOnce() throws IOException {
    try (Directory directory = new Directory(BLOCKS, 1)) {
      ResidentTier[] lines = lines(directory, "lru", 3000, 3000);
      ResidentTier ssd = lines[SSD];
      lines[HOST].evict(1030);
      assertEquals(EvictionPolicy.NONE, ssd.victims().onlyHere(0));
      ssd.swapPolicy("fifo");
      assertEquals(1030, ssd.victims().onlyHere(0));
    }
  }

  @Test
  void victim_whatIsHeld_isNotCountedAsUsed() throws IOException {
    for (String policy : new String[] {"auto:shadow=65536", "lru"}) {
      try (Directory directory = new Directory(BLOCKS, 1)) {
        ResidentTier ssd = ssdUnder(directory, policy, 400, 0);
        for (int block = 0; block < 100; block++) {
          directory.addHolds(block, 1);
        }
        String before = ssd.whatIf().toString();
        int sizeClass = ssd.slots().sizeClass(4096);
        for (int i = 0; i < 5; i++) {
          assertEquals(100, ssd.victims().next(sizeClass, SlotAllocator.DAEMON, 0, false));
        }
        assertEquals(before, ssd.whatIf().toString());
        for (int block = 0; block < 100; block++) {
          directory.addHolds(block, -1);
        }
        if (policy.equals("lru")) {
          assertEquals(
              100,
              ssd.victims().next(sizeClass, SlotAllocator.DAEMON, 0, false),
              "they were passed");
        }
        ssd.checkInvariants();
      }
    }
  }

  /**
   * An SSD tier of two devices, whose older copies lie on the first, the newer ones on the second.
   */
  private static ResidentTier onTwoDevices(
      Directory directory, String policy, int blocksOfEach, boolean[] isFenced, int[] looks) {
    SlotAllocator slots = new SlotAllocator(new int[2], 1, 4096L * blocksOfEach, 4096, 2);
    boolean[] takes = {true, false};
    slots.openLanes(lane -> {
      looks[0]++;
      return takes[lane] && !isFenced[lane];
    });
    ResidentTier line =
        new ResidentTier(
            SSD,
            KnownTiers.SSD,
            new TierParts.Common(
                directory, block -> 4096, null, part -> BLOCKS, wanted -> 1L << 40),
            slots,
            0,
            policy,
            NO_ROWS);
    line.setAsideOn(lane -> isFenced[lane]);
    directory.copies().watch(line::recount);
    MemorySegment key = Arena.ofAuto().allocate(8, 8);
    for (int i = 0; i < 2 * blocksOfEach; i++) {
      takes[0] = i < blocksOfEach;
      takes[1] = !takes[0];
      key.set(ValueLayout.JAVA_LONG, 0, i);
      assertEquals(Directory.NONE, directory.find(0, 0, 8, key, 0));
      place(line, directory.insertSought(0, 0, 8));
    }
    takes[0] = true;
    return line;
  }

  @Test
  void victim_allOfAFencedDeviceStandInTheWay_areMetOnce() throws IOException {
    for (String policy : new String[] {"lru", "fifo", "s3fifo", "arc", "lineage/lru", "auto"}) {
      try (Directory directory = new Directory(BLOCKS, 1)) {
        int each = 5000;
        boolean[] isFenced = new boolean[2];
        int[] looks = new int[1];
        ResidentTier line = onTwoDevices(directory, policy, each, isFenced, looks);
        int sizeClass = line.slots().sizeClass(4096);
        isFenced[0] = true;
        looks[0] = 0;
        int evicted = 0;
        for (int asked = 0; asked < 100; asked++) {
          int before = looks[0];
          int victim = line.victims().next(sizeClass, SlotAllocator.DAEMON, 0, false);
          assertTrue(looks[0] - before < 4096, policy + ": " + (looks[0] - before) + " looks");
          if (victim != EvictionPolicy.NONE) {
            assertTrue(victim >= each, policy + " names a block of the fenced device");
            line.evict(victim);
            evicted++;
          }
          line.checkInvariants();
        }
        assertTrue(evicted >= 90, policy + ": " + evicted + " of 100 times one was found");
        assertTrue(looks[0] < 5 * each, policy + ": " + looks[0] + " looks for " + evicted);
        assertEquals(2 * each - evicted, line.resident());

        // A block that is set aside may be used, and may leave, as any other block.
        line.hit(0);
        line.leave(0);
        line.free(0);
        line.swapPolicy("lru");
        isFenced[0] = false;
        for (int round = 0; round < each / 256 + 1; round++) {
          line.returnAside();
          line.checkInvariants();
        }
        isFenced[1] = true;
        int found = 0;
        for (int asked = 0; asked < each + 100; asked++) {
          int victim = line.victims().next(sizeClass, SlotAllocator.DAEMON, 0, false);
          if (victim != EvictionPolicy.NONE) {
            assertTrue(victim > 0 && victim < each, policy + " names block " + victim);
            line.evict(victim);
            found++;
          }
        }
        assertEquals(each - 1, found, policy + ": all of them are back");
      }
    }
  }
}
