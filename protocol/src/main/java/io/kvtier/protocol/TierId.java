package io.kvtier.protocol;

/** The tier of a block. Append-only. Generated from protocol/schema.toml. */
public enum TierId {
  NONE(0),
  GPU(1),
  HOST(2),
  SSD(3),
  OBJECT(4),
  NODE(5);

  private static final TierId[] BY_CODE = values();

  private final int code;

  TierId(int code) {
    this.code = code;
  }

  /** The number on the wire, an unsigned 8-bit value. */
  public int code() {
    return code;
  }

  /** The value of a code, or {@link #NONE} for a code that is none. */
  public static TierId of(int code) {
    return code >= 0 && code < BY_CODE.length ? BY_CODE[code] : NONE;
  }
}
