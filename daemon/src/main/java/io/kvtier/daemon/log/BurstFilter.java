package io.kvtier.daemon.log;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.turbo.TurboFilter;
import ch.qos.logback.core.spi.FilterReply;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Marker;
import org.slf4j.MarkerFactory;
import org.slf4j.helpers.MessageFormatter;

/**
 * Lets some lines of one cause through within a time, and leaves out the others; then it tells how
 * many those were. A cause is a line of the program: its logger, its level, and its text without
 * what is put into it. Errors always pass.
 */
public final class BurstFilter extends TurboFilter {
  /** Of the lines that tell what was left out. */
  public static final Marker SUMMARY = MarkerFactory.getMarker("left-out");

  private static final int CAUSES_MAX = 1024;

  /** Hears of each line that is left out, on the thread that would have written it. */
  @FunctionalInterface
  public interface Listener {
    /**
     * A line is left out; what it would have said is for the listener to put together, if it wants
     * to know.
     */
    void leftOut(
        Logger logger,
        Level level,
        String format,
        Object @Nullable [] parameters,
        @Nullable Throwable thrown);
  }

  private record Cause(Logger logger, Level level, String text) {}

  private static final class Burst {
    private final long beganNs;
    private int written;
    private long leftOut;

    /** The last line that was left out: put into words if the burst is told of, and not before. */
    private String lastFormat = "";

    private Object @Nullable [] lastParameters;

    private Burst(long beganNs) {
      this.beganNs = beganNs;
    }
  }

  private final int most;
  private final long timeNs;
  private final LongSupplier clock;
  private final Map<Cause, Burst> bursts = new LinkedHashMap<>();
  private @Nullable ScheduledExecutorService timer;
  private final AtomicReference<@Nullable Listener> listener = new AtomicReference<>();

  /**
   * A filter.
   *
   * @param most lines of a cause are written
   * @param timeNs within this time
   */
  public BurstFilter(int most, long timeNs, LongSupplier clock) {
    this.most = most;
    this.timeNs = timeNs;
    this.clock = clock;
  }

  @Override
  public void start() {
    timer =
        Executors.newSingleThreadScheduledExecutor(
            Thread.ofPlatform().daemon().name("kvtier-log").factory());
    var _ = timer.scheduleWithFixedDelay(this::tell, timeNs, timeNs, TimeUnit.NANOSECONDS);
    super.start();
  }

  @Override
  public void stop() {
    super.stop();
    if (timer != null) {
      timer.shutdownNow();
    }
  }

  @Override
  public FilterReply decide(
      @Nullable Marker marker,
      Logger logger,
      Level level,
      @Nullable String format,
      Object @Nullable [] parameters,
      @Nullable Throwable thrown) {
    // Without a text it is a question, and no line.
    if (format == null
        || SUMMARY.equals(marker)
        || level.isGreaterOrEqual(Level.ERROR)
        || !level.isGreaterOrEqual(logger.getEffectiveLevel())) {
      return FilterReply.NEUTRAL;
    }
    String text =
        parameters == null || parameters.length == 0 || !format.equals("{}")
            ? format
            : String.valueOf(parameters[0]);
    if (isToWrite(new Cause(logger, level, text), format, parameters)) {
      return FilterReply.NEUTRAL;
    }
    Listener hears = listener.get();
    if (hears != null) {
      hears.leftOut(logger, level, format, parameters, thrown);
    }
    return FilterReply.DENY;
  }

  /** Has someone hear of what is left out, in the place of whoever did so far. */
  public void tellLeftOut(Listener hears) {
    listener.set(hears);
  }

  /** Has someone hear no more of it; where another does by now, nothing changes. */
  public void tellNoMore(Listener heard) {
    var _ = listener.compareAndSet(heard, null);
  }

  private synchronized boolean isToWrite(
      Cause cause, String format, Object @Nullable [] parameters) {
    long now = clock.getAsLong();
    Burst burst = bursts.get(cause);
    if (burst == null || (now - burst.beganNs >= timeNs && burst.leftOut == 0)) {
      if (burst == null && bursts.size() >= CAUSES_MAX) {
        return true;
      }
      burst = new Burst(now);
      bursts.put(cause, burst);
    }
    if (burst.written < most) {
      burst.written++;
      return true;
    }
    burst.leftOut++;
    burst.lastFormat = format;
    burst.lastParameters = parameters;
    return false;
  }

  /** Ends the bursts whose time is over, and tells what was left out of them. */
  void tell() {
    Map<Cause, Burst> ended = takeEnded();
    ended.forEach((cause, burst) -> {
      if (burst.leftOut > 0) {
        String words =
            burst.leftOut
                + " more lines like these were left out within "
                + Math.max(1, TimeUnit.NANOSECONDS.toSeconds(clock.getAsLong() - burst.beganNs))
                + " s, the last of them: "
                + MessageFormatter.arrayFormat(burst.lastFormat, burst.lastParameters).getMessage();
        cause.logger.log(
            SUMMARY, BurstFilter.class.getName(), level(cause.level), words, null, null);
      }
    });
  }

  private synchronized Map<Cause, Burst> takeEnded() {
    Map<Cause, Burst> ended = new LinkedHashMap<>();
    long now = clock.getAsLong();
    for (Iterator<Map.Entry<Cause, Burst>> all = bursts.entrySet().iterator(); all.hasNext(); ) {
      Map.Entry<Cause, Burst> each = all.next();
      if (now - each.getValue().beganNs >= timeNs) {
        ended.put(each.getKey(), each.getValue());
        all.remove();
      }
    }
    return ended;
  }

  private static int level(Level level) {
    return Level.toLocationAwareLoggerInteger(level);
  }
}
