package io.kvtier.daemon.index;

/**
 * The life of a block's copy in one tier. A closed cycle: every change of state is checked against it.
 *
 * <pre>
 *   NONE -> RESERVED -> STAGING -> RESIDENT -> LEAVING -> NONE
 *     \________________/   \___________________/
 *      (load, store)         (failed)
 * </pre>
 */
enum CopyState {
  /** No copy, no slot. */
  NONE,
  /** A client was granted the slot and may be writing it. */
  RESERVED,
  /** All bytes are, or are being put, in place; not verified yet. Not visible. */
  STAGING,
  /** Verified and visible. */
  RESIDENT,
  /** Not visible any more; the slot is freed when the last hold ends. */
  LEAVING;

  private static final CopyState[] BY_ORDINAL = values();

  static CopyState of(int ordinal) {
    return BY_ORDINAL[ordinal];
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
