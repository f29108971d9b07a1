package io.kvtier.systemtests;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ConnectException;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Names in {@code grpc.host} and {@code http.host}: the address that was found harmless is the one
 * that is listened on.
 */
@Timeout(value = 180, unit = TimeUnit.SECONDS)
final class ListenerNameTest {
  @TempDir private Path folder;

  /** Who asked any resolver but the JDK's would find no such name, or another address. */
  @Test
  void start_nameThatTheJdkAloneKnows_listensOnItsAddress() throws IOException {
    Path hosts = Files.writeString(folder.resolve("hosts"), "127.8.8.8 listener.kvtier.test\n");
    try (TestDaemon _ =
        TestDaemon.start(
            folder,
            Map.of("JAVA_TOOL_OPTIONS", "-Djdk.net.hosts.file=" + hosts),
            List.of(),
            "host.bytes=16MiB",
            "host.slab_bytes=8MiB",
            "ssd.bytes=0",
            "grpc.enabled=true",
            "grpc.port=0",
            "grpc.host=listener.kvtier.test",
            "http.enabled=true",
            "http.port=0",
            "http.host=listener.kvtier.test")) {
      String log = Files.readString(folder.resolve("daemon.log"));
      for (String listener : List.of("gRPC", "HTTP")) {
        Matcher told = Pattern.compile(listener + " on listener.kvtier.test:(\\d+)").matcher(log);
        assertTrue(told.find(), log);
        int port = Integer.parseInt(told.group(1));
        connect("127.8.8.8", port);
        assertThrows(ConnectException.class, () -> connect("127.0.0.1", port), listener);
      }
    }
  }

  private static void connect(String address, int port) throws IOException {
    new Socket(address, port).close();
  }
}
