package io.kvtier.tiers.object;

/**
 * Keeps calls away from a store that is down. So many failures in a row open it; after a while one
 * call is let through, which closes it by its success or opens it again, for twice as long. One
 * thread uses it but for {@link #state}, which any may read a little late.
 */
final class CircuitBreaker {
  /** Whether calls go through. */
  enum State {
    CLOSED,
    OPEN,
    /** The time has come for a call to try. */
    HALF_OPEN
  }

  private final int failuresMax;
  private final long openNs;
  private final long openNsMax;

  private int failures;
  private boolean trying;
  private long nextOpenNs;
  private volatile boolean open;
  private volatile long triesAtNs;

  CircuitBreaker(int failuresMax, long openNs, long openNsMax) {
    this.failuresMax = failuresMax;
    this.openNs = openNs;
    this.openNsMax = openNsMax;
    nextOpenNs = openNs;
  }

  State state(long nowNs) {
    if (!open) {
      return State.CLOSED;
    }
    return nowNs - triesAtNs >= 0 ? State.HALF_OPEN : State.OPEN;
  }

  /** Whether it was opened and no call has closed it since. */
  boolean isOpen() {
    return open;
  }

  /** Whether a call may begin; the one that tries is to be followed by its outcome. */
  boolean admit(long nowNs) {
    return switch (state(nowNs)) {
      case CLOSED -> true;
      case OPEN -> false;
      case HALF_OPEN -> {
        boolean mine = !trying;
        trying = true;
        yield mine;
      }
    };
  }

  /** The store has answered. */
  void onAnswer() {
    failures = 0;
    trying = false;
    open = false;
    nextOpenNs = openNs;
  }

  /** The store has not answered, or only to refuse. */
  void onFailure(long nowNs) {
    failures++;
    if (open ? trying : failures >= failuresMax) {
      trying = false;
      triesAtNs = nowNs + nextOpenNs;
      open = true;
      nextOpenNs = Math.min(openNsMax, 2 * nextOpenNs);
    }
  }

  /** The call that was to try ended without telling anything. */
  void onNothingLearnt() {
    trying = false;
  }
}
