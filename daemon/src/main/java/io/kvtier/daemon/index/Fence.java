package io.kvtier.daemon.index;

/**
 * Keeps transfers away from a device that fails. After some errors in a row the device is fenced
 * for a while, then tried again; one that fails through several such turns is given up: it is still
 * tried from time to time, but what can't be written there has no lower tier any more.
 */
final class Fence {
  private static final int ERRORS_MAX = 8;
  private static final int TURNS_MAX = 3;
  private static final long TURN_NS = 5_000_000_000L;

  private int errors;
  private int turns;
  private long untilNs;
  private boolean closed;

  /** Whether transfers may be started. */
  boolean isOpen() {
    return !closed;
  }

  /** Whether the device counts as gone. */
  boolean isGivenUp() {
    return closed && turns >= TURNS_MAX;
  }

  /** In a word: open, fenced or given_up. */
  String state() {
    return isOpen() ? "open" : isGivenUp() ? "given_up" : "fenced";
  }

  void succeeded() {
    errors = 0;
    turns = 0;
  }

  void failed(long nowNs) {
    if (closed) {
      // It was under way when the fence closed: no turn of its own.
      return;
    }
    // After a turn one more error is enough.
    if (++errors >= ERRORS_MAX || turns > 0) {
      closed = true;
      turns = Math.min(TURNS_MAX, turns + 1);
      errors = 0;
      untilNs = nowNs + TURN_NS;
    }
  }

  /** Opens when the time is over. */
  void check(long nowNs) {
    if (closed && nowNs >= untilNs) {
      closed = false;
    }
  }
}
