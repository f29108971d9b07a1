package io.kvtier.cli;

import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Option;

/** The option {@code --set} of commands that check a configuration of the daemon. */
final class SettingsOption {
  @Option(
      names = "--set",
      paramLabel = "KEY=VALUE",
      description = "A setting that overrides file and environment. May be repeated.")
  private List<String> settings = new ArrayList<>();

  /** The settings, each {@code KEY=VALUE}. */
  List<String> settings() {
    return settings;
  }
}
