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
import java.io.PrintStream;
import java.util.Iterator;
import org.jspecify.annotations.Nullable;
import org.slf4j.LoggerFactory;

/** Sets the log up as the configuration wants it. */
public final class DaemonLog {
  private static final String PROGRAM = "kvtierd";

  private static boolean isJson;

  private DaemonLog() {}

  /** For the whole process; where another library writes the log, it stays as it is. */
  public static void configure(LogConfig config) {
    if (LoggerFactory.getILoggerFactory() instanceof LoggerContext context) {
      setLevel(config.level());
      if (config.format() == LogFormat.JSON && !isJson) {
        isJson = true;
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

  /**
   * Says why the daemon does not start, as the log would be written.
   *
   * @param e the defect; null where the words say all
   */
  public static void startFailed(LogConfig config, String words, @Nullable Throwable e) {
    if (config.format() == LogFormat.JSON) {
      configure(config);
      LoggerFactory.getLogger(PROGRAM).error("{}", words, e);
    } else {
      System.err.println(PROGRAM + ": " + words);
      if (e != null) {
        e.printStackTrace();
      }
    }
  }

  private static void useJson(LoggerContext context) {
    PrintStream err = System.err;
    Logger root = context.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME);
    for (Iterator<Appender<ILoggingEvent>> all = root.iteratorForAppenders(); all.hasNext(); ) {
      if (all.next() instanceof OutputStreamAppender<ILoggingEvent> appender) {
        replace(appender, json(context));
        // It would write into the stream that follows.
        appender.setOutputStream(err);
      }
    }
    // What libraries and the Java runtime print, and what is no event of the log.
    System.setErr(new JsonLines(err, Level.WARN, "stderr").stream());
    System.setOut(new JsonLines(System.out, Level.INFO, PROGRAM).stream());
    Thread.setDefaultUncaughtExceptionHandler((thread, e) ->
        LoggerFactory.getLogger(PROGRAM).error("thread {} ended by a defect", thread.getName(), e));
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
