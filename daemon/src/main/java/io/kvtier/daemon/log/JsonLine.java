package io.kvtier.daemon.log;

import ch.qos.logback.classic.Level;
import io.kvtier.protocol.Printable;
import io.vertx.core.json.JsonObject;

/** A line that is no event of a logger, with the fields that the log's lines have. */
final class JsonLine {
  private JsonLine() {}

  static String of(Level level, String source, String message) {
    return Printable.linesOf(
        new JsonObject()
            .put("timestamp", System.currentTimeMillis())
            .put("level", level.toString())
            .put("threadName", Thread.currentThread().getName())
            .put("loggerName", source)
            .put("formattedMessage", message)
            .encode());
  }
}
