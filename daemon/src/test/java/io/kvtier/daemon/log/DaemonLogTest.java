package io.kvtier.daemon.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.joran.JoranConfigurator;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.classic.spi.LoggingEvent;
import ch.qos.logback.core.OutputStreamAppender;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import org.junit.jupiter.api.Test;

class DaemonLogTest {
  /** Register by gRPC with such a property wrote a line of its own. */
  @Test
  void line_whateverAPeerSays_isOne() throws Exception {
    LoggerContext context = new LoggerContext();
    JoranConfigurator configurator = new JoranConfigurator();
    configurator.setContext(context);
    URL shipped = Objects.requireNonNull(getClass().getResource("/logback.xml"));
    configurator.doConfigure(shipped);
    Logger logger = context.getLogger(Logger.ROOT_LOGGER_NAME);
    String said = "x\n2030-01-01 \u001b[31mERROR\r\u0085\u009b{}'\"";
    LoggingEvent event =
        new LoggingEvent("", logger, Level.INFO, "a {} b", null, new Object[] {said});

    OutputStreamAppender<?> appender = (OutputStreamAppender<?>) logger.getAppender("console");
    @SuppressWarnings("unchecked") // logback-classic's appenders take its events
    OutputStreamAppender<ILoggingEvent> console = (OutputStreamAppender<ILoggingEvent>) appender;
    String line = new String(console.getEncoder().encode(event), StandardCharsets.UTF_8);

    assertTrue(
        line.endsWith(": a x\\u000a2030-01-01 \\u001b[31mERROR\\u000d\\u0085\\u009b{}'\" b\n"),
        line);
    assertEquals(line.length() - 1, line.indexOf('\n'));
    context.stop();
  }
}
