package io.kvtier.daemon.config;

import io.kvtier.protocol.Secrets;
import java.util.List;

/**
 * The configuration can't be used; the message names file, key, value, what was expected and what
 * to do.
 */
public final class ConfigException extends Exception {
  private static final long serialVersionUID = 1L;

  private ConfigException(String message) {
    super(message);
  }

  /** All mistakes in one message: it goes to logs and answers, so it is without secrets. */
  public static ConfigException of(List<String> problems) {
    return new ConfigException(
        Secrets.hideInText(
            problems.size() == 1
                ? problems.getFirst()
                : problems.size()
                    + " mistakes in the configuration:\n  "
                    + String.join("\n", problems).replace("\n", "\n  ")));
  }
}
