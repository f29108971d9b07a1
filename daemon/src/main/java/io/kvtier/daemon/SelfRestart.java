package io.kvtier.daemon;

import io.kvtier.protocol.linux.ProcessImage;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts the daemon anew, in the same process, after an error of CUDA's that only a new process
 * mends. It is stopped as always before, so that what is in memory is there again.
 *
 * <p>Once in {@link #APART}: a GPU that fails again at once would have the daemon start for ever.
 */
final class SelfRestart {
  /** The variable that tells the next start when and why: seconds since 1970, a space, the text. */
  static final String VARIABLE = "KVTIER_STARTED_ANEW";

  static final Duration APART = Duration.ofMinutes(10);

  private static final Logger LOG = LoggerFactory.getLogger(SelfRestart.class);

  /** Time for whoever has to be told of the error. */
  private static final long LOOK_MS = 1000;

  private final String forbidden;
  private final @Nullable Instant last;
  private volatile @Nullable String reason;

  /**
   * One that has not happened.
   *
   * @param environment this process's
   * @param forbidden why it must not be; empty: it may
   */
  SelfRestart(Map<String, String> environment, String forbidden) {
    this.forbidden = forbidden;
    String[] before = environment.getOrDefault(VARIABLE, "").split(" ", 2);
    Instant at = null;
    if (before.length == 2) {
      try {
        at = Instant.ofEpochSecond(Long.parseLong(before[0]));
        LOG.warn("started anew because {}", before[1]);
      } catch (NumberFormatException _) {
        LOG.warn("{} is not this program's: it is left alone", VARIABLE);
      }
    }
    last = at;
  }

  /** Why it is not to be, in words; null: it is. */
  @Nullable String refusal(Instant now) {
    if (!forbidden.isEmpty()) {
      return forbidden;
    }
    return last == null || Duration.between(last, now).abs().compareTo(APART) >= 0
        ? null
        : "it was started anew at " + last + " already";
  }

  /**
   * From now on has the daemon stopped when there is a cause.
   *
   * @param cause null while there is none
   * @param stop stops the daemon; {@link #begin} comes at its end
   */
  void watch(Supplier<@Nullable String> cause, Runnable stop) {
    Thread _ = Thread.ofPlatform().daemon().name("kvtier-restart").start(() -> look(cause, stop));
  }

  private void look(Supplier<@Nullable String> cause, Runnable stop) {
    try {
      String found = cause.get();
      while (found == null) {
        TimeUnit.MILLISECONDS.sleep(LOOK_MS);
        found = cause.get();
      }
      TimeUnit.MILLISECONDS.sleep(LOOK_MS);
      String refusal = refusal(Instant.now());
      if (refusal != null) {
        LOG.warn("{}; the daemon is not started anew: {}", found, refusal);
        return;
      }
      LOG.warn("{}; the daemon starts anew", found);
      reason = found;
      stop.run();
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    }
  }

  /** Whether the daemon stops for that. */
  boolean isDue() {
    return reason != null;
  }

  /** Starts the daemon anew, where that {@link #isDue}; it has been stopped. */
  void begin() {
    try {
      ProcessImage.replace(VARIABLE, Instant.now().getEpochSecond() + " " + reason);
    } catch (IOException e) {
      LOG.error("the daemon can't be started anew", e);
      Runtime.getRuntime().halt(1);
    }
  }
}
