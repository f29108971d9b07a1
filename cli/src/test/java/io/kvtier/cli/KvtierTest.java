package io.kvtier.cli;

import static io.kvtier.cli.Ran.run;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.eclipsesource.json.Json;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.KvtierException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/** The command without a daemon: usage, refusals, and how numbers look. */
final class KvtierTest {
  @TempDir private Path folder;

  @Test
  void execute_noDaemon_endsWith3AndNamesTheSocket() {
    String socket = folder.resolve("none.sock").toString();
    for (List<String> command :
        List.of(
            List.of("status"),
            List.of("tiers"),
            List.of("stats"),
            List.of("stats", "--watch"),
            List.of("lookup", "--namespace", "n", "00"))) {
      String[] arguments =
          Stream.concat(command.stream(), Stream.of("--socket", socket)).toArray(String[]::new);
      Ran ran = run(arguments);
      assertEquals(3, ran.exitCode(), command.toString());
      assertTrue(ran.err().contains(socket), ran.err());
      assertTrue(ran.err().contains("start kvtierd"), ran.err());
    }
  }

  @Test
  void exitCode_ofWhatTheDaemonRefuses_isTold() throws Exception {
    try (KvtierClient client =
        KvtierClient.builder()
            .socket(folder.resolve("none.sock"))
            .timeout(Duration.ofMillis(1))
            .build()) {
      assertEquals(
          3,
          Kvtier.exitCode(
              assertThrows(
                  KvtierException.class,
                  () -> {
                    var _ = client.connect();
                  })));
    }
    IllegalStateException defect = new IllegalStateException("a defect");
    assertEquals(defect, assertThrows(Exception.class, () -> Kvtier.exitCode(defect)));
  }

  @Test
  void execute_noSocketAtThePath_saysSo() throws IOException {
    for (Path other : List.of(folder, Files.createFile(folder.resolve("file")))) {
      Ran ran = run("status", "--socket", other.toString());
      assertEquals(3, ran.exitCode());
      assertTrue(ran.err().contains(other + ", which is no socket: set"), ran.err());
    }
    for (String command : List.of("status", "doctor", "report")) {
      Ran empty = run(command, "--socket", "");
      assertEquals(2, empty.exitCode(), command);
      assertTrue(empty.err().contains("--socket is empty"), empty.err());
    }
  }

  @Test
  void execute_socketBeforeTheCommand_saysWhereItStands() {
    for (Ran ran :
        List.of(run("--socket", "/nowhere", "status"), run("--socket=/nowhere", "status"))) {
      assertEquals(2, ran.exitCode());
      assertTrue(ran.err().contains("put --socket PATH after the command"), ran.err());
    }
    assertTrue(!run("nonsense", "--socket", "/nowhere").err().contains("after the command"));
  }

  @Test
  void execute_wrongUsage_endsWith2() {
    assertEquals(2, run("status", "--timeout=NaN").exitCode());
    assertEquals(2, run().exitCode());
    assertEquals(2, run("nonsense").exitCode());
    assertEquals(2, run("lookup", "00").exitCode());
    assertEquals(2, run("stats", "--watch=often").exitCode());
  }

  @Test
  void execute_optionsOfTwoPlaces_namesTheOneToLeaveOut() {
    Ran both = run("status", "--address", "127.0.0.1:1", "--socket", "/nowhere");
    assertEquals(2, both.exitCode());
    assertTrue(both.err().contains("leave one of them out"), both.err());
    Ran withoutAddress = run("status", "--token-file", "/nowhere");
    assertEquals(2, withoutAddress.exitCode());
    assertTrue(withoutAddress.err().contains("give --address"), withoutAddress.err());
    for (String[] command : new String[][] {{"policy"}, {"top"}, {"drain"}, {"flush"}}) {
      Ran local = run(command[0], "--address", "grpc://127.0.0.1:1");
      assertEquals(2, local.exitCode(), command[0]);
      assertTrue(local.err().contains("leave --address out"), local.err());
    }
  }

  @Test
  void execute_helpAsACommand_isTheHelp() {
    assertEquals(run("--help").out(), run("help").out());
    assertEquals(run("status", "--help").out(), run("help", "status").out());
  }

  @Test
  void execute_help_endsWith0() {
    Ran help = run("--help");
    assertEquals(0, help.exitCode());
    assertTrue(help.out().contains("Exit codes"), help.out());
    assertTrue(run("--version").out().startsWith("kvtier "));
  }

  @Test
  void help_ofEveryCommand_isWritten() {
    assertHelps(Kvtier.commandLine());
  }

  private static void assertHelps(CommandLine command) {
    String name = command.getCommandSpec().qualifiedName();
    assertTrue(command.getUsageMessage().contains(name), name);
    command.getSubcommands().values().forEach(KvtierTest::assertHelps);
  }

  @Test
  void bytes_haveUnits() {
    assertEquals("0 B", Units.bytes(0));
    assertEquals("1023 B", Units.bytes(1023));
    assertEquals("1.5 KiB", Units.bytes(1536));
    assertEquals("64 MiB", Units.bytes(64L << 20));
    assertEquals("2.0 TiB", Units.bytes(2L << 40));
    assertEquals("-", Units.percent(1, 0));
    assertEquals("1 h 2 min", Units.seconds(3720));
    assertEquals("1.5 ms", Units.nanoseconds(1_500_000));
  }

  @Test
  void counted_oneAndMore_agreeWithTheNoun() {
    assertEquals("1 block", Units.counted(1, "block"));
    assertEquals("0 blocks", Units.counted(0, "block"));
    assertEquals("2,000 blocks", Units.counted(2000, "block"));
    assertEquals("1 batch", Units.counted(1, "batch", "batches"));
    assertEquals("3 batches", Units.counted(3, "batch", "batches"));
  }

  @Test
  void changes_ofStats_haveOneUnitForValueChangeAndRate() {
    Map<String, Long> before = Map.of("host_bytes_used", 0L, "leases", 4000L, "put_blocks", 10L);
    Map<String, Long> now =
        new TreeMap<>(Map.of("host_bytes_used", 3L << 20, "leases", 1000L, "put_blocks", 2010L));
    List<String> lines = StatsCommand.changes(before, now, Set.of("leases"), 2).lines();
    assertEquals(
        List.of(
            "@|bold COUNTER            VALUE    CHANGE       RATE|@",
            "host_bytes_used  3.0 MiB  +3.0 MiB  1.5 MiB/s",
            "leases             1,000    -3,000",
            "put_blocks         2,010    +2,000  1,000.0/s"),
        lines);
  }

  @Test
  void object_daemonWithoutAStore_isRefused() {
    Failure failure =
        assertThrows(
            Failure.class,
            () -> {
              var _ = ObjectCommand.requireStore(new Report(Json.parse("{}").asObject()));
            });
    assertTrue(String.valueOf(failure.getMessage()).contains("object.store is none"));
  }

  @Test
  void namespaces_daemonWithoutSsd_haveNoColumnForIt() {
    String namespace = "\"namespaces\":[{\"name\":\"n\",\"host_blocks\":1,\"ssd_blocks\":0}]";
    String memory = "{\"tiers\":[{\"tier\":\"host\"}]," + namespace + "}";
    String both = "{\"tiers\":[{\"tier\":\"host\"},{\"tier\":\"ssd\"}]," + namespace + "}";
    assertFalse(headingOfNamespaces(memory).contains("ON SSD"));
    assertTrue(headingOfNamespaces(both).contains("ON SSD"));
  }

  private static String headingOfNamespaces(String report) {
    return NamespacesCommand.table(new Report(Json.parse(report).asObject())).lines().getFirst();
  }

  @Test
  void table_columns_areAligned() {
    List<String> lines = new Table("NAME", ">N").row("a", "10").row("long", "5").lines();
    assertEquals(List.of("@|bold NAME   N|@", "a     10", "long   5"), lines);
  }

  @Test
  void report_absentFields_readAsNothing() {
    Report report = new Report(Json.parse("{\"tiers\":[{}],\"counters\":{\"a\":1}}").asObject());
    assertEquals("?", report.tiers().getFirst().name());
    assertEquals(Map.of("a", 1L), report.counters());
    assertEquals(List.of(), report.namespaces());
  }

  @Test
  void tiers_beforeAnySlotIsCut_showNoNumberOfFreeOnes() {
    Report report =
        new Report(
            Json.parse(
                    "{\"tiers\":[{\"slots_free\":0},"
                        + "{\"slots_free\":0,\"size_classes\":[{\"slot_bytes\":4096}]}]}")
                .asObject());
    assertEquals("-", TiersCommand.freeSlots(report.tiers().getFirst()));
    assertEquals("0", TiersCommand.freeSlots(report.tiers().getLast()));
    Report several =
        new Report(
            Json.parse(
                    "{\"tiers\":[{\"slots_free\":16441,\"size_classes\":[{\"slot_bytes\":4096},"
                        + "{\"slot_bytes\":65536}]}]}")
                .asObject());
    assertEquals("by size", TiersCommand.freeSlots(several.tiers().getFirst()));
  }

  @Test
  void balance_ofAReport_hasTheTiersThatThereAre() {
    Report report = new Report(Json.parse("{\"tiers\":[{\"tier\":\"host\"}]}").asObject());
    assertEquals(List.of("host"), report.balance().names());
  }

  @Test
  void balance_ofCounters_hasBothTiers() {
    assertEquals(
        "{\"host\":{\"free\":1,\"resident\":2,\"in_flight\":0,\"total\":3},"
            + "\"ssd\":{\"free\":0,\"resident\":0,\"in_flight\":0,\"total\":0}}",
        Report.balance(
                Map.of("host_slots_free", 1L, "host_slots_resident", 2L, "host_slots_total", 3L))
            .toString());
  }
}
