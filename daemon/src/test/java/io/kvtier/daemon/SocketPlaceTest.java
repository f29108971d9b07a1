package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.linux.UnixSocket;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SocketPlaceTest {
  @TempDir private Path folder;

  @Test
  void take_ofALeavingDaemon_isRefusedUntilItIsGone() throws IOException {
    Path path = folder.resolve("kvtier.sock");
    SocketPlace first = SocketPlace.take(path);
    UnixSocket listener = first.listen(0600);
    // The first daemon is on its way out: nobody answers any more, but it is not gone.
    listener.close();
    IOException refused = assertThrows(IOException.class, () -> SocketPlace.take(path));
    assertTrue(
        String.valueOf(refused.getMessage()).contains("another daemon"), refused::getMessage);
    first.close();
    try (SocketPlace second = SocketPlace.take(path);
        UnixSocket again = second.listen(0600)) {
      assertTrue(Files.exists(path));
      second.withdraw();
      assertFalse(Files.exists(path));
      assertTrue(again.descriptor().number() >= 0);
    }
  }

  @Test
  void take_otherProcessesSeeTheLock() throws IOException {
    Path path = folder.resolve("kvtier.sock");
    try (SocketPlace place = SocketPlace.take(path)) {
      Path lock = folder.resolve("kvtier.sock.lock");
      String inode = ":" + Files.getAttribute(lock, "unix:ino") + " ";
      String process = " " + ProcessHandle.current().pid() + " ";
      assertTrue(
          Files.readAllLines(Path.of("/proc/locks")).stream()
              .anyMatch(line -> line.contains(inode) && line.contains(process)),
          "a lock of this JVM alone");
      place.withdraw();
    }
  }

  @Test
  void take_ofAKilledDaemon_removesItsSocket() throws IOException {
    Path path = folder.resolve("kvtier.sock");
    UnixSocket.listen(path, 0600).close();
    assertTrue(Files.exists(path));
    try (SocketPlace place = SocketPlace.take(path);
        UnixSocket listener = place.listen(0600)) {
      UnixSocket.connect(path, 1000).close();
      assertTrue(listener.descriptor().number() >= 0);
    }
  }

  @Test
  void take_ofALivingDaemonWithoutALock_isRefused() throws IOException {
    Path path = folder.resolve("kvtier.sock");
    try (UnixSocket listener = UnixSocket.listen(path, 0600)) {
      assertThrows(IOException.class, () -> SocketPlace.take(path));
      assertTrue(listener.descriptor().number() >= 0);
      assertTrue(Files.exists(path));
    }
  }

  @Test
  void take_ofAnotherFile_isRefusedAndLeavesIt() throws IOException {
    Path path = Files.writeString(folder.resolve("notes"), "mine");
    IOException refused = assertThrows(IOException.class, () -> SocketPlace.take(path));
    assertTrue(String.valueOf(refused.getMessage()).contains("no socket"), refused::getMessage);
    assertTrue(Files.exists(path));
    // A refusal leaves nothing locked.
    IOException again = assertThrows(IOException.class, () -> SocketPlace.take(path));
    assertTrue(String.valueOf(again.getMessage()).contains("no socket"), again::getMessage);
  }

  @Test
  void take_inAFolderThatIsNotThere_saysSo() {
    Path path = folder.resolve("nowhere").resolve("kvtier.sock");
    IOException refused = assertThrows(IOException.class, () -> SocketPlace.take(path));
    assertTrue(
        String.valueOf(refused.getMessage()).contains("folder that does not exist"),
        refused::getMessage);
  }

  @Test
  void take_lockCannotBeMade_saysWhyAndWhatToDo() throws IOException {
    Path path = folder.resolve("kvtier.sock");
    Files.createDirectory(folder.resolve("kvtier.sock.lock"));
    IOException refused = assertThrows(IOException.class, () -> SocketPlace.take(path));
    String words = String.valueOf(refused.getMessage());
    assertTrue(words.contains("Is a directory") && words.contains("choose a path"), words);
  }

  @Test
  void take_ofTooLongAPath_saysSoAndLeavesNoLock() throws IOException {
    Path path = folder.resolve("k".repeat(110));
    IOException refused = assertThrows(IOException.class, () -> SocketPlace.take(path));
    assertTrue(
        String.valueOf(refused.getMessage()).contains("Linux allows at most 107"),
        refused::getMessage);
    try (Stream<Path> left = Files.list(folder)) {
      assertEquals(List.of(), left.toList());
    }
  }
}
