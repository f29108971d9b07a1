package io.kvtier.protocol;

/**
 * The outcome of an operation or of one of its blocks. Append-only: a number never changes its
 * meaning. Generated from protocol/schema.toml.
 */
public enum Status {
  OK(0, "done"),
  MISS(1, "the block is not here"),
  PENDING(2, "the block is on its way: being written, or moving between tiers"),
  EXISTS(3, "the block is already here; nothing was done, and that is a success"),
  BUSY(4, "a limit is reached; try again later"),
  DEADLINE(5, "the deadline passed before the block was ready"),
  CANCELLED(6, "cancelled by its client"),
  UNAVAILABLE(7, "no daemon answers; the client reconnects by itself"),
  NAMESPACE_UNKNOWN(8, "the namespace was not registered in this session"),
  NAMESPACE_MISMATCH(9, "the namespace is registered with other properties"),
  INVALID_ARGUMENT(10, "an argument is out of its range"),
  CORRUPT(11, "the bytes do not match their checksum; the block was dropped"),
  STALE(12, "the lease or reservation is no longer valid"),
  DENIED(13, "the peer may not do this"),
  VERSION_MISMATCH(14, "client and daemon speak different versions of the protocol"),
  SESSION_ENDED(15, "the session has ended"),
  IO_ERROR(16, "a device failed"),
  TOO_LARGE(17, "larger than a limit allows"),
  INTERNAL(18, "a defect of the daemon"),
  NOT_ADMITTED(19, "no new block is taken: the daemon is drained"),
  OVER_QUOTA(20, "more than the tenant may retain");

  private static final Status[] BY_CODE = values();

  private final int code;
  private final String meaning;

  Status(int code, String meaning) {
    this.code = code;
    this.meaning = meaning;
  }

  /** The number on the wire, an unsigned 16-bit value. */
  public int code() {
    return code;
  }

  /** The meaning, for people. */
  public String meaning() {
    return meaning;
  }

  /** The value of a code, or {@link #INTERNAL} for a code that is none. */
  public static Status of(int code) {
    return code >= 0 && code < BY_CODE.length ? BY_CODE[code] : INTERNAL;
  }
}
