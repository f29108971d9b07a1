package io.kvtier.daemon.http;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.classic.spi.IThrowableProxy;
import ch.qos.logback.core.AppenderBase;
import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvtier.daemon.log.BurstFilter;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.LoggerFactory;
import org.slf4j.Marker;
import org.slf4j.helpers.FormattingTuple;
import org.slf4j.helpers.MessageFormatter;

/**
 * The last warnings and errors that the daemon logged, the newest first. The same one again is
 * counted, not kept twice. Logged to from any thread.
 */
final class RecentErrors extends AppenderBase<ILoggingEvent> {
  private static final int ENTRIES_MAX = 128;
  private static final int TEXT_MAX = 1024;

  private static final class Entry {
    private final String level;
    private final String source;
    private final String text;
    private final long firstMs;
    private long lastMs;
    private long count;

    private Entry(String level, String source, String text, long atMs) {
      this.level = level;
      this.source = source;
      this.text = text;
      this.firstMs = atMs;
    }
  }

  private final Object entriesLock = new Object();

  @GuardedBy("entriesLock")
  private final Deque<Entry> entries = new ArrayDeque<>();

  /** One and the same: the filter is told to forget this one, and no other. */
  private final BurstFilter.Listener leftOut = this::noteLeftOut;

  /** Begins to listen to all that is logged, and to what is left out of a burst. */
  static RecentErrors listen() {
    RecentErrors errors = new RecentErrors();
    errors.setName("recent-errors");
    if (LoggerFactory.getILoggerFactory() instanceof LoggerContext context) {
      errors.setContext(context);
      errors.start();
      context.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME).addAppender(errors);
      burstFilters(context).forEach(filter -> filter.tellLeftOut(errors.leftOut));
    }
    return errors;
  }

  private static Stream<BurstFilter> burstFilters(LoggerContext context) {
    return context.getTurboFilterList().stream()
        .filter(BurstFilter.class::isInstance)
        .map(BurstFilter.class::cast);
  }

  /** Listens no more. */
  void detach() {
    if (LoggerFactory.getILoggerFactory() instanceof LoggerContext context) {
      var _ = context.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME).detachAppender(this);
      burstFilters(context).forEach(filter -> filter.tellNoMore(leftOut));
    }
    stop();
  }

  @Override
  protected void append(ILoggingEvent event) {
    // Of a burst, each line was counted when it was left out.
    if (isToNote(event.getLevel()) && !isSummary(event)) {
      IThrowableProxy thrown = event.getThrowableProxy();
      String text = String.valueOf(event.getFormattedMessage());
      note(
          event.getLevel().toString(),
          source(event.getLoggerName()),
          thrown == null ? text : text + ": " + thrown.getMessage(),
          event.getTimeStamp());
    }
  }

  private void noteLeftOut(
      Logger logger,
      Level level,
      String format,
      Object @Nullable [] parameters,
      @Nullable Throwable thrown) {
    if (isToNote(level)) {
      FormattingTuple line = MessageFormatter.arrayFormat(format, parameters);
      Throwable cause = thrown == null ? line.getThrowable() : thrown;
      String text = String.valueOf(line.getMessage());
      note(
          level.toString(),
          source(logger.getName()),
          cause == null ? text : text + ": " + cause.getMessage(),
          System.currentTimeMillis());
    }
  }

  private static boolean isToNote(Level level) {
    return level.isGreaterOrEqual(Level.WARN);
  }

  private static boolean isSummary(ILoggingEvent event) {
    List<Marker> markers = event.getMarkerList();
    return markers != null && markers.contains(BurstFilter.SUMMARY);
  }

  private static String source(String logger) {
    return logger.substring(logger.lastIndexOf('.') + 1);
  }

  /** Notes an error. */
  void note(String level, String source, String whole, long atMs) {
    String text = whole.length() > TEXT_MAX ? whole.substring(0, TEXT_MAX) + "…" : whole;
    synchronized (entriesLock) {
      Entry entry = null;
      for (Iterator<Entry> i = entries.iterator(); i.hasNext() && entry == null; ) {
        Entry known = i.next();
        if (known.text.equals(text) && known.source.equals(source) && known.level.equals(level)) {
          i.remove();
          entry = known;
        }
      }
      if (entry == null) {
        entry = new Entry(level, source, text, atMs);
      }
      entry.count++;
      entry.lastMs = atMs;
      entries.addFirst(entry);
      if (entries.size() > ENTRIES_MAX) {
        entries.removeLast();
      }
    }
  }

  JsonObject json() {
    JsonArray all = new JsonArray();
    synchronized (entriesLock) {
      for (Entry entry : entries) {
        all.add(
            new JsonObject()
                .put("level", entry.level)
                .put("source", entry.source)
                .put("text", entry.text)
                .put("count", entry.count)
                .put("first", Instant.ofEpochMilli(entry.firstMs).toString())
                .put("last", Instant.ofEpochMilli(entry.lastMs).toString()));
      }
    }
    return new JsonObject().put("errors", all);
  }
}
