package io.kvtier.protocol;

/** The body that follows the header of a request. Generated from protocol/schema.toml. */
public enum RequestBody {
  NONE,

  /** Block keys, {@link Records#keyStride} bytes each. */
  KEYS,

  /** Block keys, and behind them as many numbers of a region's blocks, 4 bytes each. */
  KEYS_AND_BLOCKS,

  /** Lease or reservation ids, 8 bytes each. */
  IDS,

  /**
   * UTF-8 text, the entries of ANNOTATE, or the record of REPORT_LOADS; the count is its length in
   * bytes.
   */
  TEXT
}
