package io.kvtier.daemon;

/**
 * Whether to spin before sleeping, by what came of it before: where work seldom comes within the
 * time of a spin, spinning only takes a processor from those that compute on it.
 */
final class SpinJudge {
  /**
   * So many spins in vain one success outweighs: one costs about the processor time that a success
   * saves, which brings a client its answer sooner besides.
   */
  private static final int WON = 3;

  private static final int SCORE_MAX = 12;

  /** When it does not pay, it is tried again at each n-th sleep. */
  private static final int TRY_EVERY = 4;

  /** The sleeps without a spin after another thread has needed the processor. */
  private static final int REST = 256;

  private int score = SCORE_MAX;

  /** While the score is 0: the sleeps without a spin before the next try. */
  private int untilTry = TRY_EVERY - 1;

  /** Asked once before each sleep. */
  boolean isWorthIt() {
    if (score > 0) {
      return true;
    }
    if (untilTry > 0) {
      untilTry--;
      return false;
    }
    untilTry = TRY_EVERY - 1;
    return true;
  }

  /** Work came while it was spinning. */
  void won() {
    score = Math.min(SCORE_MAX, score + WON);
  }

  /** While it spun, another thread had the processor. */
  void displaced() {
    score = 0;
    untilTry = REST;
  }

  /** It spun, and went to sleep all the same. */
  void lost() {
    score = Math.max(0, score - 1);
  }
}
