package io.kvtier.tiers.transfer;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.helpers.NOPLogger;

/**
 * Tells operators of what fails in a part, again and again as a rule: of each kind of failure a
 * line at once, and then one a minute at most, with how many there were since. Safe for several
 * threads.
 */
public final class TroubleLog {
  /** Tells nobody. */
  public static final TroubleLog NONE = new TroubleLog(NOPLogger.NOP_LOGGER, "", () -> 0);

  private static final long REST_NS = TimeUnit.MINUTES.toNanos(1);

  private static final class Kind {
    private long toldNs;
    private long untold;

    Kind(long toldNs) {
      this.toldNs = toldNs;
    }
  }

  private final Logger log;
  private final String part;
  private final LongSupplier clock;
  private final Map<String, Kind> kinds = new HashMap<>();

  /**
   * Nothing has failed yet.
   *
   * @param part what a line begins with: which device, and where
   */
  public TroubleLog(Logger log, String part) {
    this(log, part, System::nanoTime);
  }

  TroubleLog(Logger log, String part, LongSupplier clock) {
    this.log = log;
    this.part = part;
    this.clock = clock;
  }

  /**
   * Something has failed.
   *
   * @param what the kind of failure: one of a few
   * @param why the cause of this one
   */
  public void tell(String what, String why) {
    long since = count(what);
    if (since > 0) {
      String before = since == 1 ? "" : "; " + (since - 1) + " more since the last such line";
      // As a whole: parts that fail at the same time are no burst of one cause.
      log.warn("{}", part + ": " + what + ": " + why + before);
    }
  }

  /**
   * What has failed works again.
   *
   * @param what works
   */
  public void tellOver(String what) {
    log.info("{}", part + ": " + what);
  }

  /** How many a line stands for, with this one; 0: there is none yet. */
  private long count(String what) {
    synchronized (kinds) {
      long now = clock.getAsLong();
      Kind kind = kinds.computeIfAbsent(what, _ -> new Kind(now - REST_NS));
      kind.untold++;
      if (now - kind.toldNs < REST_NS) {
        return 0;
      }
      long since = kind.untold;
      kind.toldNs = now;
      kind.untold = 0;
      return since;
    }
  }
}
