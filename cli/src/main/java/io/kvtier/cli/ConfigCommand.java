package io.kvtier.cli;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.KvtierClient;
import io.kvtier.protocol.Printable;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** The configuration: of files, judged by the daemon's own program, and of a running daemon. */
@Command(
    name = "config",
    mixinStandardHelpOptions = true,
    description = "Checks and shows configurations.",
    subcommands = {
      ConfigCommand.Check.class,
      ConfigCommand.Show.class,
      ConfigCommand.Diff.class,
      ConfigCommand.Running.class
    })
final class ConfigCommand implements Runnable {
  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(
        spec.commandLine(), "'kvtier config' needs a subcommand: check, show, diff or running");
  }

  /** A command that kvtierd carries out: it gets the words of this command. */
  abstract static class Passed implements Callable<Integer> {
    @Spec private CommandSpec spec;

    @Parameters(
        arity = "0..1",
        paramLabel = "FILE",
        description =
            "The configuration file. Default: /etc/kvtier/kvtier.yaml if it exists, else the"
                + " defaults.")
    private @Nullable String file;

    @Mixin private SettingsOption set;

    @Option(
        names = "--elsewhere",
        description =
            "The file is for another machine: memory, disks and users of this machine are not"
                + " checked.")
    private boolean elsewhere;

    @Option(names = "--json", description = "Prints JSON.")
    private boolean json;

    @Override
    public final Integer call() {
      List<String> words = new ArrayList<>(List.of("config", spec.name()));
      set.settings().forEach(setting -> words.add("--set=" + setting));
      if (elsewhere) {
        words.add("--elsewhere");
      }
      if (json) {
        words.add("--json");
      }
      if (file != null) {
        words.add(file);
      }
      Program.Ran ran = KvtierdProcess.run(words);
      PrintWriter out = spec.commandLine().getOut();
      out.print(Printable.linesOf(ran.out()));
      out.flush();
      PrintWriter err = spec.commandLine().getErr();
      err.print(Printable.linesOf(ran.err()));
      err.flush();
      return ran.exitCode();
    }
  }

  /** Checks a configuration. */
  @Command(
      name = "check",
      mixinStandardHelpOptions = true,
      description =
          "Lists every mistake of a configuration: file, line, key, and what was expected. Exit"
              + " code: 0 without mistakes, else 2.")
  static final class Check extends Passed {}

  /** Shows all keys of a configuration. */
  @Command(
      name = "show",
      mixinStandardHelpOptions = true,
      description = "Shows every key and where its value comes from. Secrets are hidden.")
  static final class Show extends Passed {}

  /** Shows the keys that differ from their defaults. */
  @Command(
      name = "diff",
      mixinStandardHelpOptions = true,
      description = "Shows the keys whose values differ from their defaults.")
  static final class Diff extends Passed {}

  /** Shows the configuration of a running daemon. */
  @Command(
      name = "running",
      description =
          "Shows the configuration that a running daemon uses, reloaded settings included. Needs"
              + " the role admin.")
  static final class Running extends DaemonCommand {
    @Override
    int run(KvtierClient client) {
      JsonArray keys = keys(ask(client, "config show"));
      withPolicies(keys, report(client));
      if (isJson()) {
        line(keys.toString());
        return 0;
      }
      Table table = new Table("KEY", "VALUE", "FROM");
      for (JsonValue each : keys) {
        JsonObject key = each.asObject();
        String value = key.getString("value", "");
        table.row(
            key.getString("key", "?"),
            value.isEmpty() ? "(empty)" : value,
            key.getString("from", "?"));
      }
      // A value can contain text that looks like marks of a style.
      table.lines().forEach(text -> out().println(text.replace("@|bold ", "").replace("|@", "")));
      return 0;
    }

    /**
     * Adds the policies that {@code kvtier policy} has set since the start: no configuration has
     * them.
     */
    static void withPolicies(JsonArray keys, Report report) {
      for (JsonValue each : keys) {
        JsonObject key = each.asObject();
        for (Report.Tier tier : report.tiers()) {
          String policy = tier.json().getString("policy", "");
          boolean isIts = key.getString("key", "").equals(tier.name() + ".policy");
          if (isIts && !policy.isEmpty() && !policy.equals(key.getString("value", ""))) {
            key.set("value", policy).set("from", "kvtier policy");
          }
        }
      }
    }

    static JsonArray keys(String text) {
      return Json.parse(text).asArray();
    }
  }
}
