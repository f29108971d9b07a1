package io.kvtier.tiers.ssd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.testing.ChildJvm;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What every device does that tells the truth. */
abstract class SlotDeviceContract {
  static final int PAGE = 4096;
  static final int REGIONS = 2;
  static final int SLOTS = 8;
  static final int BODY_BYTES = 3 * PAGE;
  static final int STRIDE = PAGE + BODY_BYTES;

  @TempDir Path directory;

  /** The name by which {@link DeviceVictim} knows it. */
  abstract String kind();

  SlotDevice open() throws IOException {
    return DeviceVictim.open(kind(), directory);
  }

  @Test
  void write_thenRead_sameBytes() throws IOException {
    try (SlotDevice device = open()) {
      write(device, 1, 4, 7);
      assertEquals(7, read(device, 1, 4));
    }
  }

  @Test
  void read_neverWritten_isNoBlock() throws IOException {
    try (SlotDevice device = open()) {
      assertEquals(0, read(device, 0, 3));
    }
  }

  @Test
  void randomWrites_reopenedNowAndThen_readTheLatest() throws IOException {
    SplittableRandom random = new SplittableRandom(1);
    Map<Integer, Long> expected = new HashMap<>();
    SlotDevice device = open();
    try {
      for (int step = 1; step <= 300; step++) {
        int region = random.nextInt(REGIONS);
        int slot = random.nextInt(SLOTS);
        if (random.nextInt(3) == 0) {
          assertEquals(
              expected.getOrDefault(region * SLOTS + slot, 0L), read(device, region, slot));
        } else {
          write(device, region, slot, step);
          expected.put(region * SLOTS + slot, (long) step);
        }
        if (random.nextInt(60) == 0) {
          device.close();
          device = open();
        }
      }
    } finally {
      device.close();
    }
  }

  @Test
  void severalThreads_eachItsSlots_readWhatTheyWrote() throws Exception {
    try (SlotDevice device = open();
        ExecutorService threads = Executors.newFixedThreadPool(4)) {
      Future<?>[] done = new Future<?>[4];
      for (int i = 0; i < done.length; i++) {
        int first = 2 * i;
        Callable<Void> work =
            () -> {
              for (long step = 1; step <= 100; step++) {
                for (int slot = first; slot < first + 2; slot++) {
                  write(device, (int) (step % REGIONS), slot, step * SLOTS + slot);
                  assertEquals(step * SLOTS + slot, read(device, (int) (step % REGIONS), slot));
                }
              }
              return null;
            };
        done[i] = threads.submit(work);
      }
      for (Future<?> one : done) {
        one.get();
      }
    }
  }

  @Test
  void open_directoryInUse_isRefusedUntilClosed() throws IOException {
    try (SlotDevice first = open()) {
      IOException error = assertThrows(IOException.class, this::open);
      assertTrue(String.valueOf(error.getMessage()).contains("in use by another daemon"));
      assertEquals(0, read(first, 0, 0));
    }
    open().close();
  }

  @Test
  void kill_inTheMiddleOfWrites_leavesWhatWasWritten() throws Exception {
    long next = 1;
    for (int run = 0; run < 3; run++) {
      long last =
          ChildJvm.killAfterLines(
              DeviceVictim.class,
              1 + new SplittableRandom().nextInt(200),
              kind(),
              directory.toString(),
              String.valueOf(next));
      try (SlotDevice device = open()) {
        for (long step = Math.max(next, last - SLOTS * REGIONS + 2); step <= last; step++) {
          assertEquals(step, read(device, regionOf(step), slotOf(step)));
        }
      }
      next = last + 2;
    }
  }

  static int regionOf(long step) {
    return (int) (step % REGIONS);
  }

  static int slotOf(long step) {
    return (int) (step / REGIONS % SLOTS);
  }

  /** A slot whose every word is one number. */
  static void write(SlotDevice device, int region, int slot, long number) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment header = arena.allocate(PAGE, PAGE);
      MemorySegment body = arena.allocate(BODY_BYTES, PAGE);
      for (long at = 0; at < STRIDE; at += Long.BYTES) {
        (at < PAGE ? header : body).set(ValueLayout.JAVA_LONG, at < PAGE ? at : at - PAGE, number);
      }
      device.write(region, (long) slot * STRIDE, header, body);
    }
  }

  /** The number of a slot's every word. */
  static long read(SlotDevice device, int region, int slot) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment header = arena.allocate(PAGE, PAGE).fill((byte) 0x55);
      MemorySegment body = arena.allocate(BODY_BYTES, PAGE).fill((byte) 0x55);
      device.read(region, (long) slot * STRIDE, header, body);
      long number = header.get(ValueLayout.JAVA_LONG, 0);
      for (long at = 0; at < STRIDE; at += Long.BYTES) {
        assertEquals(
            number,
            (at < PAGE ? header : body).get(ValueLayout.JAVA_LONG, at < PAGE ? at : at - PAGE));
      }
      return number;
    }
  }
}
