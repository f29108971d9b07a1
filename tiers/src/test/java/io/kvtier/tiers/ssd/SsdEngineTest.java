package io.kvtier.tiers.ssd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.linux.IoUring;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class SsdEngineTest {
  private static final IoUring.Availability REFUSED =
      new IoUring.Availability(false, "a filter forbids it");

  @TempDir private Path directory;

  @Test
  void auto_ringRefused_fallsBackAndSaysWhy() throws IOException {
    try (FileDevice device = new FileDevice(directory, 1, 1 << 20)) {
      SsdEngine.Started started = SsdEngine.AUTO.start(parts(device), () -> REFUSED);
      started.pipeline().close();
      assertEquals(SsdEngine.PREAD, started.engine());
      assertEquals("io_uring can't be used here: a filter forbids it", started.reason());
    }
  }

  @Test
  void auto_ringThatCanNotBeMade_fallsBackAndSaysWhy() throws IOException {
    FileDevice device = new FileDevice(directory, 1, 1 << 20);
    device.close();
    SsdEngine.Started started =
        SsdEngine.AUTO.start(parts(device), () -> new IoUring.Availability(true, ""));
    started.pipeline().close();
    assertEquals(SsdEngine.PREAD, started.engine());
    assertTrue(started.reason().startsWith("io_uring can't be used here: io_uring_"));
  }

  @Test
  void ioUring_ringRefused_isAnErrorThatSaysWhatToDo() throws IOException {
    try (FileDevice device = new FileDevice(directory, 1, 1 << 20)) {
      IOException error =
          assertThrows(
              IOException.class, () -> SsdEngine.IO_URING.start(parts(device), () -> REFUSED));
      assertEquals(
          "ssd.engine is io_uring, which can't be used here: a filter forbids it;"
              + " or set ssd.engine to auto or pread",
          error.getMessage());
    }
  }

  @Test
  void anyEngine_noFiles_startsAndStops() throws IOException {
    try (FileDevice device = new FileDevice(directory, 0, 1 << 20)) {
      SsdEngine.AUTO.start(parts(device)).pipeline().close();
      SsdEngine.PREAD.start(parts(device)).pipeline().close();
    }
  }

  @Test
  void of_name_isThatEngine() {
    for (SsdEngine engine : SsdEngine.values()) {
      assertEquals(engine, SsdEngine.of(engine.toString()));
    }
    IllegalArgumentException error =
        assertThrows(IllegalArgumentException.class, () -> SsdEngine.of("uring"));
    assertEquals(
        "'uring' is no SSD engine; expected auto, io_uring, pread or rocksdb", error.getMessage());
  }

  private static SsdEngine.Parts parts(FileDevice device) {
    return new SsdEngine.Parts(
        "test-ssd",
        device,
        BlockCodecs.none(),
        null,
        1,
        8,
        new SsdListeners(
            () -> {},
            TroubleLog.NONE,
            thrown -> {
              throw new AssertionError(thrown);
            }));
  }
}
