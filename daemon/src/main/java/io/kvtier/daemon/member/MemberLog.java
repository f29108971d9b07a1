package io.kvtier.daemon.member;

import io.kvtier.protocol.Printable;
import io.kvtier.tiers.transfer.TroubleLog;
import java.util.Locale;
import org.jgroups.logging.CustomLogFactory;
import org.jgroups.logging.Log;
import org.jgroups.logging.LogFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Puts what JGroups logs into the daemon's log. Warnings and errors are repeated at most once a
 * minute for each part of JGroups. All else is of use to those who look for a defect: debug.
 */
final class MemberLog implements Log {
  private static final TroubleLog TROUBLES =
      new TroubleLog(LoggerFactory.getLogger(MemberLog.class), "membership");

  private final Logger log;
  private final String part;

  private MemberLog(String category) {
    log = LoggerFactory.getLogger(category);
    part = category.substring(category.lastIndexOf('.') + 1);
  }

  /** Has JGroups log here; before its first class with a log is loaded. */
  static void install() {
    LogFactory.setCustomLogFactory(
        new CustomLogFactory() {
          @Override
          public Log getLog(Class<?> of) {
            return new MemberLog(of.getName());
          }

          @Override
          public Log getLog(String category) {
            return new MemberLog(category);
          }
        });
  }

  private void trouble(String what) {
    TROUBLES.tell(part, Printable.of(what));
  }

  private void detail(String what) {
    log.debug("{}", what);
  }

  // The formats are those of JGroups.
  @SuppressWarnings("AnnotateFormatMethod")
  private static String text(String format, Object... words) {
    return String.format(Locale.ROOT, format, words);
  }

  @Override
  public boolean isFatalEnabled() {
    return true;
  }

  @Override
  public boolean isErrorEnabled() {
    return true;
  }

  @Override
  public boolean isWarnEnabled() {
    return true;
  }

  @Override
  public boolean isInfoEnabled() {
    return log.isDebugEnabled();
  }

  @Override
  public boolean isDebugEnabled() {
    return log.isDebugEnabled();
  }

  @Override
  public boolean isTraceEnabled() {
    return log.isTraceEnabled();
  }

  @Override
  public void fatal(String message) {
    trouble(message);
  }

  @Override
  public void fatal(String format, Object... words) {
    trouble(text(format, words));
  }

  @Override
  public void fatal(String message, Throwable cause) {
    trouble(message + ": " + cause);
  }

  @Override
  public void error(String message) {
    trouble(message);
  }

  @Override
  public void error(String format, Object... words) {
    trouble(text(format, words));
  }

  @Override
  public void error(String message, Throwable cause) {
    trouble(message + ": " + cause);
  }

  @Override
  public void warn(String message) {
    trouble(message);
  }

  @Override
  public void warn(String format, Object... words) {
    trouble(text(format, words));
  }

  @Override
  public void warn(String message, Throwable cause) {
    trouble(message + ": " + cause);
  }

  @Override
  public void info(String message) {
    detail(message);
  }

  @Override
  public void info(String format, Object... words) {
    if (isInfoEnabled()) {
      detail(text(format, words));
    }
  }

  @Override
  public void debug(String message) {
    detail(message);
  }

  @Override
  public void debug(String format, Object... words) {
    if (isDebugEnabled()) {
      detail(text(format, words));
    }
  }

  @Override
  public void debug(String message, Throwable cause) {
    log.debug(message, cause);
  }

  @Override
  public void trace(Object message) {
    log.trace("{}", message);
  }

  @Override
  public void trace(String message) {
    log.trace("{}", message);
  }

  @Override
  public void trace(String format, Object... words) {
    if (isTraceEnabled()) {
      log.trace("{}", text(format, words));
    }
  }

  @Override
  public void trace(String message, Throwable cause) {
    log.trace(message, cause);
  }

  /** The daemon's configuration decides. */
  @Override
  public void setLevel(String level) {}

  @Override
  public String getLevel() {
    return isTraceEnabled() ? "trace" : isDebugEnabled() ? "debug" : "warn";
  }
}
