package io.kvtier.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class MachineMemoryTest {
  @TempDir private Path folder;
  private Path root;

  @BeforeEach
  void makeRoot() throws IOException {
    root = Files.createDirectory(folder.resolve("cgroup"));
  }

  private void write(String file, String text) throws IOException {
    Path path = root.resolve(file);
    Files.createDirectories(path.getParent());
    Files.writeString(path, text + '\n');
  }

  private long groupBytes(String groups) throws IOException {
    return MachineMemory.groupBytes(Files.writeString(folder.resolve("groups"), groups), root);
  }

  @Test
  void groupBytes_version2_isTheLeastOnTheWayUp() throws IOException {
    write("a/b/memory.max", "max");
    write("a/memory.max", "700");
    write("memory.max", "900");
    assertEquals(700, groupBytes("0::/a/b\n"));
  }

  @Test
  void groupBytes_version1_isOfTheMemoryController() throws IOException {
    write("memory/a/memory.limit_in_bytes", "700");
    write("memory/memory.limit_in_bytes", "9223372036854771712");
    write("cpu/a/memory.limit_in_bytes", "1");
    assertEquals(700, groupBytes("9:cpu:/a\n4:hugetlb,memory:/a\n0::/\n"));
    assertEquals(0, groupBytes("4:memory:/\n0::/\n"));
  }

  @Test
  void groupBytes_pathOfAnotherMount_isThatOfWhatIsMounted() throws IOException {
    write("memory/memory.limit_in_bytes", "700");
    assertEquals(700, groupBytes("4:memory:/docker/0123/a\n"));
  }

  @Test
  void groupBytes_noneOrNoLimit_isZero() throws IOException {
    assertEquals(0, groupBytes(""));
    write("memory.max", "max");
    assertEquals(0, groupBytes("0::/\n"));
    assertEquals(0, MachineMemory.groupBytes(folder.resolve("absent"), root));
  }
}
