package io.kvtier.systemtests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.cli.Kvtier;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Names that clients chose to move an operator's cursor: no command prints them as they are. */
@Timeout(180)
final class NamesOnTerminalTest {
  /**
   * ESC and CSI in one character, the end of a title, right to left, and marks of the command's
   * own.
   */
  private static final String EVIL = "evil\u001b]0;owned\u0007\u009b31m\u202eabc@|red x|@\u2028y";

  /** They print no names of clients, wait for ever, or write files. */
  private static final Set<String> NAMELESS =
      Set.of("bench", "events", "help", "report", "simulate", "token", "top");

  @TempDir private Path folder;

  private record Ran(int exitCode, String out, String err) {}

  private Ran run(List<String> arguments) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    int exitCode =
        Kvtier.run(new PrintWriter(out), new PrintWriter(err), arguments.toArray(String[]::new));
    return new Ran(exitCode, out.toString(), err.toString());
  }

  private static boolean isObeyed(int point) {
    return point != '\n'
        && (Character.isISOControl(point)
            || Character.getType(point) == Character.FORMAT
            || point == 0x2028
            || point == 0x2029);
  }

  private static void assertPrintable(String what, String printed) {
    assertTrue(printed.codePoints().noneMatch(NamesOnTerminalTest::isObeyed), what + printed);
  }

  /** All that the help names. */
  private Set<String> commands() {
    Set<String> commands = new HashSet<>();
    Matcher each =
        Pattern.compile("^  (\\w+)", Pattern.MULTILINE)
            .matcher(run(List.of("--help")).out().split("Commands:", 2)[1]);
    while (each.find()) {
      commands.add(each.group(1));
    }
    return commands;
  }

  @Test
  void names_ofClients_areWrittenOutByEveryCommand() throws Exception {
    try (TestDaemon daemon =
            TestDaemon.start(folder, "host.bytes=32MiB", "host.slab_bytes=8MiB", "ssd.bytes=0");
        KvtierClient client =
            KvtierClient.builder().socket(daemon.socket()).name(EVIL + "\nx").build();
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = client.namespace(EVIL, 4096, Map.of("model" + EVIL, EVIL));
      Keys keys = Patterns.keys(0, 1);
      assertTrue(
          client.blocking().put(namespace, keys, Patterns.filled(arena, 0, 1, 4096)).isComplete());
      String key = HexFormat.of().formatHex(keys.get(0));
      List<List<String>> all = new ArrayList<>();
      for (String plain :
          List.of(
              "status",
              "tiers",
              "stats",
              "namespaces",
              "sessions",
              "whatif",
              "policy",
              "doctor",
              "reload",
              "flush",
              "object",
              "nodes",
              "plugins",
              "config running",
              "trace stop",
              "drain --off")) {
        all.add(List.of(plain.split(" ", -1)));
      }
      for (String keyed : List.of("lookup", "inspect", "pin", "unpin", "delete")) {
        all.add(List.of(keyed, "--namespace", EVIL, key));
        all.add(List.of(keyed, "--namespace", EVIL + "?", key));
      }
      for (String whole : List.of("flush", "evict", "clear")) {
        all.add(List.of(whole, "--yes", "--namespace", EVIL));
        all.add(List.of(whole, "--yes", "--namespace", EVIL + "?"));
      }
      Set<String> tried = new HashSet<>(NAMELESS);
      StringBuilder shown = new StringBuilder();
      for (List<String> one : all) {
        tried.add(one.getFirst());
        for (String form : List.of("--no-json", "--json")) {
          List<String> arguments = new ArrayList<>(one);
          if (form.equals("--json")) {
            arguments.add(form);
          }
          arguments.addAll(List.of("--socket", daemon.socket().toString()));
          Ran ran = run(arguments);
          assertPrintable(arguments + " printed ", ran.out());
          assertPrintable(arguments + " complained ", ran.err());
          shown.append(ran.out()).append(ran.err());
        }
      }
      assertTrue(shown.toString().contains("evil\\u001b]0;owned\\u0007\\u009b31m\\u202eabc"));
      assertPrintable("the daemon logged ", Files.readString(folder.resolve("daemon.log")));
      assertEquals(Set.of(), untried(tried), "a command that no test tries");
    }
  }

  private Set<String> untried(Set<String> tried) {
    Set<String> all = commands();
    all.removeAll(tried);
    return all;
  }
}
