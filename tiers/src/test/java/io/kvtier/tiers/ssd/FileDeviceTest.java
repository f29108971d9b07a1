package io.kvtier.tiers.ssd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
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
}
