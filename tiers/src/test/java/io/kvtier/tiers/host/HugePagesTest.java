package io.kvtier.tiers.host;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.kvtier.protocol.linux.SharedMemory;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.Test;

class HugePagesTest {
  private static final long SLAB_BYTES = 8 << 20;

  @Test
  void makeHuge_whileItIsWritten_keepsEveryByte() throws IOException, InterruptedException {
    try (SlabStore slabs = new SlabStore(2, SLAB_BYTES)) {
      for (int slab = 0; slab < 2; slab++) {
        fill(slabs.mapping(slab), slab);
      }
      try (HugePages huge = new HugePages(slabs)) {
        for (int round = 0; round < 20; round++) {
          fill(slabs.mapping(1), 100 + round);
        }
        huge.await();
        // Where the kernel gives any, the mapping has them, too.
        assertEquals(
            huge.bytes() / 1024,
            Smaps.kib(slabs.mapping(0), "ShmemPmdMapped")
                + Smaps.kib(slabs.mapping(1), "ShmemPmdMapped"));
      }
      expect(slabs.mapping(0), 0);
      expect(slabs.mapping(1), 119);
    }
  }

  @Test
  void close_atOnce_endsBeforeTheSlabsGo() throws IOException {
    for (int i = 0; i < 20; i++) {
      try (SlabStore slabs = new SlabStore(4, SLAB_BYTES)) {
        HugePages huge = new HugePages(slabs);
        huge.close();
        assertFalse(isAtWork(), "the thread ends before close does");
      }
    }
  }

  private static boolean isAtWork() {
    return Thread.getAllStackTraces().keySet().stream()
        .anyMatch(thread -> thread.getName().equals("kvtier-huge-pages"));
  }

  @Test
  void slabsThatAreNoWholeHugePages_areTakenAsFarAsTheyGo()
      throws IOException, InterruptedException {
    assumeTrue(hasHugePages(), "the kernel gives none");
    long bytes = SharedMemory.HUGE_PAGE_BYTES + 12_288;
    try (SlabStore slabs = new SlabStore(3, bytes);
        HugePages huge = new HugePages(slabs)) {
      huge.await();
      assertEquals(3 * SharedMemory.HUGE_PAGE_BYTES, huge.bytes());
    }
  }

  private static boolean hasHugePages() throws IOException {
    try (SlabStore slabs = new SlabStore(1, SLAB_BYTES)) {
      return SharedMemory.makeHuge(slabs.mapping(0), 0, SLAB_BYTES);
    }
  }

  @Test
  void mapping_beginsWhereAHugePageOfTheFileDoes() throws IOException {
    try (SlabStore slabs = new SlabStore(8, SharedMemory.HUGE_PAGE_BYTES + 4096)) {
      for (int slab = 0; slab < slabs.slabs(); slab++) {
        assertEquals(0, slabs.mapping(slab).address() % SharedMemory.HUGE_PAGE_BYTES);
      }
    }
  }

  private static void fill(MemorySegment memory, long seed) {
    for (long at = 0; at < memory.byteSize(); at += 4096) {
      memory.set(ValueLayout.JAVA_LONG, at, seed * 31 + at);
    }
  }

  private static void expect(MemorySegment memory, long seed) {
    for (long at = 0; at < memory.byteSize(); at += 4096) {
      assertEquals(seed * 31 + at, memory.get(ValueLayout.JAVA_LONG, at));
    }
  }
}
