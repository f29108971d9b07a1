package io.kvtier.daemon.log;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.encoder.JsonEncoder;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.Appender;
import ch.qos.logback.core.OutputStreamAppender;
import ch.qos.logback.core.encoder.Encoder;
import io.kvtier.daemon.config.KvtierdConfig.LogConfig;
import io.kvtier.daemon.config.KvtierdConfig.LogFormat;
import java.util.Iterator;
import org.slf4j.LoggerFactory;

/** Sets the log up as the configuration wants it. */
public final class DaemonLog {
  private DaemonLog() {}

  /** For the whole process; where another library writes the log, it stays as it is. */
  public static void configure(LogConfig config) {
    if (LoggerFactory.getILoggerFactory() instanceof LoggerContext context) {
      setLevel(config.level());
      if (config.format() == LogFormat.JSON) {
        useJson(context);
      }
      context.resetTurboFilterList();
      if (config.burstNs() > 0) {
        BurstFilter filter = new BurstFilter(config.burst(), config.burstNs(), System::nanoTime);
        filter.setContext(context);
        filter.start();
        context.addTurboFilter(filter);
      }
    }
  }

  /** What is less important is left out from now on. */
  public static void setLevel(String level) {
    if (LoggerFactory.getILoggerFactory() instanceof LoggerContext context) {
      context
          .getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME)
          .setLevel(Level.toLevel(level, Level.INFO));
    }
  }

  private static void useJson(LoggerContext context) {
    Logger root = context.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME);
    for (Iterator<Appender<ILoggingEvent>> all = root.iteratorForAppenders(); all.hasNext(); ) {
      if (all.next() instanceof OutputStreamAppender<ILoggingEvent> appender) {
        replace(appender, json(context));
      }
    }
  }

  /** One object a line: when, how important, who, what. */
  static JsonEncoder json(LoggerContext context) {
    JsonEncoder encoder = new PrintableJson();
    encoder.setContext(context);
    encoder.setWithContext(false);
    encoder.setWithSequenceNumber(false);
    encoder.setWithNanoseconds(false);
    encoder.setWithMessage(false);
    encoder.setWithFormattedMessage(true);
    encoder.setWithArguments(false);
    encoder.setWithMDC(false);
    encoder.start();
    return encoder;
  }

  private static void replace(
      OutputStreamAppender<ILoggingEvent> appender, Encoder<ILoggingEvent> encoder) {
    appender.stop();
    appender.setEncoder(encoder);
    appender.start();
  }
}
