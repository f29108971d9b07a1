package io.kvtier.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a command says where no daemon answers and the package is installed. */
final class InstalledServiceTest {
  @TempDir private Path folder;

  private InstalledService service() {
    return new InstalledService(
        List.of(folder.resolve("absent"), folder.resolve("kvtierd.service")),
        folder.resolve("kvtier.sock"));
  }

  @Test
  void cure_noUnit_isEmpty() {
    assertEquals(Optional.empty(), service().cure());
  }

  @Test
  void cure_unitWithoutASocket_saysHowToStartIt() throws IOException {
    Files.createFile(folder.resolve("kvtierd.service"));
    String cure = service().cure().orElseThrow();
    assertTrue(cure.contains("systemctl start kvtierd"), cure);
    assertTrue(cure.contains(folder.resolve("kvtier.sock").toString()), cure);
  }

  @Test
  void cure_unitWithItsSocket_saysHowToAskIt() throws IOException {
    Files.createFile(folder.resolve("kvtierd.service"));
    Files.createFile(folder.resolve("kvtier.sock"));
    String cure = service().cure().orElseThrow();
    assertTrue(cure.contains("--socket " + folder.resolve("kvtier.sock")), cure);
  }
}
