package io.kvtier.client.internal.session;

import java.util.function.BooleanSupplier;

/**
 * How long to spin before sleeping. As long as a sleep and its wake-up would take, while that
 * helps; where answers keep coming later than that (a tier is slow, or the daemon waits for the
 * very core that is spun on), only briefly, with a full trial now and then. Where the daemon's
 * index was last on the same processor, not at all: it can't answer meanwhile.
 *
 * <p>Any threads, without a lock: a lost update makes one spin longer or shorter.
 */
final class Spinning {
  private static final int FAILURES = 3;
  private static final int TRIAL_EVERY = 16;
  private static final int BRIEFER = 8;

  private final long fullNs;
  private final BooleanSupplier isIndexHere;
  private volatile int failures;
  private volatile int brief;

  /**
   * Spinning of one session.
   *
   * @param fullNs the longest
   * @param isIndexHere whether the index was last on the processor of the calling thread
   */
  Spinning(long fullNs, BooleanSupplier isIndexHere) {
    this.fullNs = fullNs;
    this.isIndexHere = isIndexHere;
  }

  /** How long to spin now. */
  long nextNs() {
    if (isIndexHere.getAsBoolean()) {
      return 0;
    }
    if (failures < FAILURES) {
      return fullNs;
    }
    int next = brief + 1;
    brief = next % TRIAL_EVERY;
    return next == TRIAL_EVERY ? fullNs : fullNs / BRIEFER;
  }

  /** The answer came while a thread spun. */
  void succeeded() {
    if (failures != 0) {
      failures = 0;
    }
  }

  /** None came, for so long. */
  void failed(long spunNs) {
    int before = failures;
    if (spunNs == fullNs && before < FAILURES) {
      failures = before + 1;
    }
  }
}
