package io.kvtier.client.internal.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.kvtier.client.KvtierClient;
import io.kvtier.client.KvtierException;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.Status;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What another user runs in the place of the daemon gets nothing to read. */
final class DaemonUserTest {
  private static final int OTHER = 4242;

  /** Says when it listens, and how many bytes each who connects sends. */
  private static final String LISTENER =
      """
      import os, socket, sys
      os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
      s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
      s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); s.listen()
      print("listens", flush=True)
      while True: print(len(s.accept()[0].recv(4096)), flush=True)
      """;

  /** Where a listener that another user started says what came. */
  private record Stranger(Process process, BufferedReader out) implements AutoCloseable {
    static Stranger at(Path socket) throws IOException {
      Process process =
          new ProcessBuilder("python3", "-c", LISTENER, socket.toString(), String.valueOf(OTHER))
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      Stranger stranger = new Stranger(process, process.inputReader());
      assertEquals("listens", stranger.out.readLine());
      return stranger;
    }

    int bytesRead() throws IOException {
      return Integer.parseInt(out.readLine());
    }

    @Override
    public void close() throws IOException {
      process.destroyForcibly();
      out.close();
    }
  }

  @TempDir private Path folder;

  @BeforeEach
  void onlyRootCanStartWhatOthersRun() throws IOException {
    assumeTrue(SocketPaths.uid() == 0);
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
  }

  private static KvtierClient.Builder client(Path socket) {
    return KvtierClient.builder()
        .socket(socket)
        .timeout(Duration.ofSeconds(10))
        .connectTimeout(Duration.ofMillis(200));
  }

  @Test
  void connect_anotherUserListens_isRefusedAndNothingIsSent() throws IOException {
    Path socket = folder.resolve("daemon.sock");
    try (Stranger stranger = Stranger.at(socket)) {
      try (KvtierClient client = client(socket).build()) {
        KvtierException refused = assertThrows(KvtierException.class, client::connect);
        assertEquals(Status.DENIED, refused.status());
        assertTrue(
            String.valueOf(refused.getMessage()).contains("set KVTIER_DAEMON_USER=" + OTHER),
            refused::getMessage);
      }
      assertEquals(0, stranger.bytesRead());
    }
  }

  @Test
  void connect_theUserIsExpected_saysHello() throws IOException {
    Path socket = folder.resolve("daemon.sock");
    try (Stranger stranger = Stranger.at(socket);
        KvtierClient client = client(socket).daemonUser("root," + OTHER).build()) {
      assertTrue(stranger.bytesRead() > 0);
      assertTrue(client.socket().equals(socket));
    }
  }

  @Test
  void connect_anotherUserIsExpected_isRefused() throws IOException {
    Path socket = folder.resolve("daemon.sock");
    try (Stranger stranger = Stranger.at(socket);
        KvtierClient client = client(socket).daemonUser("4243").build()) {
      KvtierException refused = assertThrows(KvtierException.class, client::connect);
      assertTrue(
          String.valueOf(refused.getMessage()).contains("expected user 0 or 4243"),
          refused::getMessage);
      assertTrue(stranger.process.isAlive());
    }
  }

  @Test
  void connect_serviceUserHasAFolderOfItsOwn_saysHello_alsoThroughALinkOfRoots() throws Exception {
    Path run = Files.createTempDirectory(Path.of("/run"), "kvtier-test-");
    try {
      Files.setPosixFilePermissions(run, PosixFilePermissions.fromString("rwxr-xr-x"));
      Path service = Files.createDirectory(run.resolve("service"));
      Files.setAttribute(service, "unix:uid", OTHER);
      Path link =
          Files.createSymbolicLink(
              run.resolve("link"), Path.of("../" + run.getFileName() + "/service"));
      try (Stranger stranger = Stranger.at(service.resolve("daemon.sock"));
          KvtierClient client = client(link.resolve("daemon.sock")).build()) {
        assertTrue(stranger.bytesRead() > 0);
        assertTrue(client.socket().startsWith(link));
      }
      // A link that anybody could have made says nothing about who was meant.
      Files.delete(service.resolve("daemon.sock"));
      Path planted = Files.createSymbolicLink(folder.resolve("planted"), service);
      try (Stranger stranger = Stranger.at(service.resolve("daemon.sock"));
          KvtierClient client = client(planted.resolve("daemon.sock")).build()) {
        assertThrows(KvtierException.class, client::connect);
        assertEquals(0, stranger.bytesRead());
      }
    } finally {
      assertTrue(
          new ProcessBuilder("rm", "-r", run.toString()).start().waitFor(30, TimeUnit.SECONDS));
    }
  }

  @Test
  void builder_unknownUser_isRefusedInWords() {
    IllegalArgumentException refused =
        assertThrows(
            IllegalArgumentException.class,
            () -> client(folder.resolve("s")).daemonUser("nobody-of-that-name").build());
    assertTrue(String.valueOf(refused.getMessage()).contains("does not know"), refused::getMessage);
  }
}
