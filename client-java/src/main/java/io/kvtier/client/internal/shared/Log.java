package io.kvtier.client.internal.shared;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The client's few log lines. The logging library is loaded with the first of them. */
public final class Log {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.kvtier.client");

  private Log() {}

  public static void info(String message) {
    LOGGER.info(message);
  }

  public static void warn(String message, Throwable cause) {
    LOGGER.warn(message, cause);
  }
}
