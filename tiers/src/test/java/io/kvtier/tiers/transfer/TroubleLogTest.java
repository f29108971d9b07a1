package io.kvtier.tiers.transfer;

import static org.junit.jupiter.api.Assertions.assertEquals;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

final class TroubleLogTest {
  private static final String FIRST = "a device: a read failed: EIO";

  private final Logger logger = (Logger) LoggerFactory.getLogger(TroubleLogTest.class);
  private final ListAppender<ILoggingEvent> said = new ListAppender<>();
  private final AtomicLong nowNs = new AtomicLong(Long.MAX_VALUE - 5);
  private final TroubleLog troubles = new TroubleLog(logger, "a device", nowNs::get);

  @BeforeEach
  void listen() {
    said.start();
    logger.addAppender(said);
  }

  @AfterEach
  void listenNoMore() {
    logger.detachAppender(said);
  }

  private List<String> lines() {
    return said.list.stream().map(ILoggingEvent::getFormattedMessage).toList();
  }

  @Test
  void tell_failuresWithinAMinute_areOneLine() {
    for (int i = 0; i < 1000; i++) {
      troubles.tell("a read failed", "EIO");
    }
    nowNs.addAndGet(TimeUnit.SECONDS.toNanos(59));
    troubles.tell("a read failed", "ENOMEM");
    assertEquals(List.of(FIRST), lines());
  }

  @Test
  void tell_aMinuteLater_saysHowManyThereWere() {
    for (int i = 0; i < 8; i++) {
      troubles.tell("a read failed", "EIO");
    }
    nowNs.addAndGet(TimeUnit.MINUTES.toNanos(1));
    troubles.tell("a read failed", "ENOMEM");
    nowNs.addAndGet(TimeUnit.MINUTES.toNanos(1));
    troubles.tell("a read failed", "EIO");
    assertEquals(
        List.of(FIRST, "a device: a read failed: ENOMEM; 7 more since the last such line", FIRST),
        lines());
  }

  @Test
  void tell_anotherKind_isToldAtOnce() {
    troubles.tell("a read failed", "EIO");
    troubles.tell("a write failed", "ENOSPC");
    assertEquals(List.of(FIRST, "a device: a write failed: ENOSPC"), lines());
  }
}
