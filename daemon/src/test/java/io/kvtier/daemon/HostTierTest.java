package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.HostConfig;
import io.kvtier.daemon.config.KvtierdConfig.HostLedger;
import io.kvtier.daemon.index.Tenants;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Memory that is kept, and who may let it go. */
final class HostTierTest {
  private static final int SLAB_BYTES = 1 << 20;

  @TempDir private Path folder;

  private HostTier open(Path directory, long keepNs) throws IOException {
    return new HostTier(
        new HostConfig(
            SLAB_BYTES, SLAB_BYTES, false, "lru", 0.1, keepNs, directory, HostLedger.MAPPED),
        Tenants.of(List.of()).regions(List.of(), 1, 1),
        folder.resolve("kvtierd.sock"),
        64,
        0);
  }

  @Test
  void open_nothingIsToBeKept_directoryOfARunningDaemon_isRefused() throws IOException {
    Path directory =
        Files.createDirectory(
            folder.resolve("state"),
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    try (HostTier running = open(directory, 1_000_000_000)) {
      assertEquals(1, running.slabs().slabs());
      IOException refused = assertThrows(IOException.class, () -> open(directory, 0));
      assertTrue(String.valueOf(refused.getMessage()).contains("in use by another daemon"));
      assertTrue(Files.exists(directory.resolve("memory")), "the memory was let go");
      running.abandon();
    }
    open(directory, 0).close();
  }
}
