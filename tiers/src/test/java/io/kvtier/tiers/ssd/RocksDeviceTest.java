package io.kvtier.tiers.ssd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.files.FolderTree;
import io.kvtier.tiers.testing.FileDamage;
import io.kvtier.tiers.testing.SmallFileSystem;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Timeout(value = 120, unit = TimeUnit.SECONDS)
final class RocksDeviceTest extends SlotDeviceContract {
  private static final int MIB = 1 << 20;

  /** Of the tests with slots of a MiB. */
  private static final int LARGE = PAGE + MIB;

  @Override
  String kind() {
    return "rocks";
  }

  @Test
  void open_moreThanTheDiskHas_isRefused() {
    IOException error =
        assertThrows(IOException.class, () -> new RocksDevice(directory, 2, 16 * PAGE, 1L << 50));
    assertTrue(String.valueOf(error.getMessage()).contains("of disk space are available"));
  }

  @Test
  void open_whereTheOtherDeviceWas_removesItsFiles() throws IOException {
    new FileDevice(directory, 2, 16 * PAGE).close();
    open().close();
    assertFalse(Files.exists(directory.resolve("slots-0000.dat")));
    assertTrue(Files.exists(directory.resolve("blocks")));
    new FileDevice(directory, 2, 16 * PAGE).close();
    assertFalse(Files.exists(directory.resolve("blocks")));
  }

  /**
   * Slots that are full are overwritten with five times the cap: what is overwritten is collected,
   * no write fails, and the cap holds at every moment.
   */
  @Test
  void write_sameSlotsOverAndOver_staysUnderTheCap() throws Exception {
    long cap = 32 * MIB;
    int slots = 4;
    try (RocksDevice device = new RocksDevice(directory, 4, (long) slots * LARGE, cap);
        Arena arena = Arena.ofShared();
        ExecutorService threads = Executors.newFixedThreadPool(2)) {
      AtomicBoolean running = new AtomicBoolean(true);
      AtomicLong most = new AtomicLong();
      Callable<Void> watch =
          () -> {
            while (running.get()) {
              most.accumulateAndGet(device.diskBytes(), Math::max);
              Thread.sleep(1);
            }
            return null;
          };
      Future<Void> watching = threads.submit(watch);
      SplittableRandom random = new SplittableRandom(1);
      long[] written = new long[4 * slots];
      for (int step = 1; step <= 5 * 32; step++) {
        // Some slots are written again and again, others hardly ever.
        int slot = Math.min(random.nextInt(written.length), random.nextInt(written.length));
        slot = step <= written.length ? step - 1 : slot;
        writeLarge(device, arena, slot / slots, slot % slots, step);
        written[slot] = step;
      }
      running.set(false);
      Void _ = watching.get();
      assertTrue(most.get() <= cap, most + " bytes of disk");
      for (int slot = 0; slot < written.length; slot++) {
        assertEquals(written[slot], readLarge(device, arena, slot / slots, slot % slots));
      }
    }
    try (RocksDevice device = new RocksDevice(directory, 4, (long) slots * LARGE, cap)) {
      assertTrue(device.diskBytes() <= cap);
    }
  }

  /**
   * Whatever file is damaged, and however: the device opens, lies nowhere, and takes it all anew.
   */
  @ParameterizedTest
  @CsvSource({
    "CURRENT,32",
    "MANIFEST,0",
    ".log,8",
    ".sst,0",
    ".blob,16",
    "OPTIONS,32",
  })
  void open_damagedFile_keepsWhatCanBeReadAndWorks(String kind, int keptAtLeast)
      throws IOException {
    int slots = 32;
    Path sound = directory.resolve("sound");
    try (Arena arena = Arena.ofConfined()) {
      try (RocksDevice device = new RocksDevice(sound, 4, 8L * LARGE, 96L * MIB)) {
        for (int slot = 0; slot < slots; slot++) {
          writeLarge(device, arena, slot / 8, slot % 8, slot + 1);
        }
      }
      List<Path> files;
      try (Stream<Path> all = Files.list(sound.resolve("blocks"))) {
        files = all.filter(file -> file.getFileName().toString().contains(kind)).limit(2).toList();
      }
      assertFalse(files.isEmpty(), "there is no such file");
      int damages = 0;
      for (Path file : files) {
        for (String how : List.of("cut", "flip", "delete")) {
          Path damaged = directory.resolve("damaged-" + damages++);
          copy(sound, damaged);
          FileDamage.damage(how, damaged.resolve("blocks").resolve(file.getFileName()));
          String what = how + " of " + file.getFileName();
          try (RocksDevice device = new RocksDevice(damaged, 4, 8L * LARGE, 96L * MIB)) {
            int kept = 0;
            for (int slot = 0; slot < slots; slot++) {
              long found = readLarge(device, arena, slot / 8, slot % 8);
              assertTrue(found == 0 || found == slot + 1, what + ": " + found + " in " + slot);
              long place = Transfer.place(slot / 8, (long) (slot % 8) * LARGE);
              // What is there without its length is not promised.
              kept += found != 0 && device.mayHold(place) ? 1 : 0;
            }
            assertTrue(kept >= keptAtLeast, what + " leaves " + kept + " of " + slots);
            // Written over and over, so that all is flushed and collected.
            for (int round = 1; round <= 3; round++) {
              for (int slot = 0; slot < slots; slot++) {
                writeLarge(device, arena, slot / 8, slot % 8, 100L * round + slot);
              }
            }
            for (int slot = 0; slot < slots; slot++) {
              assertEquals(300 + slot, readLarge(device, arena, slot / 8, slot % 8), what);
            }
          }
          FolderTree.remove(damaged);
        }
      }
    }
  }

  private static void copy(Path from, Path to) throws IOException {
    try (Stream<Path> all = Files.walk(from)) {
      for (Path one : all.toList()) {
        Path target = to.resolve(from.relativize(one).toString());
        if (Files.isDirectory(one)) {
          Files.createDirectories(target);
        } else {
          Files.copy(one, target);
        }
      }
    }
  }

  @Test
  void write_capReached_failsInWordsAndKeepsWhatIsThere() throws IOException {
    long cap = 32 * MIB;
    try (RocksDevice device = new RocksDevice(directory, 16, 8L * LARGE, cap);
        Arena arena = Arena.ofConfined()) {
      int[] slots = {0};
      IOException error =
          assertThrows(
              IOException.class,
              () -> {
                for (; slots[0] < 100; slots[0]++) {
                  writeLarge(device, arena, slots[0] / 8, slots[0] % 8, slots[0] + 1);
                }
              });
      String message = String.valueOf(error.getMessage());
      assertTrue(message.contains("has reached its cap of " + cap + " bytes"), message);
      assertTrue(message.contains(directory.toString()), message);
      assertTrue(slots[0] >= 12, slots[0] + " slots were written");
      assertTrue(device.diskBytes() <= cap);
      // What makes no more of it is refused no more than before; nor is what was there touched.
      assertThrows(IOException.class, () -> writeLarge(device, arena, 15, 7, 1));
      for (int slot = 0; slot < slots[0]; slot++) {
        assertEquals(slot + 1, readLarge(device, arena, slot / 8, slot % 8));
      }
      // Cut into smaller slots, a region has room again.
      write(device, 0, 1, 7);
      assertEquals(7, read(device, 0, 1));
    }
  }

  @Test
  void write_diskIsFull_isAnErrorUntilThereIsSpaceAgain() throws Exception {
    try (SmallFileSystem disk = SmallFileSystem.mount(directory, 96 * MIB);
        RocksDevice device = new RocksDevice(disk.path().resolve("d"), 4, 8L * LARGE, 64 * MIB);
        Arena arena = Arena.ofConfined()) {
      writeLarge(device, arena, 0, 0, 1);
      disk.fill();
      assertThrows(
          IOException.class,
          () -> {
            for (int step = 0; step < 64; step++) {
              writeLarge(device, arena, 1, 1, step);
            }
          });
      assertEquals(1, readLarge(device, arena, 0, 0));
      disk.free();
      for (int step = 0; step < 32; step++) {
        writeLarge(device, arena, step / 8, step % 8, step + 100);
      }
      for (int step = 0; step < 32; step++) {
        assertEquals(step + 100, readLarge(device, arena, step / 8, step % 8));
      }
    }
  }

  @Test
  void write_overlapsWhatWasThere_removesIt() throws IOException {
    try (RocksDevice device = new RocksDevice(directory, 2, 64 * STRIDE, 64 * MIB)) {
      write(device, 0, 2, 7);
      write(device, 0, 3, 8);
      write(device, 0, 4, 9);
      write(device, 1, 3, 10);
      try (Arena arena = Arena.ofConfined()) {
        // From the middle of one to the middle of the next but one.
        device.write(
            0, 2L * STRIDE + PAGE, arena.allocate(PAGE), arena.allocate(2 * STRIDE - PAGE));
      }
      for (int slot = 2; slot <= 4; slot++) {
        assertEquals(0, read(device, 0, slot));
      }
      assertEquals(10, read(device, 1, 3));
    }
  }

  @Test
  void read_lessWasWritten_hasThat() throws IOException {
    try (SlotDevice device = open();
        Arena arena = Arena.ofConfined()) {
      write(device, 0, 3, 7);
      MemorySegment header = arena.allocate(PAGE).fill((byte) 1);
      MemorySegment body = arena.allocate(PAGE).fill((byte) 2);
      device.write(0, 3L * STRIDE, header, body);
      MemorySegment readHeader = arena.allocate(PAGE);
      MemorySegment readBody = arena.allocate(BODY_BYTES);
      device.read(0, 3L * STRIDE, readHeader, readBody);
      assertEquals(-1, header.mismatch(readHeader));
      assertEquals(-1, body.mismatch(readBody.asSlice(0, PAGE)));
    }
  }

  @Test
  void open_fewerOrSmallerRegions_dropsWhatHasNoPlace() throws IOException {
    try (SlotDevice device = open()) {
      write(device, 0, 1, 6);
      write(device, 0, 3, 7);
      write(device, 1, 3, 8);
    }
    new RocksDevice(directory, 1, 2L * STRIDE, 64 * MIB).close();
    try (SlotDevice device = open()) {
      assertEquals(6, read(device, 0, 1));
      assertEquals(0, read(device, 0, 3));
      assertEquals(0, read(device, 1, 3));
    }
  }

  @Test
  void write_outsideOfItsRegion_isRefused() throws IOException {
    try (SlotDevice device = open()) {
      IOException error = assertThrows(IOException.class, () -> write(device, 0, SLOTS, 1));
      assertEquals(
          "4 pages at page 32 of region 0; there are 2 regions of 32 pages,"
              + " and rows of at most 65535",
          error.getMessage());
      assertThrows(IOException.class, () -> read(device, REGIONS, 0));
    }
  }

  private static void writeLarge(SlotDevice device, Arena arena, int region, int slot, long number)
      throws IOException {
    MemorySegment header = arena.allocate(PAGE);
    header.setAtIndex(ValueLayout.JAVA_LONG, 0, number);
    device.write(region, (long) slot * LARGE, header, arena.allocate(MIB));
  }

  private static long readLarge(SlotDevice device, Arena arena, int region, int slot)
      throws IOException {
    MemorySegment header = arena.allocate(PAGE);
    device.read(region, (long) slot * LARGE, header, arena.allocate(MIB));
    return header.getAtIndex(ValueLayout.JAVA_LONG, 0);
  }
}
