package io.kvtier.protocol.linux;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.kvtier.protocol.linux.UnixSocket.PeerCredentials;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class UnixSocketTest {
  /** Connects in other groups, and ends. */
  private static final String PEER =
      """
      import os, socket, sys
      os.setgroups([int(group) for group in sys.argv[2].split(",")])
      socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])
      """;

  @TempDir private Path folder;

  private static List<Integer> ownGroups() throws IOException {
    String line =
        Files.readAllLines(Path.of("/proc/self/status")).stream()
            .filter(one -> one.startsWith("Groups:"))
            .findFirst()
            .orElseThrow();
    return Arrays.stream(line.split("\\s+", -1))
        .skip(1)
        .filter(group -> !group.isEmpty())
        .map(Integer::parseUnsignedInt)
        .toList();
  }

  @Test
  void peerCredentials_ofThisProcess_haveItsNumberAndItsGroups() throws IOException {
    Path path = folder.resolve("s");
    try (UnixSocket listener = UnixSocket.listen(path, 0600);
        UnixSocket connected = UnixSocket.connect(path, 1000);
        UnixSocket accepted = requireNonNull(listener.accept())) {
      assertFalse(connected.awaitHangup(0));
      PeerCredentials peer = accepted.peerCredentials();
      assertEquals(ProcessHandle.current().pid(), peer.pid());
      assertEquals(ownGroups(), peer.groups());
    }
  }

  @Test
  void peerCredentials_ofAProcessThatHasGone_haveItsGroups() throws Exception {
    Path path = folder.resolve("s");
    try (UnixSocket listener = UnixSocket.listen(path, 0600)) {
      for (int count : new int[] {1, 1000}) {
        List<Integer> groups = IntStream.range(3001, 3001 + count).boxed().toList();
        String words = groups.stream().map(String::valueOf).collect(Collectors.joining(","));
        Process process =
            new ProcessBuilder("python3", "-c", PEER, path.toString(), words)
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), UTF_8);
        int ended = process.waitFor();
        assumeTrue(!said.contains("PermissionError"), "only root may choose its groups");
        assertEquals(0, ended, said);
        try (UnixSocket accepted = requireNonNull(listener.accept())) {
          assertEquals(groups, accepted.peerCredentials().groups());
        }
      }
    }
  }

  @Test
  void peek_ofAMessageWithADescriptor_saysSoAndTakesNeither() throws IOException {
    Path path = folder.resolve("s");
    try (UnixSocket listener = UnixSocket.listen(path, 0600);
        UnixSocket connected = UnixSocket.connect(path, 1000);
        UnixSocket accepted = requireNonNull(listener.accept());
        Descriptor passed = SharedMemory.create("passed", SharedMemory.PAGE_BYTES)) {
      accepted.takeDescriptors();
      assertNull(accepted.peek(100));
      connected.send(new byte[] {1, 2}, passed);
      connected.send(new byte[] {3});
      long open = openFiles();
      UnixSocket.Waiting first = requireNonNull(accepted.peek(100));
      assertTrue(first.hasDescriptors());
      assertArrayEquals(new byte[] {1, 2}, first.bytes());
      assertEquals(open, openFiles());
      accepted.drop();
      assertEquals(open, openFiles());
      UnixSocket.Waiting second = requireNonNull(accepted.peek(100));
      assertFalse(second.hasDescriptors());
      assertArrayEquals(new byte[] {3}, second.bytes());
    }
  }

  @Test
  void endHoldsDescriptors_onlyWhereSomeAreAmongWhatNobodyTook() throws IOException {
    Path path = folder.resolve("s");
    try (UnixSocket listener = UnixSocket.listen(path, 0600);
        Descriptor passed = SharedMemory.create("passed", SharedMemory.PAGE_BYTES)) {
      for (boolean passes : new boolean[] {false, true}) {
        try (UnixSocket connected = UnixSocket.connect(path, 1000);
            UnixSocket accepted = requireNonNull(listener.accept())) {
          accepted.takeDescriptors();
          connected.send(new byte[] {1});
          if (passes) {
            connected.send(new byte[] {2}, passed);
          }
          assertEquals(passes, accepted.endHoldsDescriptors());
        }
      }
    }
  }

  @Test
  void isUnread_untilThePeerHasRead_andMoreThanTheLimitIsNotSent() throws IOException {
    Path path = folder.resolve("s");
    try (UnixSocket listener = UnixSocket.listen(path, 0600);
        UnixSocket connected = UnixSocket.connect(path, 1000);
        UnixSocket accepted = requireNonNull(listener.accept())) {
      accepted.limitUnread(4096);
      int sent = 0;
      ErrnoException full = null;
      while (full == null && sent < 1000) {
        try {
          accepted.send(new byte[16]);
          sent++;
        } catch (ErrnoException e) {
          full = e;
        }
      }
      assertEquals(Errno.EAGAIN, requireNonNull(full).errno());
      assertTrue(sent >= 2 && sent <= 16, "sent " + sent);
      for (int i = 0; i < sent; i++) {
        assertTrue(accepted.isUnread());
        assertEquals(16, requireNonNull(connected.receive(100)).bytes().length);
      }
      assertFalse(accepted.isUnread());
    }
  }

  @Test
  void peerProcess_ofAChildThatEnds_isReadableThen() throws Exception {
    Path path = folder.resolve("s");
    Process process;
    try (UnixSocket listener = UnixSocket.listen(path, 0600);
        Epoll epoll = Epoll.create()) {
      process =
          new ProcessBuilder(
                  "python3",
                  "-c",
                  "import socket,sys; s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET);"
                      + " s.connect(sys.argv[1]); print('here', flush=True); sys.stdin.read()",
                  path.toString())
              .start();
      assertEquals("here", process.inputReader().readLine());
      try (UnixSocket accepted = requireNonNull(listener.accept());
          Descriptor peer = requireNonNull(accepted.peerProcess(accepted.peerCredentials()))) {
        epoll.add(peer, Epoll.IN, 7);
        assertEquals(0, epoll.await(0));
        process.destroyForcibly();
        assertEquals(1, epoll.await(30_000));
        assertEquals(7, epoll.tag(0));
      }
    }
  }

  @Test
  void isMemory_ofMemoryFilesOnly() throws IOException {
    try (Descriptor memory = SharedMemory.create("memory", SharedMemory.PAGE_BYTES);
        EventFd bell = EventFd.create();
        UnixSocket listener = UnixSocket.listen(folder.resolve("s"), 0600)) {
      assertTrue(DescriptorKind.isMemory(memory));
      assertFalse(DescriptorKind.isMemory(bell.descriptor()));
      assertFalse(DescriptorKind.isMemory(listener.descriptor()));
    }
  }

  private static long openFiles() throws IOException {
    try (var files = Files.list(Path.of("/proc/self/fd"))) {
      return files.count();
    }
  }
}
