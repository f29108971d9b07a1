package io.kvtier.protocol.linux;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
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
}
