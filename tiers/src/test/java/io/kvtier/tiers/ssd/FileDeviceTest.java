package io.kvtier.tiers.ssd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

final class FileDeviceTest extends SlotDeviceContract {
  @Override
  String kind() {
    return "file";
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
  void open_oneMoreFileFails_keepsThoseOfAnEarlierStart() throws IOException {
    new FileDevice(directory, 2, 16 * PAGE).close();
    Files.createDirectory(directory.resolve("slots-0003.dat"));
    assertThrows(IOException.class, () -> new FileDevice(directory, 4, 16 * PAGE));
    assertEquals(List.of("lock", "slots-0000.dat", "slots-0001.dat", "slots-0003.dat"), files());
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
