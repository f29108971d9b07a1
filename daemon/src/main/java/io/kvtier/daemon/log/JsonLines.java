package io.kvtier.daemon.log;

import ch.qos.logback.classic.Level;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** A stream that makes a JSON object of each line, whoever prints it. */
final class JsonLines extends OutputStream {
  /** Maximum bytes of a line; a longer line is split. */
  static final int LINE_BYTES_MAX = 64 << 10;

  private final OutputStream out;
  private final Level level;
  private final String source;
  private final ByteArrayOutputStream line = new ByteArrayOutputStream();

  /**
   * A stream in front of another.
   *
   * @param source what the lines name as their logger
   */
  JsonLines(OutputStream out, Level level, String source) {
    this.out = out;
    this.level = level;
    this.source = source;
  }

  /** This stream as a print stream that flushes after each line. */
  PrintStream stream() {
    return new PrintStream(this, true, StandardCharsets.UTF_8);
  }

  @Override
  public synchronized void write(int each) throws IOException {
    if (each == '\n' || line.size() == LINE_BYTES_MAX) {
      end();
    }
    if (each != '\n') {
      line.write(each);
    }
  }

  private void end() throws IOException {
    String text = line.toString(StandardCharsets.UTF_8);
    line.reset();
    if (!text.isBlank()) {
      String json = JsonLine.of(level, source, text.stripTrailing()) + "\n";
      out.write(json.getBytes(StandardCharsets.UTF_8));
      out.flush();
    }
  }

  @Override
  public void flush() throws IOException {
    out.flush();
  }
}
