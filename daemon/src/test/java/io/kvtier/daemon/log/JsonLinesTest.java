package io.kvtier.daemon.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Level;
import io.vertx.core.json.JsonObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Whatever is printed, each line is an object with the fields of the log. */
final class JsonLinesTest {
  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
  private final PrintStream stream = new JsonLines(bytes, Level.WARN, "stderr").stream();

  private List<JsonObject> lines() {
    return bytes.toString(StandardCharsets.UTF_8).lines().map(JsonObject::new).toList();
  }

  @Test
  void print_linesOfALibrary_areObjectsWithTheFieldsOfTheLog() {
    stream.println("a warning with \"quotes\" and é");
    stream.print("in ");
    stream.printf("%d parts%n", 2);

    List<JsonObject> lines = lines();
    assertEquals(2, lines.size());
    assertEquals("a warning with \"quotes\" and é", lines.get(0).getString("formattedMessage"));
    assertEquals("in 2 parts", lines.get(1).getString("formattedMessage"));
    for (JsonObject line : lines) {
      assertEquals("WARN", line.getString("level"));
      assertEquals("stderr", line.getString("loggerName"));
      assertEquals(Thread.currentThread().getName(), line.getString("threadName"));
      assertTrue(line.getLong("timestamp") > 1_700_000_000_000L);
    }
  }

  @Test
  void print_emptyLines_areLeftOut() {
    stream.println();
    stream.println("  ");
    assertEquals(List.of(), lines());
  }

  @Test
  void print_lineWithoutAnEnd_isCutAtItsLimit() {
    stream.print("x".repeat(JsonLines.LINE_BYTES_MAX + 1));
    assertEquals(1, lines().size());
  }
}
