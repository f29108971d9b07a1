package io.kvtier.systemtests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonObject;
import io.kvtier.cli.Kvtier;
import io.kvtier.client.BatchResult;
import io.kvtier.client.BlockTokens;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.protocol.Status;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.zip.GZIPInputStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

/** What an operator does with a running daemon. Each test has a namespace of its own. */
@Timeout(value = 180, unit = TimeUnit.SECONDS)
final class OperatorTest {
  private static final int BLOCK_BYTES = 4096;
  private static final String SECRET = "planted-secret-4711";
  private static final AtomicReference<TestDaemon> DAEMON = new AtomicReference<>();
  private static final AtomicReference<Path> FOLDER = new AtomicReference<>();

  private record Ran(int exitCode, String out, String err) {}

  @BeforeAll
  static void start(@TempDir Path folder) throws IOException {
    FOLDER.set(folder);
    Path kvtierd = folder.resolve("kvtierd");
    Files.writeString(
        kvtierd,
        "#!/bin/sh\nexec '"
            + Path.of(System.getProperty("java.home"), "bin", "java")
            + "' --enable-native-access=ALL-UNNAMED -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp '"
            + TestDaemon.classPath()
            + "' io.kvtier.daemon.Kvtierd \"$@\"\n");
    Files.setPosixFilePermissions(kvtierd, PosixFilePermissions.fromString("rwx------"));
    System.setProperty("kvtier.kvtierd", kvtierd.toString());
    writeConfig("policy: lru");
    DAEMON.set(
        TestDaemon.start(
            folder,
            Map.of("AWS_SECRET_ACCESS_KEY", SECRET, "KVTIERD_LIMITS_SESSIONS", "64"),
            List.of("--config", folder.resolve("k.yaml").toString()),
            "ssd.file_bytes=8MiB",
            "events.endpoint=tcp://127.0.0.1:*"));
  }

  @AfterAll
  static void stop() {
    System.clearProperty("kvtier.kvtierd");
    daemon().close();
  }

  private static void writeConfig(String policy) throws IOException {
    Files.writeString(
        folder().resolve("k.yaml"),
        """
        host:
          bytes: 32MiB
          slab_bytes: 8MiB
          POLICY
        ssd:
          bytes: 64MiB
        object:
          s3:
            proxy: http://joe:SECRET@proxy:3128
        """
            .replace("POLICY", policy)
            .replace("SECRET", SECRET));
  }

  private static TestDaemon daemon() {
    return Objects.requireNonNull(DAEMON.get());
  }

  private static Path folder() {
    return Objects.requireNonNull(FOLDER.get());
  }

  private static Ran run(String... arguments) {
    List<String> all = new ArrayList<>(List.of(arguments));
    all.addAll(List.of("--socket", daemon().socket().toString()));
    return runAlone(all.toArray(new String[0]));
  }

  private static Ran runAlone(String... arguments) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    int exitCode = Kvtier.run(new PrintWriter(out), new PrintWriter(err), arguments);
    return new Ran(exitCode, out.toString(), err.toString());
  }

  private static KvtierClient open() {
    return KvtierClient.builder().socket(daemon().socket()).name("operated").build();
  }

  private static Status putOne(KvtierClient client, String name, int number) {
    Namespace namespace = client.namespace(name, BLOCK_BYTES, Map.of("model", "m"));
    try (Arena arena = Arena.ofConfined()) {
      BatchResult put =
          client
              .blocking()
              .put(
                  namespace,
                  Patterns.keys(number, 1),
                  Patterns.filled(arena, number, 1, BLOCK_BYTES));
      return put.status() == Status.OK ? put.blocks().status(0) : put.status();
    }
  }

  private static String hex(int number) {
    Keys keys = Patterns.keys(number, 1);
    return HexFormat.of().formatHex(keys.get(0));
  }

  private static JsonObject inspect(String name, int number) {
    Ran ran = run("inspect", "--json", "--namespace", name, hex(number));
    assertEquals(0, ran.exitCode(), ran.toString());
    return Json.parse(ran.out()).asArray().get(0).asObject();
  }

  @Test
  void block_isInspectedPinnedAndDeleted() {
    try (KvtierClient client = open()) {
      assertEquals(Status.OK, putOne(client, "pinned", 1));
      assertEquals("resident", inspect("pinned", 1).getString("host", ""));
      assertEquals(1, run("inspect", "--namespace", "pinned", hex(2)).exitCode());
      assertEquals(1, run("unpin", "--namespace", "pinned", hex(1)).exitCode());
      assertEquals(0, run("pin", "--namespace", "pinned", hex(1)).exitCode());
      assertEquals(1, inspect("pinned", 1).getInt("operator_pins", 0));

      // What is pinned stays when all that can leave leaves.
      assertEquals(Status.OK, putOne(client, "pinned", 3));
      Ran evicted = run("evict", "--all", "--yes", "--wait", "20");
      assertEquals(1, evicted.exitCode(), evicted.toString());
      assertEquals("resident", inspect("pinned", 1).getString("host", ""));
      JsonObject gone = inspect("pinned", 3);
      assertEquals("no", gone.getString("host", ""), gone.toString());
      assertEquals("resident", gone.getString("ssd", ""), gone.toString());

      assertEquals(0, run("unpin", "--namespace", "pinned", hex(1)).exitCode());
      Ran unconfirmed = run("delete", "--namespace", "pinned", hex(1));
      assertEquals(2, unconfirmed.exitCode());
      assertTrue(unconfirmed.err().contains("add --yes"), unconfirmed.err());
      assertEquals(0, run("pin", "--namespace", "pinned", hex(1)).exitCode());
      assertEquals(0, run("delete", "--yes", "--namespace", "pinned", hex(1)).exitCode());
      assertEquals(1, run("inspect", "--namespace", "pinned", hex(1)).exitCode(), "deleted");
      Ran cleared = run("clear", "--yes", "--namespace", "pinned");
      assertTrue(cleared.out().contains("1 block deleted"), cleared.toString());
      assertEquals(1, run("clear", "--yes", "--namespace", "nobody's").exitCode());
    }
  }

  @Test
  void drain_refusesNewBlocksAndWritesTheOthersDown() {
    try (KvtierClient client = open()) {
      assertEquals(Status.OK, putOne(client, "drained", 1));
      Ran drained = run("drain", "--yes");
      try {
        assertEquals(0, drained.exitCode(), drained.toString());
        assertEquals("resident", inspect("drained", 1).getString("ssd", ""));
        assertTrue(run("doctor").out().contains("the daemon is drained"), "it may be forgotten");
        assertTrue(isDraining());
        JsonObject status = Json.parse(run("status", "--json").out()).asObject();
        assertTrue(status.get("degraded").asBoolean(), status.toString());
        assertTrue(status.get("troubles").toString().contains("puts/drain"), status.toString());
        assertTrue(run("status").out().contains("trouble     puts/drain: "), "in words, too");
        assertEquals(Status.NOT_ADMITTED, putOne(client, "drained", 2));
        assertEquals(Status.EXISTS, putOne(client, "drained", 1));
      } finally {
        assertEquals(0, run("drain", "--off").exitCode());
      }
      assertFalse(run("doctor").out().contains("the daemon is drained"));
      assertFalse(isDraining());
      assertEquals(Status.OK, putOne(client, "drained", 2));
      assertTrue(run("flush", "--namespace", "drained").out().contains("ok"), "flush");
      assertEquals(
          "ok", Json.parse(run("flush", "--json").out()).asObject().getString("detail", ""));
    }
  }

  private static boolean isDraining() {
    JsonObject status = Json.parse(run("status", "--json").out()).asObject();
    return status.get("draining").asBoolean();
  }

  @Test
  void sessionsNamespacesAndTop_tellWhatIsThere() {
    try (KvtierClient client = open()) {
      assertEquals(Status.OK, putOne(client, "listed", 1));
      assertTrue(run("sessions").out().contains("operated"));
      assertTrue(run("sessions", "--json").out().contains("\"name\":\"operated\""));
      Ran namespaces = run("namespaces");
      assertTrue(
          namespaces
              .out()
              .lines()
              .anyMatch(line -> line.matches("listed +[0-9a-f]{32} +4.0 KiB +1 .*")),
          namespaces.toString());
      assertTrue(run("policy", "show").out().contains("host"));
      assertEquals(2, run("policy", "set", "host").exitCode());
      Ran top = run("top", "--count", "1", "--every", "0.1");
      assertTrue(top.out().contains("of 32 MiB"), top.toString());
      assertTrue(top.out().contains("lookups "), top.toString());
      assertEquals(2, run("object", "nosuch").exitCode(), "no such task, with or without a tier");
      assertTrue(run("tiers", "--nonsense").err().lines().count() < 5, "the reason, not the usage");
    }
  }

  @Test
  void eventsTail_printsBatchesAsJson() throws Exception {
    try (ZContext context = new ZContext();
        MessageBufferPacker batch = MessagePack.newDefaultBufferPacker()) {
      batch.packArrayHeader(2).packDouble(1.5).packArrayHeader(1).packString("BlockStored");
      ZMQ.Socket publisher = context.createSocket(SocketType.XPUB);
      int port = publisher.bindToRandomPort("tcp://127.0.0.1");
      CompletableFuture<Ran> tail =
          CompletableFuture.supplyAsync(
              () -> run("events", "tail", "--json", "--count", "1", "--endpoint", at(port)));
      // The subscription: what is published before it is heard by nobody.
      assertEquals(1, publisher.recv()[0]);
      publisher.sendMore("topic");
      publisher.sendMore(ByteBuffer.allocate(Long.BYTES).putLong(7).array());
      assertTrue(publisher.send(batch.toByteArray()));
      Ran ran = tail.get(60, TimeUnit.SECONDS);
      assertEquals(0, ran.exitCode(), ran.toString());
      assertEquals(
          "{\"sequence\":7,\"topic\":\"topic\",\"batch\":[1.5,[\"BlockStored\"]]}",
          ran.out().strip());
    }
  }

  @Test
  void eventsTail_portThatTheSystemChose_isKnown() {
    try (KvtierClient client = open();
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = client.namespace("told", BLOCK_BYTES, Map.of("model", "m"));
      BatchResult put =
          client
              .blocking()
              .put(
                  namespace,
                  Patterns.keys(1, 1),
                  Patterns.filled(arena, 1, 1, BLOCK_BYTES),
                  List.of(BlockTokens.of(1, 2, 3).annotation()),
                  Options.DEFAULT);
      assertTrue(put.isComplete());
      // Who subscribes is told of all there is.
      Ran ran = run("events", "tail", "--json", "--count", "1");
      assertEquals(0, ran.exitCode(), ran.toString());
      assertTrue(ran.out().contains("BlockStored"), ran.toString());
    }
  }

  private static String at(int port) {
    return "tcp://127.0.0.1:" + port;
  }

  private static JsonObject stats() {
    return Json.parse(run("stats", "--json").out()).asObject();
  }

  @Test
  void bench_getsBackWhatItPut_andChangesNoFigureOfEngines() {
    String accounts = stats().get("accounts").toString();
    Ran ran = run("bench", "--blocks", "4", "--block-kib", "64", "--rounds", "2", "--json");
    assertEquals(0, ran.exitCode(), ran.toString());
    assertEquals(4, Json.parse(ran.out()).asObject().getInt("deleted", 0), ran.out());
    assertEquals(accounts, stats().get("accounts").toString());
    JsonObject counters = stats().get("counters").asObject();
    assertTrue(counters.getLong("tool_hits", 0) >= 4, counters.toString());
    assertEquals(0, counters.getLong("saved_tokens", -1));
  }

  @Test
  void reload_byCommandAndBySignal_changesWhatCanChange() throws IOException {
    writeConfig("policy: sieve\n  keep: 1h");
    try {
      Ran reloaded = run("reload");
      assertEquals(0, reloaded.exitCode(), reloaded.toString());
      assertTrue(
          reloaded.out().contains("changed  host.policy: lru -> sieve"), reloaded.toString());
      // --set host.keep=0 is over the file.
      assertFalse(reloaded.out().contains("host.keep"), reloaded.out());
      assertTrue(run("policy").out().contains("sieve"));
      assertTrue(run("config", "running").out().contains("KVTIERD_LIMITS_SESSIONS"));

      writeConfig("polcy: lru");
      Ran mistaken = run("reload");
      assertEquals(1, mistaken.exitCode());
      assertTrue(mistaken.out().contains("did you mean 'host.policy'?"), mistaken.toString());

      writeConfig("policy: fifo");
      daemon().signal("HUP");
      for (int i = 0; i < 1500 && !run("policy").out().contains("fifo"); i++) {
        TestDaemon.pause(20);
      }
      assertTrue(run("policy").out().contains("fifo"));
    } finally {
      writeConfig("policy: lru");
      assertEquals(0, run("reload").exitCode());
    }
  }

  @Test
  void config_isJudgedByTheDaemonsProgram() throws IOException {
    Path file = Files.writeString(folder().resolve("bad.yaml"), "host:\n  byts: 1GiB\n");
    Ran checked = runAlone("config", "check", file.toString());
    assertEquals(2, checked.exitCode(), checked.toString());
    assertTrue(
        checked
            .err()
            .contains(file + ", line 2: unknown key 'host.byts'; did you mean 'host.bytes'?"),
        checked.err());
    Ran shown = runAlone("config", "diff", "--set", "ssd.bytes=0");
    assertEquals(0, shown.exitCode(), shown.toString());
    assertTrue(shown.out().contains("the default is 4GiB"), shown.out());
  }

  @Test
  void doctor_ofARunningDaemon_looksAtItsConfiguration() {
    Ran ran = run("doctor");
    assertTrue(ran.out().contains("process " + daemon().pid() + " answers"), ran.toString());
    assertTrue(ran.out().contains("k.yaml has no mistake"), ran.toString());
    // What stands in the daemon's environment alone.
    assertTrue(ran.out().contains("limits.sessions is 64"), ran.toString());
    Ran without =
        runAlone("doctor", "--json", "--socket", folder().resolve("none.sock").toString());
    assertTrue(without.out().contains("no daemon: there is no socket"), without.toString());
  }

  @Test
  void doctorAndStatus_ofADaemonThatHangs_saySo() {
    try (KvtierClient client = open()) {
      assertEquals(Status.OK, client.blocking().ping().status());
      daemon().signal("STOP");
      try {
        // A daemon that is stopped accepts nobody; what it wrote is read by who is connected.
        assertTrue(client.counters().containsKey("requests"), "from its memory");
        Ran doctor = run("doctor", "--json");
        assertEquals(1, doctor.exitCode(), doctor.toString());
        assertTrue(doctor.out().contains("nothing answers at"), doctor.out());
      } finally {
        daemon().signal("CONT");
      }
    }
  }

  @Test
  void report_withoutADaemon_saysWhoseConfigurationItHolds() throws IOException {
    Path archive = folder().resolve("without.tar.gz");
    Path file =
        Files.writeString(
            folder().resolve("alone.yaml"),
            "object: {s3: {proxy: 'http://joe:" + SECRET + "@proxy:3128'}}\n");
    Ran ran =
        runAlone(
            "report",
            "--socket",
            folder().resolve("none.sock").toString(),
            "--config",
            file.toString(),
            archive.toString());
    assertEquals(0, ran.exitCode(), ran.toString());
    String text = textOf(archive);
    assertTrue(text.contains("/config-of-file.json"), ran.toString());
    assertFalse(text.contains("/config.json"), "nothing is told to be in force");
    assertTrue(text.contains("alone.yaml', by --config of this command"), "the source");
    assertTrue(text.contains("host.slab_bytes"), "the keys");
    assertFalse(text.contains(SECRET), "a secret");
  }

  private static String textOf(Path archive) throws IOException {
    try (GZIPInputStream in =
        new GZIPInputStream(new ByteArrayInputStream(Files.readAllBytes(archive)))) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  @Test
  void report_holdsWhatIsNeededAndNoSecret() throws IOException {
    // A copy: the daemon would write over what is added to its own.
    Path log = folder().resolve("copy.log");
    Files.writeString(
        log,
        Files.readString(folder().resolve("daemon.log"))
            + "PUT https://AKIAABCDEFGHIJKLMNOP:"
            + SECRET
            + "x@s3/b?X-Amz-Signature=feedbeef\nAuthorization: Bearer feedbeef\n");
    Path archive = folder().resolve("report.tar.gz");
    Ran ran = run("report", "--log", log.toString(), archive.toString());
    assertEquals(0, ran.exitCode(), ran.toString());
    assertEquals(
        "rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(archive)));
    String text = textOf(archive);
    for (String held :
        List.of(
            "status.json",
            "counters.json",
            "stats.json",
            "config.json",
            "doctor.json",
            "threads.txt",
            "kvtier-index",
            "process.txt",
            "KVTIERD_LIMITS_SESSIONS=64",
            "Max open files",
            "host.slab_bytes",
            "kvtierd ready on")) {
      assertTrue(text.contains(held), held);
    }
    for (String secret : List.of(SECRET, "feedbeef", "AKIAABCDEFGHIJKLMNOP", "joe", "AWS_SECRET")) {
      assertFalse(text.contains(secret), secret);
    }
    assertEquals(2, run("report", archive.toString()).exitCode(), "it is there already");
  }
}
