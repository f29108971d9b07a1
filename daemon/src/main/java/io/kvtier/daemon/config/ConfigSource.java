package io.kvtier.daemon.config;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Where a configuration is read from, so that it can be read again: over the embedded defaults a
 * file, over it the environment, over that single settings.
 *
 * @param file null for none
 * @param environment of the process; {@link EnvironmentKeys} says which of it counts
 * @param settings {@code key=value}
 */
public record ConfigSource(
    @Nullable Path file, Map<String, String> environment, List<String> settings) {
  public ConfigSource {
    environment = Map.copyOf(environment);
    settings = List.copyOf(settings);
  }

  /** With this process's environment. */
  public static ConfigSource of(@Nullable Path file, List<String> settings) {
    return new ConfigSource(file, System.getenv(), settings);
  }

  /** Reads and checks; all mistakes are told at once. */
  public LoadedConfig load() throws ConfigException {
    return read().orRefuse();
  }

  /** The same for who has more to say about it. */
  public ConfigReading read() {
    return ConfigLoader.read(this);
  }
}
