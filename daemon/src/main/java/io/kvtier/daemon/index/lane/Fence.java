package io.kvtier.daemon.index.lane;

/**
 * Keeps transfers away from a device that fails. After some errors in a row the device is fenced
 * for a while, then on trial: the next transfer shows whether it works again. A device that fails
 * in several turns is given up: it is still tried from time to time, but blocks no longer wait for
 * it. Only a transfer that succeeds ends the turns.
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

  /** Whether the device works, as far as is known. */
  boolean isWell() {
    return !closed && turns == 0;
  }

  /** Whether the device counts as gone. */
  boolean isGivenUp() {
    return turns >= TURNS_MAX;
  }

  /** The state in a word: open, fenced or given_up. A fence on trial keeps its state. */
  String state() {
    return isWell() ? "open" : isGivenUp() ? "given_up" : "fenced";
  }

  /**
   * The cause of a failure not long ago; empty when there was none. Other transfers may have
   * succeeded since then: on a full device, some do.
   */
  String failure(long nowNs) {
    return failure.isEmpty() || nowNs - failedNs >= FAILING_NS ? "" : failure;
  }

  /** The cause of the failure that closed the fence; empty while the device works. */
  String cause() {
    return cause;
  }

  void succeeded() {
    if (closed) {
      // The transfer was under way when the fence closed: only a trial shows what the device does
      // now.
      return;
    }
    errors = 0;
    turns = 0;
    cause = "";
  }

  void failed(long nowNs, String why) {
    if (closed) {
      // The transfer was under way when the fence closed: it begins no further turn.
      return;
    }
    failedNs = nowNs;
    failure = why.isEmpty() ? "no cause is known" : why;
    // After a turn, one more error closes the fence.
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
