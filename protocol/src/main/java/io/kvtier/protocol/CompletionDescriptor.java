package io.kvtier.protocol;

/**
 * The layout of a completion record in a session's completion ring: a header, then a result for
 * each block, or with {@link #FLAG_TEXT} count bytes of UTF-8. 8-byte aligned.
 *
 * <p>ACQUIRE and RESERVE have long results; LOOKUP, LOOKUP_GROUPS, COMMIT, ABORT, RELEASE,
 * PREFETCH, PIN, UNPIN, RETAIN, DELETE, OFFLOAD, ONBOARD, ADVERTISE and REVOKE have short ones.
 * With {@link #FLAG_PEERS} a LOOKUP's results are followed, at the next multiple of 8, by the
 * region that advertises the longest prefix of the keys.
 *
 * <p>Little-endian. Generated from protocol/schema.toml.
 *
 * <pre>
 * header
 *     0 u32 record bytes
 *     4 u16 verb
 *     6 u16 flags
 *     8 u64 correlation
 *    16 u32 count         of results, or bytes of text
 *    20 u32 run           how many blocks from the first are hits
 *    24 u64 value         LOOKUP: estimated load time, ns; LOOKUP_GROUPS: that of the leading runs of all namespaces together; ACQUIRE: when the leases end, CLOCK_MONOTONIC ns; REGISTER: the namespace id; REGISTER_REGION: the region id; CLEAR, FLUSH: blocks
 *    32 u16 status
 *    34 u16 zero
 *    36 u32 zero
 *    40 u64 zero          for fields of later minor versions
 *    48 end
 * short result
 *     0 u16 status
 *     2 u8  tier
 *     3 u8  zero
 *     4 end
 * long result
 *     0 u16 status
 *     2 u8  tier
 *     3 u8  flags
 *     4 u32 checksum  CRC32C of the bytes
 *     8 u64 id        of the lease or reservation
 *    16 u32 slab
 *    20 u32 length    bytes
 *    24 u64 offset    in the slab
 *    32 end
 * advertising region
 *     0 u32 run     how many keys from the first, 1 or more
 *     4 u32 region  id
 *     8 u32 gpu     ordinal, as the daemon counts
 *    12 u32 rank    as its owner calls it
 *    16 end
 * </pre>
 */
public final class CompletionDescriptor {
  /** The body is UTF-8 text: an explanation, or an answer in JSON. */
  public static final int FLAG_TEXT = 1;

  /** The region that advertises the longest prefix follows the results. */
  public static final int FLAG_PEERS = 2;

  /**
   * Another process could have written the slot since its checksum was made: verify after reading.
   */
  public static final int BLOCK_FLAG_VERIFY = 1;

  /** The slot has the block in the encoded form of its namespace. */
  public static final int BLOCK_FLAG_ENCODED = 2;

  // Header
  public static final int RECORD_BYTES_OFFSET = 0;
  public static final int VERB_OFFSET = 4;
  public static final int FLAGS_OFFSET = 6;
  public static final int CORRELATION_OFFSET = 8;
  public static final int COUNT_OFFSET = 16;
  public static final int RUN_OFFSET = 20;
  public static final int VALUE_OFFSET = 24;
  public static final int STATUS_OFFSET = 32;
  public static final int HEADER_BYTES = 48;

  // Short result
  public static final int SHORT_RESULT_BYTES = 4;

  // Long result
  public static final int BLOCK_STATUS_OFFSET = 0;
  public static final int BLOCK_TIER_OFFSET = 2;
  public static final int BLOCK_FLAGS_OFFSET = 3;
  public static final int BLOCK_CHECKSUM_OFFSET = 4;
  public static final int BLOCK_ID_OFFSET = 8;
  public static final int BLOCK_SLAB_OFFSET = 16;
  public static final int BLOCK_LENGTH_OFFSET = 20;
  public static final int BLOCK_OFFSET_OFFSET = 24;
  public static final int LONG_RESULT_BYTES = 32;

  // Advertising region
  public static final int PEERS_RUN_OFFSET = 0;
  public static final int PEERS_REGION_OFFSET = 4;
  public static final int PEERS_GPU_OFFSET = 8;
  public static final int PEERS_RANK_OFFSET = 12;
  public static final int PEERS_BYTES = 16;

  private CompletionDescriptor() {}
}
