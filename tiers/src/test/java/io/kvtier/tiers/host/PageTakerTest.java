package io.kvtier.tiers.host;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.linux.SharedMemory;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class PageTakerTest {
  private static final int SLABS = 5;
  private static final long SLAB_BYTES = 8 << 20;

  @Test
  void await_allPagesOfAllSlabsAreTaken() throws IOException, InterruptedException {
    List<Throwable> failures = new ArrayList<>();
    try (SlabStore slabs = new SlabStore(SLABS, SLAB_BYTES);
        PageTaker taker = new PageTaker(slabs, failures::add)) {
      taker.await();
      for (int slab = 0; slab < SLABS; slab++) {
        assertEquals(SLAB_BYTES / 1024, Smaps.kib(slabs.mapping(slab), "Rss"));
      }
    }
    assertEquals(List.of(), failures);
  }

  @Test
  void await_whatIsWrittenMeanwhile_stays() throws IOException, InterruptedException {
    List<Throwable> failures = new ArrayList<>();
    try (SlabStore slabs = new SlabStore(SLABS, SLAB_BYTES)) {
      slabs.mapping(SLABS - 1).fill((byte) 1);
      try (PageTaker taker = new PageTaker(slabs, failures::add)) {
        for (int slab = 0; slab < SLABS; slab++) {
          for (long at = 0; at < SLAB_BYTES; at += SharedMemory.PAGE_BYTES) {
            slabs.mapping(slab).set(ValueLayout.JAVA_LONG, at, slab * SLAB_BYTES + at);
          }
        }
        taker.await();
      }
      for (int slab = 0; slab < SLABS; slab++) {
        for (long at = 0; at < SLAB_BYTES; at += SharedMemory.PAGE_BYTES) {
          assertEquals(slab * SLAB_BYTES + at, slabs.mapping(slab).get(ValueLayout.JAVA_LONG, at));
        }
      }
      assertEquals(1, slabs.mapping(SLABS - 1).get(ValueLayout.JAVA_BYTE, SLAB_BYTES - 1));
    }
    assertEquals(List.of(), failures);
  }

  @Test
  void close_atOnce_endsBeforeTheSlabsGo() throws IOException {
    List<Throwable> failures = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      try (SlabStore slabs = new SlabStore(SLABS, SLAB_BYTES);
          PageTaker taker = new PageTaker(slabs, failures::add);
          HugePages huge = new HugePages(slabs, taker)) {
        assertTrue(huge.bytes() <= SLABS * SLAB_BYTES);
      }
    }
    assertEquals(List.of(), failures);
  }

  @Test
  void slabThatCantBeHad_isToldOnce() throws IOException, InterruptedException {
    List<Throwable> failures = new ArrayList<>();
    SlabStore slabs = new SlabStore(1, SLAB_BYTES);
    // Its memory is gone: the kernel refuses.
    slabs.close();
    try (PageTaker taker = new PageTaker(slabs, failures::add)) {
      taker.await();
    }
    assertEquals(1, failures.size());
    assertTrue(
        failures.getFirst().toString().contains("host.bytes is 8 MiB, of which slab 0 can't"),
        failures.getFirst().toString());
  }
}
