package io.kvtier.cli;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import com.eclipsesource.json.ParseException;
import io.kvtier.client.DaemonInfo;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.PingResult;
import io.kvtier.client.TextResult;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.Status;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Names faults of this machine, of the configuration and of the daemon, each with a cure. */
@Command(
    name = "doctor",
    mixinStandardHelpOptions = true,
    description = {
      "Checks the machine, the configuration, the object store and the daemon, and names a cure"
          + " for each problem.",
      "It works with and without a running daemon. If a daemon runs, and this user has the role"
          + " admin, it checks the configuration with which that daemon was started."
    },
    footer = {"", "Exit code: 0, or 1 if a line says fail."})
final class DoctorCommand implements Callable<Integer> {
  private static final Duration TIMEOUT = Duration.ofSeconds(3);
  private static final Path INSTALLED = Path.of("/etc/kvtier/kvtier.yaml");

  @Spec private CommandSpec spec;

  @Option(
      names = "--config",
      paramLabel = "FILE",
      description =
          "Configuration file. Default: the file of the running daemon, else"
              + " /etc/kvtier/kvtier.yaml if it exists, else the defaults.")
  private @Nullable Path config;

  @Mixin private SettingsOption set;

  @Mixin private SocketOption socket;

  @Option(names = "--json", description = "Prints JSON.")
  private boolean json;

  @Override
  public Integer call() {
    JsonArray findings = findings(socket, config, set.settings());
    PrintWriter out = spec.commandLine().getOut();
    if (json) {
      out.println(Printable.of(findings.toString()));
    } else {
      lines(findings).forEach(line -> out.println(DaemonCommand.styled(line)));
    }
    out.flush();
    return fails(findings) ? Failure.NEGATIVE : 0;
  }

  static boolean fails(JsonArray findings) {
    for (JsonValue finding : findings) {
      if (finding.asObject().getString("level", "").equals("fail")) {
        return true;
      }
    }
    return false;
  }

  /** All findings; those about the daemon come first. */
  static JsonArray findings(SocketOption socket, @Nullable Path config, List<String> settings) {
    JsonArray findings = new JsonArray();
    List<String> words = new ArrayList<>(List.of("doctor", "--json"));
    Map<String, String> environment = System.getenv();
    try (KvtierClient client = socket.open("kvtier doctor", TIMEOUT)) {
      if (daemon(findings, client, words, config == null && settings.isEmpty())) {
        environment = environmentOf(findings, client.daemon());
      }
    }
    if (config != null) {
      words.addAll(List.of("--config", config.toString()));
    }
    settings.forEach(setting -> words.addAll(List.of("--set", setting)));
    try {
      Program.Ran ran = KvtierdProcess.run(environment, words);
      Json.parse(lastLine(ran.out())).asArray().forEach(findings::add);
    } catch (Failure e) {
      add(findings, "program", "fail", String.valueOf(e.getMessage()), "");
    } catch (ParseException | UnsupportedOperationException e) {
      add(
          findings,
          "program",
          "fail",
          "the output of 'kvtierd doctor' is not the expected JSON",
          "");
    }
    return findings;
  }

  /** The environment of the daemon whose configuration is checked: it can hold settings. */
  private static Map<String, String> environmentOf(JsonArray findings, @Nullable DaemonInfo info) {
    Map<String, String> environment =
        info == null ? null : new RunningDaemon(info.pid()).environment();
    if (environment != null) {
      return environment;
    }
    add(
        findings,
        "environment",
        "warn",
        "this user can't read the daemon's environment: settings (KVTIERD_...) and credentials"
            + " (AWS_...) of this shell are checked instead",
        "run kvtier doctor as root or as the daemon's user");
    return System.getenv();
  }

  /** The last line of a text: libraries can write lines before it. */
  private static String lastLine(String text) {
    String stripped = text.strip();
    return stripped.substring(stripped.lastIndexOf('\n') + 1);
  }

  /**
   * Adds findings about the daemon: whether it answers, its version and its configuration.
   *
   * @return whether to check the daemon's configuration
   */
  private static boolean daemon(
      JsonArray findings, KvtierClient client, List<String> words, boolean takesItsConfiguration) {
    PingResult ping = client.blocking().ping();
    DaemonInfo info = client.daemon();
    if (ping.status() == Status.UNAVAILABLE || info == null) {
      unreachable(findings, client.socket(), ping);
      return false;
    }
    if (ping.status() != Status.OK) {
      Optional<Duration> age = client.sinceHeartbeat();
      add(
          findings,
          "daemon",
          "fail",
          "process "
              + info.pid()
              + " does not answer: "
              + ping.detail()
              + age.map(one ->
                      ", no sign of life from its index for " + Units.nanoseconds(one.toNanos()))
                  .orElse(""),
          "save its state for a bug report (kvtier report), then restart it (the service:"
              + " systemctl restart kvtierd)");
    } else {
      add(
          findings,
          "daemon",
          "pass",
          "process "
              + info.pid()
              + " answers at "
              + client.socket()
              + " in "
              + Units.nanoseconds(ping.roundTripNs()),
          "");
      troubles(findings, client);
    }
    words.addAll(List.of("--daemon", Long.toString(info.pid())));
    String ours = Kvtier.Version.number();
    boolean isSame = ours.isEmpty() || ours.equals(info.version());
    add(
        findings,
        "versions",
        isSame ? "pass" : "warn",
        "daemon " + info.version() + ", this command " + (ours.isEmpty() ? "from a build" : ours),
        isSame ? "" : "restart the daemon after an upgrade, or upgrade the older one");
    if (takesItsConfiguration && ping.status() == Status.OK) {
      source(client, words);
      return true;
    }
    return false;
  }

  private static void troubles(JsonArray findings, KvtierClient client) {
    TextResult stats = client.blocking().stats();
    if (stats.status() == Status.OK) {
      DaemonTroubles.addTo(findings, new Report(DaemonCommand.parse(stats.text())));
    }
  }

  /**
   * Adds the words with which the daemon was started. If this user may not ask for them, the
   * installed file is checked.
   */
  private static void source(KvtierClient client, List<String> words) {
    TextResult source = client.blocking().admin("config source");
    if (source.status() == Status.OK) {
      JsonObject parsed = DaemonCommand.parse(source.text());
      String file = parsed.getString("file", "");
      if (!file.isEmpty()) {
        words.addAll(List.of("--config", file));
      }
      if (parsed.get("settings") instanceof JsonArray all) {
        all.forEach(setting -> words.addAll(List.of("--set", setting.asString())));
      }
    } else if (Files.exists(INSTALLED)) {
      words.addAll(List.of("--config", INSTALLED.toString()));
    }
  }

  private static void unreachable(JsonArray findings, Path socket, PingResult ping) {
    if (!Files.exists(socket)) {
      add(
          findings,
          "daemon",
          "warn",
          "no daemon: there is no socket at " + socket,
          InstalledService.ofThisMachine()
              .cure()
              .orElse("start it with kvtierd, or set --socket or KVTIER_SOCKET to its socket"));
      return;
    }
    boolean mayWrite = Files.isWritable(socket);
    add(
        findings,
        "daemon",
        "fail",
        mayWrite
            ? "nothing answers at " + socket + ": " + ping.detail()
            : "user " + SocketPaths.uid() + " has no right to " + socket + ": " + ping.detail(),
        mayWrite
            ? "if it is stopped (ps -o stat shows T), continue it: kill -CONT. If it hangs, save its"
                + " state (kvtier report) and restart it. If it ended, read its log (the service:"
                + " journalctl -u kvtierd) and start it"
            : "add the user to the group of the socket. Or name the user in socket.users, or a group"
                + " in socket.groups, and set socket.mode: \"0666\": then everybody can connect, and the"
                + " daemon serves only those who are named");
  }

  static void add(JsonArray findings, String check, String level, String what, String cure) {
    findings.add(
        new JsonObject()
            .add("check", check)
            .add("level", level)
            .add("what", what)
            .add("cure", cure));
  }

  /** The findings for people: one line for a finding, and one for its cure. */
  static List<String> lines(JsonArray findings) {
    int width = 0;
    for (JsonValue finding : findings) {
      width = Math.max(width, finding.asObject().getString("check", "").length());
    }
    List<String> lines = new ArrayList<>();
    int[] counts = new int[3];
    for (JsonValue each : findings) {
      JsonObject finding = each.asObject();
      String level = finding.getString("level", "?");
      counts[level.equals("fail") ? 2 : level.equals("warn") ? 1 : 0]++;
      String colour = level.equals("fail") ? "red,bold" : level.equals("warn") ? "yellow" : "green";
      String check = finding.getString("check", "?");
      lines.add(
          "@|"
              + colour
              + " "
              + level
              + "|@  "
              + check
              + " ".repeat(width - check.length() + 2)
              + finding.getString("what", "?"));
      String cure = finding.getString("cure", "");
      if (!cure.isEmpty()) {
        lines.add(" ".repeat(width + 8) + "cure: " + cure);
      }
    }
    lines.add(
        counts[0]
            + " passed, "
            + Units.counted(counts[1], "warning")
            + ", "
            + Units.counted(counts[2], "failure"));
    return lines;
  }
}
