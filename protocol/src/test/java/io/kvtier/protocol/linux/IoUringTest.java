package io.kvtier.protocol.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(value = 30, unit = TimeUnit.SECONDS)
final class IoUringTest {
  private static final int PAGE = 4096;

  @TempDir private Path directory;

  private record Completion(long tag, int result) {}

  private final List<Completion> completions = new ArrayList<>();

  @BeforeEach
  void needsIoUring() {
    IoUring.Availability probe = IoUring.probe();
    assumeTrue(probe.isUsable(), probe.reason());
  }

  private void await(IoUring ring, int count) throws IOException {
    completions.clear();
    while (completions.size() < count) {
      ring.submit(1);
      int _ = ring.reap((tag, result) -> completions.add(new Completion(tag, result)));
    }
  }

  private static MemorySegment vector(Arena arena, MemorySegment... parts) {
    MemorySegment vector = arena.allocate(16L * parts.length, 8);
    for (int i = 0; i < parts.length; i++) {
      vector.set(ValueLayout.JAVA_LONG, 16L * i, parts[i].address());
      vector.set(ValueLayout.JAVA_LONG, 16L * i + 8, parts[i].byteSize());
    }
    return vector;
  }

  @Test
  void readVector_afterWriteVector_hasTheBytes() throws IOException {
    try (Arena arena = Arena.ofConfined();
        DirectFile file = DirectFile.open(directory.resolve("f"), 8 * PAGE);
        IoUring ring = IoUring.create(4)) {
      ring.registerFiles(List.of(file.descriptor()));
      ring.enable();
      MemorySegment head = arena.allocate(PAGE, PAGE).fill((byte) 1);
      MemorySegment body = arena.allocate(2 * PAGE, PAGE).fill((byte) 2);
      ring.writeVector(0, vector(arena, head, body), 2, PAGE, 77);
      await(ring, 1);
      assertEquals(List.of(new Completion(77, 3 * PAGE)), completions);
      MemorySegment all = arena.allocate(3 * PAGE, PAGE);
      ring.readVector(0, vector(arena, all), 1, PAGE, -5);
      await(ring, 1);
      assertEquals(List.of(new Completion(-5, 3 * PAGE)), completions);
      assertEquals(-1, all.asSlice(0, PAGE).mismatch(head));
      assertEquals(-1, all.asSlice(PAGE).mismatch(body));
    }
  }

  @Test
  void entries_moreThanTheRingHolds_goAroundIt() throws IOException {
    try (Arena arena = Arena.ofConfined();
        DirectFile file = DirectFile.open(directory.resolve("f"), 64 * PAGE);
        IoUring ring = IoUring.create(4)) {
      ring.registerFiles(List.of(file.descriptor()));
      ring.enable();
      MemorySegment page = vector(arena, arena.allocate(PAGE, PAGE));
      for (int round = 0; round < 50; round++) {
        for (int i = 0; i < ring.capacity(); i++) {
          ring.readVector(0, page, 1, (long) i * PAGE, round * 100L + i);
        }
        assertEquals(0, ring.room());
        assertThrows(IllegalStateException.class, () -> ring.readVector(0, page, 1, 0, 0));
        await(ring, ring.capacity());
        long first = round * 100L;
        assertTrue(completions.stream().allMatch(c -> c.tag() >= first && c.result() == PAGE));
        assertEquals(ring.capacity(), completions.stream().distinct().count());
      }
    }
  }

  @Test
  void submit_badEntryAmongGoodOnes_failsAlone() throws IOException {
    try (Arena arena = Arena.ofConfined();
        DirectFile file = DirectFile.open(directory.resolve("f"), 8 * PAGE);
        IoUring ring = IoUring.create(4)) {
      ring.registerFiles(List.of(file.descriptor()));
      ring.enable();
      MemorySegment page = vector(arena, arena.allocate(PAGE, PAGE));
      ring.readVector(0, page, 1, 0, 1);
      ring.readVector(9, page, 1, 0, 2);
      ring.readVector(0, page, 1, PAGE, 3);
      await(ring, 3);
      assertTrue(completions.contains(new Completion(1, PAGE)));
      assertTrue(completions.contains(new Completion(2, -Errno.EBADF)));
      assertTrue(completions.contains(new Completion(3, PAGE)));
    }
  }

  @Test
  void read_doorbell_waitsForItsRing() throws Exception {
    try (Arena arena = Arena.ofConfined();
        EventFd bell = EventFd.createForRing();
        IoUring ring = IoUring.create(4)) {
      ring.enable();
      MemorySegment word = arena.allocate(8, 8);
      for (int i = 0; i < 3; i++) {
        ring.read(bell.descriptor(), word, i);
        ring.submit(0);
        assertEquals(0, ring.reap((tag, result) -> {}), "silent");
        Thread ringer = Thread.ofPlatform().start(bell::ring);
        await(ring, 1);
        assertEquals(List.of(new Completion(i, 8)), completions);
        ringer.join();
      }
    }
  }

  @Test
  void registerFiles_closedFile_isRefusedByName() throws IOException {
    DirectFile file = DirectFile.open(directory.resolve("f"), PAGE);
    file.close();
    try (IoUring ring = IoUring.create(4)) {
      IOException error =
          assertThrows(IOException.class, () -> ring.registerFiles(List.of(file.descriptor())));
      assertTrue(String.valueOf(error.getMessage()).contains("EBADF"), error::getMessage);
    }
  }

  @Test
  void create_absurdSize_saysErrnoAndWhatToDo() {
    IOException error = assertThrows(IOException.class, () -> IoUring.create(1 << 30));
    assertTrue(
        String.valueOf(error.getMessage())
            .startsWith("io_uring_setup(1073741824 entries; these are too many entries"),
        error::getMessage);
  }
}
