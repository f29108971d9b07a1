package io.kvtier.tiers.host;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.io.TempDir;

/** Who keeps memory, and when nobody may. */
final class KeptMemoryTest {
  @TempDir private Path folder;

  private static Set<Long> keepers() {
    return ProcessHandle.current()
        .children()
        .filter(child -> {
          try {
            // One that has ended has none.
            String command = Files.readString(Path.of("/proc/" + child.pid() + "/cmdline"));
            return command.contains("kvtier-keeper") || command.startsWith("sleep");
          } catch (IOException e) {
            return false;
          }
        })
        .map(ProcessHandle::pid)
        .collect(Collectors.toSet());
  }

  @RepeatedTest(20)
  void keep_noteCannotBeWritten_nobodyKeepsTheMemory() throws IOException {
    Files.createDirectory(folder.resolve("memory.new"));
    // Other tests' keepers sleep for a while when those have ended.
    Set<Long> before = keepers();
    try (Descriptor memory = SharedMemory.create("kvtier-slab-test", SharedMemory.PAGE_BYTES);
        KeptMemory kept = new KeptMemory(folder, 60)) {
      assertThrows(IOException.class, () -> kept.keep(List.of(memory), null));
    }
    Set<Long> after = keepers();
    after.removeAll(before);
    assertEquals(Set.of(), after);
  }
}
