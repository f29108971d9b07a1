package io.kvtier.daemon;

import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.config.LoadedConfig;
import io.kvtier.daemon.doctor.Doctor;
import io.kvtier.daemon.doctor.Finding;
import io.kvtier.tiers.gpu.CudaDriver;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** What {@code kvtier doctor} asks the daemon's own program: the machine and the configuration. */
@Command(
    name = "doctor",
    mixinStandardHelpOptions = true,
    description =
        "Checks the machine, the configuration and the object store. 'kvtier doctor' also checks the"
            + " running daemon.")
final class DoctorCommand implements Callable<Integer> {
  @Spec private CommandSpec spec;

  @Option(names = "--config", paramLabel = "FILE", description = "Configuration file.")
  private @Nullable Path file;

  @Option(
      names = "--set",
      paramLabel = "KEY=VALUE",
      description = "A setting that overrides the file.")
  private List<String> settings = new ArrayList<>();

  @Option(
      names = "--daemon",
      paramLabel = "PID",
      defaultValue = "0",
      description = "Process of the running daemon that has this configuration.")
  private long daemonPid;

  @Option(names = "--json", description = "Prints JSON.")
  private boolean json;

  @Override
  public Integer call() {
    List<Finding> findings = new ArrayList<>();
    LoadedConfig loaded = load(findings);
    findings.addAll(new Doctor(loaded.config(), daemonPid, CudaDriver::probe).findings());
    PrintWriter out = spec.commandLine().getOut();
    if (json) {
      JsonArray all = new JsonArray();
      findings.forEach(finding -> all.add(json(finding)));
      out.println(all.encode());
    } else {
      for (Finding finding : findings) {
        out.println(level(finding) + "  " + finding.check() + ": " + finding.what());
        if (!finding.cure().isEmpty()) {
          out.println("      cure: " + finding.cure());
        }
      }
    }
    out.flush();
    return findings.stream().anyMatch(one -> one.level() == Finding.Level.FAIL) ? 1 : 0;
  }

  /** What is looked at; the defaults where the configuration can't be used. */
  private LoadedConfig load(List<Finding> findings) {
    // A running daemon without a file has none, whatever is installed.
    Path path = daemonPid == 0 ? ConfigCommand.chosen(file) : file;
    String name = path == null ? "the default configuration" : path.toString();
    try {
      LoadedConfig loaded = ConfigSource.of(path, settings).load();
      try {
        StartCheck.require(loaded, true);
        findings.add(
            new Finding("configuration", Finding.Level.PASS, right(name, loaded.entries()), ""));
      } catch (ConfigException e) {
        findings.add(wrong(e));
      }
      return loaded;
    } catch (ConfigException e) {
      findings.add(wrong(e));
    }
    try {
      return new ConfigSource(null, Map.of(), List.of()).load();
    } catch (ConfigException e) {
      throw new IllegalStateException("the defaults are not right", e);
    }
  }

  /** That it has no mistake, and which of its settings stand elsewhere than in the file. */
  static String right(String name, List<LoadedConfig.Entry> entries) {
    String overrides =
        entries.stream()
            .filter(LoadedConfig.Entry::isOverride)
            .map(entry -> entry.key() + "=" + entry.value() + " (" + entry.from() + ")")
            .collect(Collectors.joining(", "));
    return name
        + " has no mistake"
        + (overrides.isEmpty() ? "" : "; it is overridden by " + overrides);
  }

  private static Finding wrong(ConfigException e) {
    return new Finding(
        "configuration",
        Finding.Level.FAIL,
        String.valueOf(e.getMessage()),
        "correct it, and check again: kvtier config check");
  }

  private static JsonObject json(Finding finding) {
    return new JsonObject()
        .put("check", finding.check())
        .put("level", level(finding))
        .put("what", finding.what())
        .put("cure", finding.cure());
  }

  private static String level(Finding finding) {
    return finding.level().name().toLowerCase(Locale.ROOT);
  }
}
