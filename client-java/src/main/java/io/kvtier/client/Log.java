package io.kvtier.client;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The client's few log lines. The logging library is loaded with the first of them. */
final class Log {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.kvtier.client");

  private Log() {}

  static void info(String message) {
    LOGGER.info(message);
  }

  static void warn(String message, Throwable cause) {
    LOGGER.warn(message, cause);
  }
}
