package io.kvtier.daemon.index.core;

/**
 * The life of a block's copy in one tier. A closed cycle: every change of state is checked against
 * it.
 *
 * <pre>
 *   NONE -> RESERVED -> STAGING -> RESIDENT -> LEAVING -> NONE
 *     \________________/   \___________________/
 *      (load, store)         (failed)
 * </pre>
 */
public enum CopyState {
  /** No copy, no slot. */
  NONE(0),
  /** A client was granted the slot and may be writing it. */
  RESERVED(1),
  /** All bytes are, or are being put, in place; not verified yet. Not visible. */
  STAGING(2),
  /** Verified and visible. */
  RESIDENT(3),
  /** Not visible any more; the slot is freed when the last hold ends. */
  LEAVING(4);

  private static final CopyState[] BY_CODE = values();

  /**
   * The states that may follow each, a bit for each code. A table: the index asks for each block.
   */
  private static final int[] FOLLOWERS = {
    mask(RESERVED, STAGING),
    mask(STAGING, NONE),
    mask(RESIDENT, LEAVING, NONE),
    mask(LEAVING, NONE),
    mask(NONE)
  };

  private final int code;

  CopyState(int code) {
    this.code = code;
  }

  /** The number in a directory record, four bits. */
  public int code() {
    return code;
  }

  static CopyState of(int code) {
    return BY_CODE[code];
  }

  boolean canBecome(CopyState next) {
    return (FOLLOWERS[code] & 1 << next.code) != 0;
  }

  private static int mask(CopyState... states) {
    int mask = 0;
    for (CopyState state : states) {
      mask |= 1 << state.code;
    }
    return mask;
  }
}
