package io.kvtier.tiers.ssd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FileDeviceTest {
  private static final int PAGE = 4096;

  @TempDir Path directory;

  @Test
  void write_thenRead_sameBytes() throws IOException {
    try (FileDevice device = new FileDevice(directory, 2, 16 * PAGE);
        Arena arena = Arena.ofConfined()) {
      MemorySegment header = arena.allocate(PAGE, PAGE).fill((byte) 1);
      MemorySegment body = arena.allocate(3 * PAGE, PAGE).fill((byte) 2);
      device.write(1, 4 * PAGE, header, body);
      MemorySegment readHeader = arena.allocate(PAGE, PAGE);
      MemorySegment readBody = arena.allocate(3 * PAGE, PAGE);
      device.read(1, 4 * PAGE, readHeader, readBody);
      assertEquals(-1, header.mismatch(readHeader));
      assertEquals(-1, body.mismatch(readBody));
    }
  }

  @Test
  void open_directoryInUse_isRefusedUntilClosed() throws IOException {
    FileDevice first = new FileDevice(directory, 1, 16 * PAGE);
    try {
      IOException error =
          assertThrows(IOException.class, () -> new FileDevice(directory, 1, 16 * PAGE));
      assertTrue(String.valueOf(error.getMessage()).contains("in use by another daemon"));
    } finally {
      first.close();
    }
    new FileDevice(directory, 1, 16 * PAGE).close();
  }

  @Test
  void open_moreThanTheDiskHas_isRefusedBeforeItTakesAny() throws IOException {
    IOException error =
        assertThrows(IOException.class, () -> new FileDevice(directory, 2, 1L << 50));
    assertTrue(String.valueOf(error.getMessage()).contains("of disk space are available"));
    assertEquals(List.of("lock"), files());
  }

  @Test
  void open_aFileFails_givesBackWhatItTook() throws IOException {
    Files.createDirectory(directory.resolve("slots-0001.dat"));
    assertThrows(IOException.class, () -> new FileDevice(directory, 3, 16 * PAGE));
    assertEquals(List.of("lock", "slots-0001.dat"), files());
  }

  @Test
  void open_smallerThanBefore_removesWhatIsOverTheLimit() throws IOException {
    new FileDevice(directory, 3, 16 * PAGE).close();
    Files.createFile(directory.resolve("slots-of-somebody-else.dat"));
    new FileDevice(directory, 1, 8 * PAGE).close();
    assertEquals(List.of("lock", "slots-0000.dat", "slots-of-somebody-else.dat"), files());
    assertEquals(8 * PAGE, Files.size(directory.resolve("slots-0000.dat")));
  }

  private List<String> files() throws IOException {
    try (Stream<Path> list = Files.list(directory)) {
      return list.map(file -> file.getFileName().toString()).sorted().toList();
    }
  }
}
