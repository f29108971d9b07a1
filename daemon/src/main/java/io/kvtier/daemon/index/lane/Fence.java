package io.kvtier.daemon.index.lane;

/**
 * Keeps transfers away from a device that fails. After some errors in a row the device is fenced
 * for a while, then on trial: the next transfer shows whether it works again. One that fails
 * through several such turns is given up: it is still tried from time to time, but what can't be
 * written there has no lower tier any more. Only a transfer that succeeds ends the turns.
 */
final class Fence {
  private static final int ERRORS_MAX = 8;
  private static final int TURNS_MAX = 3;
  private static final long TURN_NS = 5_000_000_000L;

  /** How long after its last error a device counts as failing. */
  private static final long FAILING_NS = 10_000_000_000L;

  private int errors;
  private int turns;
  private long untilNs;
  private long failedNs;
  private String failure = "";
  private boolean closed;
  private String cause = "";

  /** Whether transfers may be started. */
  boolean isOpen() {
    return !closed;
  }

  /** Whether a transfer may be started, to see whether the device works again. */
  boolean isOnTrial() {
    return !closed && turns > 0;
  }

  /** Whether the device works, as far as is known. */
  boolean isWell() {
    return !closed && turns == 0;
  }

  /** Whether the device counts as gone. */
  boolean isGivenUp() {
    return turns >= TURNS_MAX;
  }

  /** In a word: open, fenced or given_up. A trial changes none of them, only its success does. */
  String state() {
    return isWell() ? "open" : isGivenUp() ? "given_up" : "fenced";
  }

  /**
   * What a transfer failed for not long ago, be it that others succeeded since: on a full device
   * some do. Empty where none did.
   */
  String failure(long nowNs) {
    return failure.isEmpty() || nowNs - failedNs >= FAILING_NS ? "" : failure;
  }

  /** What the last transfer failed for that closed it; empty while the device works. */
  String cause() {
    return cause;
  }

  void succeeded() {
    if (closed) {
      // It was under way when the fence closed: only a trial shows what the device does now.
      return;
    }
    errors = 0;
    turns = 0;
    cause = "";
  }

  void failed(long nowNs, String why) {
    if (closed) {
      // It was under way when the fence closed: no turn of its own.
      return;
    }
    failedNs = nowNs;
    failure = why.isEmpty() ? "no cause is known" : why;
    // After a turn one more error is enough.
    if (++errors >= ERRORS_MAX || turns > 0) {
      closed = true;
      turns = Math.min(TURNS_MAX, turns + 1);
      errors = 0;
      untilNs = nowNs + TURN_NS;
      cause = why;
    }
  }

  /** Opens when the time is over. */
  void check(long nowNs) {
    if (closed && nowNs >= untilNs) {
      closed = false;
    }
  }
}
