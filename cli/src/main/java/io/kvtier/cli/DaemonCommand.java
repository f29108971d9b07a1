package io.kvtier.cli;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.ParseException;
import io.kvtier.client.CacheClient;
import io.kvtier.client.CacheNamespace;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.PingResult;
import io.kvtier.client.RemoteClient;
import io.kvtier.client.TextResult;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.Status;
import java.io.Console;
import java.io.PrintWriter;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Help.Ansi;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** A command that asks a daemon. */
@Command(mixinStandardHelpOptions = true)
abstract class DaemonCommand implements Callable<Integer> {
  @Spec private CommandSpec spec;

  @Mixin private SocketOption socket;

  @Mixin private AddressOption address;

  @Option(names = "--json", description = "Prints JSON.")
  private boolean json;

  @Option(
      names = "--timeout",
      paramLabel = "SECONDS",
      description = "Longest wait for an answer of the daemon. Default: ${DEFAULT-VALUE}.",
      defaultValue = "5")
  private double timeoutSeconds;

  /** Asks the daemon of a socket, and prints the answer. */
  int run(KvtierClient client) {
    return run((CacheClient) client);
  }

  /** Asks a daemon over its socket or over gRPC, and prints the answer. */
  int run(CacheClient client) {
    throw new Failure(
        Failure.USAGE,
        "'"
            + spec.qualifiedName()
            + "' needs the daemon's socket: leave --address out. Over gRPC there are status, stats,"
            + " tiers, namespaces, lookup, nodes find, delete, clear, and flush with --namespace");
  }

  @Override
  public final Integer call() {
    if (!(timeoutSeconds >= 0.001 && timeoutSeconds <= 3600)) {
      throw new Failure(
          Failure.USAGE, "--timeout is " + timeoutSeconds + ", expected 0.001 to 3600 seconds");
    }
    Duration timeout = Duration.ofMillis(Math.max(1, Math.round(timeoutSeconds * 1000)));
    if (address.isGiven()) {
      if (socket.isGiven()) {
        throw new Failure(
            Failure.USAGE, "--address and --socket each name a daemon: leave one of them out");
      }
      try (RemoteClient client = address.open(timeout)) {
        return finished(run((CacheClient) client));
      }
    }
    try (KvtierClient client = socket.open("kvtier", timeout)) {
      if (!client.isConnected()) {
        throw noDaemon(client.blocking().ping());
      }
      return finished(run(client));
    }
  }

  private int finished(int exitCode) {
    out().flush();
    return exitCode;
  }

  static Failure noDaemon(PingResult ping) {
    return new Failure(Failure.NO_DAEMON, ping.detail());
  }

  /** Sends a command to the daemon, and returns the answer. */
  static String ask(KvtierClient client, String command) {
    return answered(client.blocking().admin(command));
  }

  /** The text of an answer; throws where it is a refusal. */
  static String answered(TextResult answer) {
    return switch (answer.status()) {
      case OK -> answer.text();
      case UNAVAILABLE -> throw new Failure(Failure.NO_DAEMON, answer.text());
      case INVALID_ARGUMENT -> throw new Failure(Failure.USAGE, answer.text());
      default -> throw new Failure(Failure.NEGATIVE, answer.text());
    };
  }

  /**
   * The namespace with a name. Refuses a name that the daemon does not know. Refuses a namespace of
   * a tenant: a registration from here would make another namespace with that name, without a
   * tenant.
   */
  static CacheNamespace known(CacheClient client, Report report, String name) {
    Report.Namespace known = known(report, name);
    return client.namespace(known.name(), known.blockBytes(), known.properties());
  }

  static Report.Namespace known(Report report, String name) {
    Report.Namespace known = report.namespace(name);
    if (known == null) {
      String names =
          report.namespaces().stream()
              .map(Report.Namespace::name)
              .sorted()
              .collect(Collectors.joining(", "));
      throw new Failure(
          Failure.NEGATIVE,
          "the daemon knows no namespace '"
              + name
              + "'; it knows "
              + (names.isEmpty() ? "none" : names));
    }
    if (!known.tenant().isEmpty()) {
      throw new Failure(
          Failure.NEGATIVE,
          "namespace '"
              + name
              + "' belongs to tenant '"
              + known.tenant()
              + "': only that tenant's users can use it by name; 'kvtier flush' and 'kvtier drain'"
              + " without --namespace cover all tenants");
    }
    return known;
  }

  /** The longest wait for an answer. */
  final long timeoutNs() {
    return Math.round(timeoutSeconds * 1e9);
  }

  boolean isJson() {
    return json;
  }

  PrintWriter out() {
    return spec.commandLine().getOut();
  }

  /** Prints the daemon's answer to a command. */
  void say(String text) {
    if (json) {
      line(new JsonObject().add("done", text).toString());
    } else {
      out().println(Printable.linesOf(text));
    }
  }

  /** Prints a line, as {@link Printable} has it; {@code @|bold text|@} is bold on a terminal. */
  void line(String text) {
    out().println(styled(text));
  }

  /**
   * The printable text, with its marks replaced by the terminal's codes, or removed if there is no
   * terminal.
   */
  static String styled(String text) {
    return (isTerminal() ? Ansi.ON : Ansi.OFF).string(Printable.of(text));
  }

  static boolean isTerminal() {
    String plain = System.getenv("NO_COLOR");
    return console() != null && (plain == null || plain.isEmpty());
  }

  /** The terminal of a person who can answer; null if there is none. */
  static @Nullable Console console() {
    return Optional.ofNullable(System.console()).filter(Console::isTerminal).orElse(null);
  }

  /** The daemon's state. */
  Report report(CacheClient client) {
    TextResult stats = client.stats().join();
    if (stats.status() == Status.UNAVAILABLE) {
      throw new Failure(Failure.NO_DAEMON, stats.text());
    }
    if (stats.status() != Status.OK) {
      throw new Failure(
          Failure.NEGATIVE,
          "the daemon at " + client.place() + " does not answer: " + stats.text());
    }
    return new Report(parse(stats.text()));
  }

  static JsonObject parse(String text) {
    try {
      return Json.parse(text).asObject();
    } catch (ParseException | UnsupportedOperationException e) {
      throw new Failure(
          Failure.NEGATIVE, "the daemon's answer is not a JSON object: " + e.getMessage());
    }
  }
}
