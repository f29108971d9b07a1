package io.kvtier.daemon.config;

/**
 * The configuration can't be used; the message names file, key, value, what was expected and what
 * to do.
 */
public final class ConfigException extends Exception {
  private static final long serialVersionUID = 1L;

  public ConfigException(String message) {
    super(message);
  }
}
