package io.kvtier.systemtests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.cli.Kvtier;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.Writer;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The command line with a real daemon: some commands as processes, the others in this JVM. */
@Timeout(value = 180, unit = TimeUnit.SECONDS)
final class CommandLineTest {
  @TempDir private Path folder;

  private record Ran(int exitCode, String out) {}

  private String[] withSocket(String... arguments) {
    List<String> all = new ArrayList<>(List.of(arguments));
    all.addAll(List.of("--socket", folder.resolve("k.sock").toString()));
    return all.toArray(String[]::new);
  }

  /** In this JVM: a JVM for each command takes a second of the processor. */
  private Ran run(String... arguments) {
    return runAlone(withSocket(arguments));
  }

  private static Ran runAlone(String... arguments) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    // As a process's output, it is lost unless the command flushes it.
    Writer buffered = new BufferedWriter(out, 1 << 20);
    int exitCode = Kvtier.run(new PrintWriter(buffered), new PrintWriter(err), arguments);
    System.err.print(err);
    return new Ran(exitCode, out.toString());
  }

  private static Ran runProcess(String... arguments) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(
        List.of(
            "--enable-native-access=ALL-UNNAMED",
            "--sun-misc-unsafe-memory-access=allow",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            TestDaemon.classPath(),
            "io.kvtier.cli.Kvtier"));
    command.addAll(List.of(arguments));
    Process process =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
    String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    return new Ran(process.waitFor(), out);
  }

  @Test
  void commands_daemonWithBlocks_tellWhatIsThere() throws IOException, InterruptedException {
    try (TestDaemon daemon =
            // Few blocks: two policies stand beside each other in a small heap while one is
            // swapped.
            TestDaemon.start(
                folder,
                "host.bytes=32MiB",
                "host.slab_bytes=8MiB",
                "ssd.bytes=0",
                "limits.blocks=65536");
        KvtierClient client = KvtierClient.builder().socket(daemon.socket()).build();
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = client.namespace("shown", 4096, Map.of("model", "m"));
      Keys keys = Patterns.keys(0, 3);
      assertTrue(
          client
              .blocking()
              .put(namespace, keys.slice(0, 2), Patterns.filled(arena, 0, 2, 4096))
              .isComplete());

      assertEquals(2, client.blocking().lookup(namespace, keys).run());
      Ran status = runProcess(withSocket("status"));
      assertEquals(0, status.exitCode());
      assertTrue(
          status.out().lines().anyMatch("lookups     2 of 3 blocks (67 %) found"::equals),
          status::out);
      assertTrue(status.out().contains("saved       nothing since the start"), status::out);
      assertTrue(status.out().contains("process " + daemon.pid()), status::out);
      String json = run("status", "--json").out();
      assertTrue(json.contains("\"answers\":true"), json);
      assertTrue(json.contains("\"savings\":{\"saved_tokens\":0,"), json);
      assertTrue(json.contains("\"degraded\":false,\"troubles\":[]"), json);
      assertEquals(0, run("drain", "--off").exitCode());

      Ran tiers = run("tiers");
      assertEquals(0, tiers.exitCode());
      assertTrue(tiers.out().contains("model=m"), tiers::out);
      assertTrue(Pattern.compile("shown +[0-9a-f]{32} ").matcher(tiers.out()).find(), tiers::out);

      assertEquals(1, run("events", "tail").exitCode(), "this daemon publishes none");
      assertEquals(2, runProcess(withSocket("object")).exitCode());
      assertEquals(1, run("object", "gc").exitCode(), "there is no store: nobody is asked");
      assertEquals(2, run("object", "remove-namespace", "n").exitCode(), "--namespace names it");
      assertEquals(1, run("object", "remove-namespace", "--namespace", "n").exitCode());
      assertEquals(2, run("object", "gc", "--namespace", "n").exitCode());

      Ran stats = run("stats", "--json");
      assertEquals(0, stats.exitCode());
      assertTrue(stats.out().contains("\"put_blocks\":2"), stats::out);
      assertTrue(stats.out().contains("\"resident\":2"), stats::out);
      assertTrue(
          run("stats", "--watch=0.05", "--count=2").out().contains("no counter has changed"));

      String[] hex = new String[3];
      for (int i = 0; i < 3; i++) {
        hex[i] = HexFormat.of().formatHex(keys.get(i));
      }
      assertEquals(0, run("lookup", "--namespace", "shown", hex[0], hex[1]).exitCode());
      Ran partly = run("lookup", "--json", "--namespace", "shown", hex[0], hex[1], hex[2]);
      assertEquals(1, partly.exitCode());
      assertTrue(partly.out().contains("\"run\":2"), partly::out);
      assertEquals(1, run("lookup", "--namespace", "unknown", hex[0]).exitCode());
      assertEquals(2, run("lookup", "--namespace", "shown", "xyz").exitCode());

      Ran flushed = run("flush");
      assertEquals(1, flushed.exitCode(), "there is no tier below memory");
      assertTrue(flushed.out().contains("there is no tier below memory"), flushed::out);
      assertEquals(2, run("drain", "--yes", "--namespace", "shown").exitCode(), "drains all");

      Path trace = folder.resolve("t r.gz");
      assertEquals(0, run("trace", "record", trace.toString()).exitCode());
      assertEquals(1, run("trace", "record", trace.toString()).exitCode(), "one at a time");
      for (int i = 0; i < 10; i++) {
        assertEquals(2, client.blocking().lookup(namespace, keys).run());
      }
      Ran stopped = run("trace", "stop");
      assertTrue(stopped.out().contains("10 lookups of 30 blocks"), stopped::out);
      assertEquals(1, run("trace", "stop").exitCode());
      assertEquals(1, runProcess(withSocket("trace", "stop")).exitCode(), "also of the process");
      Ran simulated =
          runAlone(
              "simulate",
              "--trace",
              trace.toString(),
              "--policy",
              "lru",
              "--capacity-blocks",
              "3",
              "--json");
      assertEquals(0, simulated.exitCode());
      assertTrue(simulated.out().contains("\"references\":30"), simulated::out);
      assertTrue(simulated.out().contains("\"block_hits\":27"), simulated::out);

      Ran ofDefault = run("whatif", "--json");
      assertEquals(0, ofDefault.exitCode(), ofDefault.toString());
      assertTrue(ofDefault.out().contains("\"policy\":\"lru\",\"factor\":10"), ofDefault::out);
      Ran swapped = run("policy", "host", "auto");
      assertEquals(0, swapped.exitCode());
      assertTrue(swapped.out().contains("lru -> auto, 2 blocks"), swapped::out);
      assertTrue(run("policy").out().contains("auto"));
      Ran running = run("config", "running");
      assertTrue(
          running.out().lines().anyMatch(line -> line.matches("host.policy +auto +kvtier policy")),
          running.toString());
      assertEquals(2, run("policy", "host", "mru").exitCode());
      assertEquals(2, run("policy", "gpu", "lru").exitCode());
      assertEquals(2, run("policy", "object").exitCode());
      assertEquals(1, run("policy", "ssd", "lru").exitCode(), "there is none");
      assertEquals(2, client.blocking().lookup(namespace, keys).run());
      Ran whatIf = run("whatif", "--json");
      assertEquals(0, whatIf.exitCode());
      assertTrue(whatIf.out().contains("\"factor\":10"), whatIf::out);

      daemon.signal("STOP");
      try {
        Ran silent = run("status", "--timeout=0.3");
        assertEquals(3, silent.exitCode(), "no welcome, no daemon");
      } finally {
        daemon.signal("CONT");
      }
    }
  }
}
