package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.protocol.Status;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.LoggerFactory;

/** What a reload does, and what it leaves to a restart. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
final class ReloaderTest {
  @TempDir private Path folder;

  /** Notes what it is told to do. */
  private static class Notes implements Reloader.Live {
    private final List<String> told = Collections.synchronizedList(new ArrayList<>());

    @Override
    public CompletableFuture<OperatorAnswer> command(String command) {
      told.add(command);
      return CompletableFuture.completedFuture(
          command.endsWith(" fifo")
              ? new OperatorAnswer(Status.MISS, "there is no such tier")
              : new OperatorAnswer(Status.OK, "done"));
    }

    @Override
    public void changePeers(List<String> users, List<String> groups) throws IOException {
      told.add("users " + users);
    }

    @Override
    public void changeBandwidth(long loadBytesPerSecond, long storeBytesPerSecond) {
      told.add("bandwidth " + loadBytesPerSecond + " " + storeBytesPerSecond);
    }
  }

  private static JsonObject reload(Reloader reloader) {
    assertEquals(Status.OK, reloader.run(List.of("reload")).status());
    JsonObject status = new JsonObject(reloader.run(List.of("reload", "status")).text());
    while (status.getBoolean("running")) {
      Thread.onSpinWait();
      status = new JsonObject(reloader.run(List.of("reload", "status")).text());
    }
    return status;
  }

  private static List<Object> list(JsonObject status, String field) {
    return status.getJsonArray(field).stream().toList();
  }

  @Test
  void reload_changes_areAppliedOrLeftToARestart() throws IOException, ConfigException {
    Path file = folder.resolve("k.yaml");
    Files.writeString(file, "host:\n  policy: lru\n");
    ConfigSource source = new ConfigSource(file, Map.of(), List.of("grpc.port=7076"));
    Notes notes = new Notes();
    try (Reloader reloader = new Reloader(source, source.load(), notes)) {
      assertEquals(List.of(), list(reload(reloader), "applied"));

      Files.writeString(
          file,
          """
          host:
            policy: sieve
            bytes: 128MiB
          ssd:
            scrub_bytes_per_second: 1MiB
          socket:
            users: [daemon]
          object:
            load_bytes_per_second: 2MiB
          """);
      JsonObject changed = reload(reloader);
      assertEquals(
          List.of(
              "socket.users: [] -> [daemon]",
              "host.policy: lru -> sieve",
              "ssd.scrub_bytes_per_second: 8MiB -> 1MiB",
              "object.load_bytes_per_second: 0 -> 2MiB"),
          list(changed, "applied"));
      assertEquals(List.of("host.bytes: 1GiB -> 128MiB"), list(changed, "restart"));
      assertEquals(
          List.of(
              "users [daemon]",
              "policy host sieve",
              "set ssd.scrub_bytes_per_second 1048576",
              "bandwidth 2097152 0"),
          notes.told);

      // What needs a restart is told again, what was applied is not done again.
      JsonObject again = reload(reloader);
      assertEquals(List.of(), list(again, "applied"));
      assertEquals(List.of("host.bytes: 1GiB -> 128MiB"), list(again, "restart"));
      assertTrue(
          reloader.run(List.of("config", "show")).text().contains("\"value\":\"sieve\""),
          "what is in force");
    }
  }

  @Test
  void reload_defectInApplying_isToldAndTheNextOneRuns() throws IOException, ConfigException {
    Path file = folder.resolve("k.yaml");
    Files.writeString(file, "host:\n  policy: lru\n");
    ConfigSource source = new ConfigSource(file, Map.of(), List.of());
    Notes notes =
        new Notes() {
          @Override
          public void changePeers(List<String> users, List<String> groups) {
            throw new NumberFormatException("for input " + users);
          }
        };
    try (Reloader reloader = new Reloader(source, source.load(), notes)) {
      Files.writeString(file, "host:\n  policy: sieve\nsocket:\n  users: [daemon]\n");
      JsonObject first = reload(reloader);
      assertTrue(first.getString("problem").startsWith("socket.users: "), first::encode);
      assertEquals(List.of("host.policy: lru -> sieve"), list(first, "applied"));
      assertEquals(2, reload(reloader).getInteger("number"));
    }
  }

  @Test
  void reload_error_isToldAndLoggedAndTheNextOneRuns() throws IOException, ConfigException {
    Path file = Files.writeString(folder.resolve("k.yaml"), "host:\n  policy: lru\n");
    ConfigSource source = new ConfigSource(file, Map.of(), List.of());
    Notes notes =
        new Notes() {
          @Override
          public CompletableFuture<OperatorAnswer> command(String command) {
            throw new AssertionError("no such command");
          }
        };
    ListAppender<ILoggingEvent> lines = new ListAppender<>();
    Logger log = (Logger) LoggerFactory.getLogger(Reloader.class);
    lines.start();
    log.addAppender(lines);
    try (Reloader reloader = new Reloader(source, source.load(), notes)) {
      Files.writeString(file, "host:\n  policy: sieve\n");
      JsonObject status = reload(reloader);
      assertTrue(status.getString("problem").contains("no such command"), status::encode);
      assertEquals(2, reload(reloader).getInteger("number"));
    } finally {
      log.detachAppender(lines);
    }
    assertTrue(
        lines.list.stream()
            .anyMatch(line ->
                line.getLevel() == Level.ERROR
                    && line.getThrowableProxy() != null
                    && "no such command".equals(line.getThrowableProxy().getMessage())),
        lines.list::toString);
  }

  @Test
  void begin_whileTheDaemonStops_isRefusedAndNothingRuns() throws IOException, ConfigException {
    ConfigSource source = new ConfigSource(null, Map.of(), List.of());
    Reloader reloader = new Reloader(source, source.load(), new Notes());
    reloader.close();
    reloader.beginOrRepeat();
    assertEquals(Status.UNAVAILABLE, reloader.run(List.of("reload")).status());
    JsonObject status = new JsonObject(reloader.run(List.of("reload", "status")).text());
    assertEquals(false, status.getBoolean("running"), status::encode);
  }

  /** As where the resolver is down: the listener was found when the daemon was started. */
  @Test
  void reload_listenersNameUnknownByNow_mattersOnlyToListeners()
      throws IOException, ConfigException {
    Path file = Files.writeString(folder.resolve("k.yaml"), "host: {policy: lru}\n");
    ConfigSource source =
        new ConfigSource(file, Map.of(), List.of("grpc.host=no-such-host.invalid"));
    Notes notes = new Notes();
    try (Reloader reloader = new Reloader(source, source.load(), notes)) {
      Files.writeString(file, "host: {policy: sieve}\n");
      JsonObject status = reload(reloader);
      assertEquals("", status.getString("problem"));
      assertEquals(List.of("host.policy: lru -> sieve"), list(status, "applied"));

      for (String other : List.of("grpc: {port: 7076}", "access: {without_token: read}")) {
        Files.writeString(file, "host: {policy: s3fifo}\n" + other + "\n");
        status = reload(reloader);
        assertTrue(status.getString("problem").contains("no-such-host.invalid"), status::encode);
      }
      assertEquals(List.of("policy host sieve"), notes.told);
    }
  }

  @Test
  void reload_policyOfATierThatThereIsNot_isTaken() throws IOException, ConfigException {
    Path file = Files.writeString(folder.resolve("k.yaml"), "ssd: {bytes: 0}\n");
    ConfigSource source = new ConfigSource(file, Map.of(), List.of());
    Notes notes = new Notes();
    try (Reloader reloader = new Reloader(source, source.load(), notes)) {
      Files.writeString(file, "ssd: {bytes: 0, policy: fifo}\n");
      JsonObject status = reload(reloader);
      assertEquals("", status.getString("problem"));
      assertEquals(List.of("ssd.policy: lineage/lru -> fifo"), list(status, "applied"));
      assertEquals(List.of(), notes.told);
      assertEquals(List.of(), list(reload(reloader), "applied"));
    }
  }

  @Test
  void reload_manyKeysThatNeedARestart_areAllInTheLog() throws IOException, ConfigException {
    Path file = Files.writeString(folder.resolve("k.yaml"), "host:\n  policy: lru\n");
    ConfigSource source = new ConfigSource(file, Map.of(), List.of());
    ListAppender<ILoggingEvent> lines = new ListAppender<>();
    Logger log = (Logger) LoggerFactory.getLogger(Reloader.class);
    lines.start();
    log.addAppender(lines);
    try (Reloader reloader = new Reloader(source, source.load(), new Notes())) {
      Files.writeString(
          file,
          """
          host: {bytes: 128MiB, free_target: 0.01}
          limits: {blocks: 1024, sessions: 9, operations: 9, holds: 99, lease: 1s, deadline: 1s}
          """);
      assertEquals(8, list(reload(reloader), "restart").size());
    } finally {
      log.detachAppender(lines);
    }
    List<String> warnings =
        lines.list.stream()
            .filter(line -> line.getLevel() == Level.WARN)
            .map(ILoggingEvent::getFormattedMessage)
            .toList();
    // Of one cause the log writes five.
    assertEquals(1, warnings.size(), warnings::toString);
    assertTrue(warnings.getFirst().contains("limits.deadline: "), warnings::toString);
  }

  @Test
  void beginOrRepeat_whileItIsRead_isReadOnceMore()
      throws IOException, ConfigException, InterruptedException {
    Path file = Files.writeString(folder.resolve("k.yaml"), "host:\n  policy: lru\n");
    ConfigSource source = new ConfigSource(file, Map.of(), List.of());
    CountDownLatch begun = new CountDownLatch(1);
    CompletableFuture<OperatorAnswer> answer = new CompletableFuture<>();
    List<String> told = Collections.synchronizedList(new ArrayList<>());
    Reloader.Live slow =
        new Notes() {
          @Override
          public CompletableFuture<OperatorAnswer> command(String command) {
            told.add(command);
            begun.countDown();
            return answer;
          }
        };
    try (Reloader reloader = new Reloader(source, source.load(), slow)) {
      Files.writeString(file, "host:\n  policy: sieve\n");
      reloader.beginOrRepeat();
      begun.await();
      Files.writeString(file, "host:\n  policy: s3fifo\n");
      reloader.beginOrRepeat();
      reloader.beginOrRepeat();
      answer.complete(new OperatorAnswer(Status.OK, "done"));
      JsonObject status = new JsonObject(reloader.run(List.of("reload", "status")).text());
      while (status.getBoolean("running") || status.getLong("number") < 2) {
        Thread.onSpinWait();
        status = new JsonObject(reloader.run(List.of("reload", "status")).text());
      }
      assertEquals(2, status.getLong("number"));
      assertEquals(List.of("policy host sieve", "policy host s3fifo"), told);
    }
  }

  @Test
  void reload_mistake_changesNothing() throws IOException, ConfigException {
    Path file = folder.resolve("k.yaml");
    Files.writeString(file, "host:\n  policy: lru\n");
    ConfigSource source = new ConfigSource(file, Map.of(), List.of());
    Notes notes = new Notes();
    try (Reloader reloader = new Reloader(source, source.load(), notes)) {
      Files.writeString(file, "host:\n  policy: sieve\n  byts: 1GiB\n");
      JsonObject status = reload(reloader);
      assertTrue(status.getString("problem").contains(file + ", line 3"), status::encode);
      assertEquals(List.of(), notes.told);

      // Right by itself, and nothing that could be started here.
      Files.writeString(file, "host:\n  policy: sieve\nsocket:\n  users: [nosuch-user]\n");
      status = reload(reloader);
      assertTrue(status.getString("problem").contains("nosuch-user"), status::encode);
      assertEquals(List.of(), notes.told);

      Files.writeString(file, "host:\n  policy: fifo\n");
      JsonObject refused = reload(reloader);
      assertEquals("host.policy: there is no such tier", refused.getString("problem"));
      assertEquals(List.of(), list(refused, "applied"));
      assertThrows(
          IllegalArgumentException.class, () -> reloader.run(List.of("reload", "nonsense")));
    }
  }
}
