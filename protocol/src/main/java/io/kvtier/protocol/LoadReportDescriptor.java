package io.kvtier.protocol;

/**
 * The layout of the body of REPORT_LOADS: what the loads of an engine since its last report have
 * saved. All of its blocks are of the request's namespace.
 *
 * <p>Little-endian. Generated from protocol/schema.toml.
 *
 * <pre>
 * record
 *     0 u32 blocks      that were loaded
 *     4 u32 zero
 *     8 u64 tokens      that the engine did not compute because of these blocks
 *    16 u64 prefill ns  that computing these tokens would have taken; 0: the engine does not know its speed yet
 *    24 u64 load ns     that the loads took, failed ones too
 *    32 end
 * </pre>
 */
public final class LoadReportDescriptor {
  /** The most blocks of one report. */
  public static final int BLOCKS_MAX = 65536;

  /** The most tokens of one block. */
  public static final int BLOCK_TOKENS_MAX = 65536;

  /** The longest time that computing one token can take, seconds. */
  public static final int TOKEN_S_MAX = 1;

  /** The longest time that the loads of one report can have taken together, seconds. */
  public static final int LOADS_S_MAX = 86400;

  // Record
  public static final int BLOCKS_OFFSET = 0;
  public static final int TOKENS_OFFSET = 8;
  public static final int PREFILL_NS_OFFSET = 16;
  public static final int LOAD_NS_OFFSET = 24;
  public static final int BYTES = 32;

  private LoadReportDescriptor() {}
}
