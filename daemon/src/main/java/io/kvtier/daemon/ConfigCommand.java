package io.kvtier.daemon;

import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.config.ConfigText;
import io.kvtier.daemon.config.LoadedConfig;
import io.kvtier.daemon.config.LoadedConfig.Entry;
import io.kvtier.daemon.plugins.Plugins;
import io.vertx.core.json.JsonObject;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Looks at a configuration without starting anything. */
@Command(
    name = "config",
    mixinStandardHelpOptions = true,
    description = "Checks or shows a configuration without starting the daemon.",
    subcommands = {
      ConfigCommand.CheckCommand.class,
      ConfigCommand.ShowCommand.class,
      ConfigCommand.DiffCommand.class
    })
final class ConfigCommand implements Runnable {
  /** The file that packages install. */
  private static final Path INSTALLED = Path.of("/etc/kvtier/kvtier.yaml");

  /** The file that was named, else the installed one, if there is one. */
  static @Nullable Path chosen(@Nullable Path file) {
    return file == null && Files.exists(INSTALLED) ? INSTALLED : file;
  }

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(
        spec.commandLine(), "'kvtierd config' needs a subcommand: check, show or diff");
  }

  /** A command that reads a configuration. */
  @Command(mixinStandardHelpOptions = true)
  abstract static class Reading implements Callable<Integer> {
    @Spec private CommandSpec spec;

    @Parameters(
        paramLabel = "FILE",
        arity = "0..1",
        description =
            "The configuration file. Default: /etc/kvtier/kvtier.yaml if it exists, else the"
                + " defaults.")
    private @Nullable Path file;

    @Option(
        names = "--set",
        paramLabel = "KEY=VALUE",
        description = "A setting that overrides file and environment. May be repeated.")
    private List<String> settings = new ArrayList<>();

    @Option(
        names = "--elsewhere",
        description =
            "The file is for another machine: memory, disks and users of this machine are not"
                + " checked.")
    private boolean elsewhere;

    @Option(names = "--json", description = "Prints JSON.")
    boolean json;

    abstract void show(String name, LoadedConfig loaded);

    @Override
    public final Integer call() {
      Path path = chosen(file);
      String name = path == null ? "the default configuration" : path.toString();
      try {
        LoadedConfig loaded = StartCheck.load(ConfigSource.of(path, settings), !elsewhere);
        show(name, loaded);
        return 0;
      } catch (ConfigException e) {
        if (json) {
          print(new JsonObject().put("right", false).put("problem", e.getMessage()).encode());
        } else {
          spec.commandLine().getErr().println("kvtierd: " + e.getMessage());
          spec.commandLine().getErr().flush();
        }
        return 2;
      }
    }

    final void print(String text) {
      spec.commandLine().getOut().println(text.stripTrailing());
      spec.commandLine().getOut().flush();
    }
  }

  /** Checks a configuration. */
  @Command(
      name = "check",
      description = {
        "Lists every mistake of a configuration: file, line, key, and what was expected.",
        "Exit code: 0 without mistakes, else 2."
      })
  static final class CheckCommand extends Reading {
    @Override
    void show(String name, LoadedConfig loaded) {
      Plugins plugins = loaded.config().tiers().plugins().plugins();
      long differ = loaded.entries().stream().filter(Entry::differs).count();
      print(
          json
              ? new JsonObject()
                  .put("right", true)
                  .put("differ", differ)
                  .put("plugins", PluginReport.json(plugins))
                  .encode()
              : name
                  + " has no mistake; "
                  + (differ == 1
                      ? "1 key differs from its default"
                      : differ + " keys differ from their defaults")
                  + (plugins.folder() == null ? "" : "; plug-ins " + plugins.describe()));
    }
  }

  /** Shows all keys of a configuration. */
  @Command(
      name = "show",
      description =
          "Shows the value of every key and where it comes from: default, file and line,"
              + " environment or --set. Secrets are hidden.")
  static final class ShowCommand extends Reading {
    @Override
    void show(String name, LoadedConfig loaded) {
      print(
          json
              ? ConfigText.json(loaded.entries()).encode()
              : ConfigText.lines(loaded.entries(), false));
    }
  }

  /** Shows the keys that differ from their defaults. */
  @Command(name = "diff", description = "Shows the keys whose values differ from their defaults.")
  static final class DiffCommand extends Reading {
    @Override
    void show(String name, LoadedConfig loaded) {
      List<Entry> entries = loaded.entries().stream().filter(Entry::differs).toList();
      if (json) {
        print(ConfigText.json(entries).encode());
      } else {
        print(
            entries.isEmpty()
                ? name
                    + " has every key at its default; 'kvtier config running' shows what a running"
                    + " daemon uses"
                : ConfigText.lines(entries, true));
      }
    }
  }
}
