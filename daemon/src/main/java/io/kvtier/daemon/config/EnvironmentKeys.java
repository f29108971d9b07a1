package io.kvtier.daemon.config;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * Settings in environment variables: {@code KVTIERD_HOST_BYTES} is {@code host.bytes}. A variable
 * of this form that names no key is refused, so that a misspelt one is noticed. Variables for the
 * start script are left alone.
 */
final class EnvironmentKeys {
  /** Precedes the variable's name in the place of a value. */
  static final String PLACE = "environment ";

  static final String PREFIX = "KVTIERD_";

  /** A variable that the start script reads: it is not a key. */
  private static final String JAVA_OPTIONS = "KVTIERD_JAVA_OPTS";

  private final Map<String, String> keys = new LinkedHashMap<>();

  EnvironmentKeys(Set<String> keys) {
    for (String key : keys) {
      String earlier = this.keys.put(variable(key), key);
      if (earlier != null) {
        throw new IllegalStateException(
            "the keys " + earlier + " and " + key + " have one variable: " + variable(key));
      }
    }
  }

  /** The variable of a key. */
  static String variable(String key) {
    return PREFIX + key.replace('.', '_').toUpperCase(Locale.ROOT);
  }

  /**
   * The settings of an environment, by variable, as {@code key=value}. A variable that names no key
   * appears under the key that its name suggests.
   */
  Map<String, String> settings(Map<String, String> environment) {
    Map<String, String> settings = new TreeMap<>();
    environment.forEach((variable, value) -> {
      if (variable.startsWith(PREFIX) && !variable.equals(JAVA_OPTIONS)) {
        String key = keys.get(variable);
        settings.put(variable, (key == null ? meant(variable) : key) + "=" + value);
      }
    });
    return settings;
  }

  private static String meant(String variable) {
    return variable.substring(PREFIX.length()).toLowerCase(Locale.ROOT).replaceFirst("_", ".");
  }
}
