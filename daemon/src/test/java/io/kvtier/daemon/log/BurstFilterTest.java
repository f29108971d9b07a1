package io.kvtier.daemon.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.encoder.JsonEncoder;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import io.vertx.core.json.JsonObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** How many lines of one cause are written, and what is told of the others. */
final class BurstFilterTest {
  private final LoggerContext context = new LoggerContext();
  private final ListAppender<ILoggingEvent> written = new ListAppender<>();
  private final AtomicLong clock = new AtomicLong(1_000_000_000);
  private final BurstFilter filter = new BurstFilter(2, TimeUnit.HOURS.toNanos(1), clock::get);
  private final Logger logger = context.getLogger("io.kvtier.Test");

  @BeforeEach
  void start() {
    Logger root = context.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME);
    root.setLevel(Level.INFO);
    written.setContext(context);
    written.start();
    root.addAppender(written);
    filter.setContext(context);
    filter.start();
    context.addTurboFilter(filter);
  }

  @AfterEach
  void stop() {
    context.stop();
  }

  private List<String> messages() {
    return written.list.stream().map(ILoggingEvent::getFormattedMessage).toList();
  }

  @Test
  void linesOfOneCause_beyondTheBurst_areCountedAndTold() {
    for (int i = 0; i < 7; i++) {
      logger.warn("process {} refused", i);
    }
    logger.warn("another cause");
    assertEquals(List.of("process 0 refused", "process 1 refused", "another cause"), messages());
    clock.addAndGet(TimeUnit.HOURS.toNanos(1));
    filter.tell();
    assertEquals(
        "5 more lines like these were left out within 3600 s, the last of them: process 6 refused",
        messages().getLast());
    assertEquals(Level.WARN, written.list.getLast().getLevel());
    logger.warn("process {} refused", 8);
    assertEquals("process 8 refused", messages().getLast());
  }

  @Test
  void linesThatAreLeftOut_areHeardOf() {
    List<String> leftOut = new ArrayList<>();
    BurstFilter.Listener hears =
        (from, level, format, parameters, thrown) ->
            leftOut.add(
                from.getName()
                    + " "
                    + level
                    + " "
                    + format
                    + " "
                    + Arrays.toString(parameters)
                    + " "
                    + thrown);
    filter.tellLeftOut(hears);
    for (int i = 0; i < 3; i++) {
      logger.warn("process {} refused", i, new IllegalStateException("why"));
      logger.warn("no reason", new IllegalStateException("why"));
    }
    assertEquals(
        List.of(
            "io.kvtier.Test WARN process {} refused [2, java.lang.IllegalStateException: why] null",
            "io.kvtier.Test WARN no reason null java.lang.IllegalStateException: why"),
        leftOut);
    filter.tellNoMore(hears);
    logger.warn("no reason");
    assertEquals(2, leftOut.size());
  }

  @Test
  void tellNoMore_ofOneWhoHearsNoMore_leavesTheOther() {
    List<String> leftOut = new ArrayList<>();
    BurstFilter.Listener earlier = (from, level, format, parameters, thrown) -> {};
    filter.tellLeftOut(earlier);
    filter.tellLeftOut((from, level, format, parameters, thrown) -> leftOut.add(format));
    filter.tellNoMore(earlier);
    for (int i = 0; i < 3; i++) {
      logger.warn("no reason");
    }
    assertEquals(List.of("no reason"), leftOut);
  }

  @Test
  void errors_alwaysPass() {
    for (int i = 0; i < 5; i++) {
      logger.error("broken");
    }
    assertEquals(5, messages().size());
  }

  @Test
  void lines_thatAreWhollyPutIn_areTheirOwnCauses() {
    for (int i = 0; i < 5; i++) {
      logger.info("{}", "text " + i);
    }
    assertEquals(5, messages().size());
  }

  @Test
  void json_lineOfAMessage_isAnObject() {
    JsonEncoder encoder = DaemonLog.json(context);
    logger.warn("it is \"{}\"", 5);
    String line = new String(encoder.encode(written.list.getFirst()), StandardCharsets.UTF_8);
    JsonObject json = new JsonObject(line);
    assertEquals("it is \"5\"", json.getString("formattedMessage"));
    assertEquals("WARN", json.getString("level"));
    assertTrue(json.containsKey("timestamp"), line);
  }

  @Test
  void linesOfAnotherLevel_passThoughTheTextIsTheSame() {
    for (int i = 0; i < 5; i++) {
      logger.info("request {}: {}", i, "BUSY");
    }
    logger.warn("request {}: {}", 5, "CORRUPT");
    assertEquals(List.of("request 0: BUSY", "request 1: BUSY", "request 5: CORRUPT"), messages());
    clock.addAndGet(TimeUnit.HOURS.toNanos(1));
    filter.tell();
    assertEquals(4, messages().size());
    assertEquals(Level.INFO, written.list.getLast().getLevel());
  }
}
