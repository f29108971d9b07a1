package io.kvtier.daemon.config;

import java.util.List;
import java.util.Set;
import java.util.function.Predicate;

/**
 * A configuration as far as it could be read, with what was wrong.
 *
 * @param loaded has the default for each mistaken value
 * @param mistaken their keys
 * @param problems what was wrong, a text each; empty: nothing
 */
public record ConfigReading(LoadedConfig loaded, Set<String> mistaken, List<String> problems) {
  public ConfigReading {
    mistaken = Set.copyOf(mistaken);
    problems = List.copyOf(problems);
  }

  /** Whether none of the keys that are meant has a mistaken value. */
  public boolean isRight(Predicate<String> isMeant) {
    return mistaken.stream().noneMatch(isMeant);
  }

  /** The configuration, if it was right. */
  public LoadedConfig orRefuse() throws ConfigException {
    if (!problems.isEmpty()) {
      throw ConfigException.of(problems);
    }
    return loaded;
  }
}
