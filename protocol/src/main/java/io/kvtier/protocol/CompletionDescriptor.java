package io.kvtier.protocol;

/**
 * The layout of a completion record in a session's completion ring. Little-endian, 8-byte aligned.
 *
 * <pre>
 *    0  u32 record bytes   4  u8 verb   5  u8 flags   6  u16 status
 *    8  u64 correlation id
 *   16  u32 count         20  u32 leading run: how many blocks from the first are hits
 *   24  u64 value         LOOKUP: estimated load time, ns; ACQUIRE: when the leases end, CLOCK_MONOTONIC ns;
 *                         REGISTER: the namespace id; REGISTER_REGION: the region id; CLEAR, FLUSH: blocks
 *   32  body              count x block result, or count bytes of UTF-8 with {@link #FLAG_TEXT}
 * </pre>
 *
 * A block result of LOOKUP, COMMIT, ABORT, RELEASE, PREFETCH, PIN, UNPIN, DELETE, OFFLOAD, ONBOARD,
 * ADVERTISE and REVOKE takes 4 bytes:
 *
 * <pre>
 *    0  u16 status   2  u8 tier   3  u8 zero
 * </pre>
 *
 * One of ACQUIRE and RESERVE takes 32 bytes:
 *
 * <pre>
 *    0  u16 status   2  u8 tier   3  u8 block flags   4  u32 CRC32C of the bytes
 *    8  u64 lease or reservation id
 *   16  u32 slab    20  u32 length in bytes          24  u64 offset in the slab
 * </pre>
 *
 * With {@link #FLAG_PEERS} a LOOKUP's results are followed, at the next multiple of 8, by the
 * region that advertises the longest prefix of the keys:
 *
 * <pre>
 *    0  u32 how many keys from the first, 1 or more      4  u32 region id
 *    8  u32 ordinal of its GPU, as the daemon counts    12  u32 rank, as its owner calls it
 * </pre>
 */
public final class CompletionDescriptor {
  public static final int RECORD_BYTES_OFFSET = 0;
  public static final int VERB_OFFSET = 4;
  public static final int FLAGS_OFFSET = 5;
  public static final int STATUS_OFFSET = 6;
  public static final int CORRELATION_OFFSET = 8;
  public static final int COUNT_OFFSET = 16;
  public static final int RUN_OFFSET = 20;
  public static final int VALUE_OFFSET = 24;
  public static final int HEADER_BYTES = 32;

  public static final int BLOCK_STATUS_OFFSET = 0;
  public static final int BLOCK_TIER_OFFSET = 2;
  public static final int BLOCK_FLAGS_OFFSET = 3;
  public static final int BLOCK_CHECKSUM_OFFSET = 4;
  public static final int BLOCK_ID_OFFSET = 8;
  public static final int BLOCK_SLAB_OFFSET = 16;
  public static final int BLOCK_LENGTH_OFFSET = 20;
  public static final int BLOCK_OFFSET_OFFSET = 24;

  public static final int SHORT_RESULT_BYTES = 4;
  public static final int LONG_RESULT_BYTES = 32;

  /** The body is UTF-8 text: an explanation, or an answer in JSON. */
  public static final int FLAG_TEXT = 1;

  /**
   * Another process could have written the slot since its checksum was made: verify after reading.
   */
  public static final int BLOCK_FLAG_VERIFY = 1;

  /** Which region advertises the longest prefix follows the results. Since version 1.3. */
  public static final int FLAG_PEERS = 2;

  public static final int PEERS_RUN_OFFSET = 0;
  public static final int PEERS_REGION_OFFSET = 4;
  public static final int PEERS_GPU_OFFSET = 8;
  public static final int PEERS_RANK_OFFSET = 12;
  public static final int PEERS_BYTES = 16;

  private CompletionDescriptor() {}

  /** The bytes of one block's result. */
  public static int resultBytes(Verb verb) {
    return verb == Verb.ACQUIRE || verb == Verb.RESERVE ? LONG_RESULT_BYTES : SHORT_RESULT_BYTES;
  }

  /** The bytes of a record with that many results. */
  public static int recordBytes(Verb verb, int count) {
    return HEADER_BYTES + ((count * resultBytes(verb) + 7) & ~7);
  }

  /** The bytes of a record with a text body. */
  public static int textRecordBytes(int textBytes) {
    return HEADER_BYTES + ((textBytes + 7) & ~7);
  }
}
