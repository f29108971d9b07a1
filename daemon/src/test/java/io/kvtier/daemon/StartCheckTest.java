package io.kvtier.daemon;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.config.LoadedConfig;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is found before a start. */
final class StartCheckTest {
  @TempDir private Path folder;

  @Test
  void require_hostWithoutAddress_isToldWithFileAndLine() throws IOException, ConfigException {
    Path file =
        Files.writeString(folder.resolve("k.yaml"), "http:\n  host: no-such-host.invalid\n");
    LoadedConfig loaded = new ConfigSource(file, Map.of(), List.of("ssd.bytes=0")).load();
    String problem =
        String.valueOf(
            assertThrows(ConfigException.class, () -> StartCheck.require(loaded, true))
                .getMessage());
    assertTrue(
        problem.contains(
            file + ", line 2: http.host is 'no-such-host.invalid', for which no address is known"),
        problem);
  }

  @Test
  void load_mistakesOfAllKinds_areToldAtOnce() throws IOException {
    Path file =
        Files.writeString(
            folder.resolve("k.yaml"),
            "http:\n  port: 99999\n  host: no-such-host.invalid\ngrpc:\n  host: neither.invalid\n");
    ConfigSource source = new ConfigSource(file, Map.of(), List.of("ssd.bytes=0"));
    String problems =
        String.valueOf(
            assertThrows(ConfigException.class, () -> StartCheck.load(source, true)).getMessage());
    assertTrue(problems.startsWith("3 mistakes"), problems);
    for (String part : List.of("line 2: http.port", "line 3: http.host", "line 5: grpc.host")) {
      assertTrue(problems.contains(part), problems);
    }
  }

  @Test
  void load_mistakenValue_isNotHeldAgainstTheMachine() {
    ConfigSource source =
        new ConfigSource(
            null, Map.of(), List.of("host.bytes=1024TiB", "ssd.bytes=x", "ssd.file_bytes=0"));
    String problems =
        String.valueOf(
            assertThrows(ConfigException.class, () -> StartCheck.load(source, true)).getMessage());
    assertTrue(problems.startsWith("2 mistakes"), problems);
    assertFalse(problems.contains("host.bytes"), problems);
  }

  @Test
  void require_noHost_isRefusedOfAListenerThatListens() throws ConfigException {
    for (boolean isHere : List.of(true, false)) {
      LoadedConfig enabled =
          new ConfigSource(null, Map.of(), List.of("ssd.bytes=0", "grpc.host=")).load();
      String problem =
          String.valueOf(
              assertThrows(ConfigException.class, () -> StartCheck.require(enabled, isHere))
                  .getMessage());
      assertTrue(problem.contains("--set: grpc.host is '', expected a name"), problem);
      StartCheck.require(
          new ConfigSource(
                  null, Map.of(), List.of("ssd.bytes=0", "grpc.host=", "grpc.enabled=false"))
              .load(),
          isHere);
    }
  }

  @Test
  void listeners_areWhatTheHostsStandFor() throws IOException, ConfigException {
    KvtierdConfig config =
        new ConfigSource(null, Map.of(), List.of("grpc.host=127.8.8.8", "http.enabled=false"))
            .load()
            .config();
    StartCheck.Listeners listeners = StartCheck.listeners(config);
    assertEquals(InetAddress.ofLiteral("127.8.8.8"), requireNonNull(listeners.grpc()).address());
    assertNull(listeners.http());
  }
}
