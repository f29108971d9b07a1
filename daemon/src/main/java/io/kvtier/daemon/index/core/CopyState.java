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
    return switch (this) {
      case NONE -> next == RESERVED || next == STAGING;
      case RESERVED -> next == STAGING || next == NONE;
      case STAGING -> next == RESIDENT || next == LEAVING || next == NONE;
      case RESIDENT -> next == LEAVING || next == NONE;
      case LEAVING -> next == NONE;
    };
  }
}
