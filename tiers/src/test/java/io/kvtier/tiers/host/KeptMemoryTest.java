package io.kvtier.tiers.host;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import java.util.stream.Collectors;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
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

  @Test
  void watch_keeperIsKilled_anotherKeepsTheMemoryAndIsNoted() throws Exception {
    try (Descriptor memory = SharedMemory.create("kvtier-slab-test", SharedMemory.PAGE_BYTES);
        KeptMemory kept = new KeptMemory(folder, 1)) {
      kept.keep(List.of(memory), null);
      long first = kept.keeperProcess();
      BlockingQueue<Long> restarted = new LinkedBlockingQueue<>();
      kept.watch(told(restarted::add));
      kill(first);
      Long second = restarted.poll(30, TimeUnit.SECONDS);
      assertNotNull(second);
      assertNotEquals(first, second);
      kept.endWatch();
      assertEquals(second, kept.keeperProcess());
      assertEquals(second, kept.notedProcess());
      SharedMemory.openOf(second, memory.number(), "kvtier-slab-test", SharedMemory.PAGE_BYTES)
          .close();
    }
  }

  @Test
  void endWatch_keeperWasKilledJustNow_anotherKeepsTheMemory() throws Exception {
    try (Descriptor memory = SharedMemory.create("kvtier-slab-test", SharedMemory.PAGE_BYTES);
        KeptMemory kept = new KeptMemory(folder, 1)) {
      kept.keep(List.of(memory), null);
      long first = kept.keeperProcess();
      kept.watch(told(process -> {}));
      kill(first);
      kept.endWatch();
      assertNotEquals(first, kept.keeperProcess());
      assertNotEquals(0, kept.keeperProcess());
      assertEquals("", kept.failure());
    }
  }

  @Test
  void endWatch_noOtherCanBeStarted_saysWhyAndNamesNone() throws Exception {
    try (Descriptor memory = SharedMemory.create("kvtier-slab-test", SharedMemory.PAGE_BYTES);
        KeptMemory kept = new KeptMemory(folder, 1)) {
      kept.keep(List.of(memory), null);
      kept.watch(told(process -> {}));
      Files.createDirectory(folder.resolve("memory.new"));
      kill(kept.keeperProcess());
      kept.endWatch();
      assertEquals(0, kept.keeperProcess());
      assertTrue(kept.failure().contains("memory.new"), kept::failure);
    }
  }

  private static KeptMemory.Watch told(LongConsumer restarted) {
    return new KeptMemory.Watch() {
      @Override
      public void restarted(long keeperProcess) {
        restarted.accept(keeperProcess);
      }

      @Override
      public void isKept(boolean isKept) {
        // Told of by who keeps it.
      }
    };
  }

  /** Returns when the kernel has taken its descriptors. */
  private static void kill(long process) throws Exception {
    Path descriptors = Path.of("/proc/" + process + "/fd/0");
    assertTrue(ProcessHandle.of(process).orElseThrow().destroyForcibly());
    for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        Files.exists(descriptors, LinkOption.NOFOLLOW_LINKS); ) {
      assertTrue(System.nanoTime() - end < 0, "still alive");
      Thread.sleep(1);
    }
  }
}
