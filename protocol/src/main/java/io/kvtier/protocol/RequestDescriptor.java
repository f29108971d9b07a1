package io.kvtier.protocol;

/**
 * The layout of a request record in a session's request ring: a header, the body that its verb has
 * ({@link RequestBody}), and perhaps a trace context. 8-byte aligned.
 *
 * <p>Keys are in prefix order: each is the parent of the next. With {@link #FLAG_PARENT} one more
 * key stands before the first and is its parent; it is not part of the count.
 *
 * <p>A body is one of these, padded with zeroes to a multiple of 8:
 *
 * <ul>
 *   <li>count keys, {@link Records#keyStride} bytes each
 *   <li>count keys, then count numbers, u32: of blocks of the region (OFFLOAD, ONBOARD, ADVERTISE),
 *       or of namespaces (LOOKUP_GROUPS)
 *   <li>count ids, u64; of COMMIT with {@link #FLAG_CHECKSUMS} each with its CRC32C (u32) and a
 *       zero (u32)
 *   <li>count bytes of UTF-8, of ANNOTATE's entries, or of REPORT_LOADS' record
 * </ul>
 *
 * <p>Little-endian. Generated from protocol/schema.toml.
 *
 * <pre>
 * header
 *     0 u32 record bytes
 *     4 u16 verb
 *     6 u16 flags
 *     8 u64 correlation   the id that the completion names
 *    16 u64 deadline      CLOCK_MONOTONIC ns; 0: the daemon's default
 *    24 u32 namespace
 *    28 u16 group
 *    30 u8  priority
 *    31 u8  key bytes
 *    32 u32 count         of keys, ids, or bytes of text
 *    36 u32 depth         of the first key in its sequence
 *    40 u64 argument      lease duration ns (ACQUIRE; 0: default), correlation id to cancel (CANCEL), block bytes (REGISTER), region id (UNREGISTER_REGION, REVOKE), u32 rank (ADVERTISE), lifetime ns (RETAIN; 0: the retention ends)
 *    48 u32 region        region id (OFFLOAD, ONBOARD, ADVERTISE)
 *    52 u16 first layer
 *    54 u16 end layer     0: all layers (OFFLOAD, ONBOARD)
 *    56 u32 event         counted from 1; 0: none
 *    60 u32 progress      the word that counts layers, counted from 1; 0: none
 *    64 u32 shard         RESERVE: the region in host memory whose shard of each block the client will write; 0: whole blocks. ACQUIRE with FLAG_EXPECTED: the CRC32C of the node's name, or of its address
 *    68 u32 reserved      zero to the end of the header: for fields of later minor versions
 *    96 end
 * trace context: the last bytes of a record with FLAG_CONTEXT
 *     0 u8[16] trace    id, in the order of its hexadecimal digits; not all zero
 *    16 u8[8]  span     id of the caller, in that order; not all zero
 *    24 u64    written  when the record was written, CLOCK_MONOTONIC ns; 0: not told
 *    32 u8     flags    of W3C traces
 *    33 u8[7]  zero
 *    40 end
 * </pre>
 */
public final class RequestDescriptor {
  /** A parent key precedes the keys. */
  public static final int FLAG_PARENT = 1;

  /** The client wants no completion: for RELEASE, ABORT and CANCEL only. */
  public static final int FLAG_SILENT = 2;

  /**
   * ACQUIRE (and ONBOARD) stops at the first block that is not there: only the leading run is
   * leased.
   */
  public static final int FLAG_LEADING_RUN = 4;

  /**
   * ACQUIRE (and ONBOARD) answers from the first tier only. Blocks in lower tiers are PENDING, and
   * their promotion begins.
   */
  public static final int FLAG_NO_WAIT = 8;

  /**
   * COMMIT has the CRC32C of each block, made while the block was copied. RESERVE announces such a
   * COMMIT, and can then get slots that another client may still write.
   */
  public static final int FLAG_CHECKSUMS = 16;

  /**
   * RELEASE of leases whose bytes did not match their checksum: the daemon checks the blocks, and
   * drops damaged ones.
   */
  public static final int FLAG_CORRUPT = 32;

  /** The record ends with the trace context of its request. */
  public static final int FLAG_CONTEXT = 64;

  /**
   * RESERVE and OFFLOAD: the importance of the blocks for policies, 0 to 3, exclusive-or 1. So 0
   * stands for the importance 1, which is the usual one.
   */
  public static final int IMPORTANCE_MASK = 384;

  public static final int IMPORTANCE_SHIFT = 7;
  public static final int IMPORTANCE_NORMAL = 1;
  public static final int IMPORTANCE_MAX = 3;

  /**
   * RESERVE: the client will write the blocks in the encoded form of their namespace. ACQUIRE: the
   * client reads that form, too; without this flag, encoded blocks are a MISS. Since version 2.1.
   */
  public static final int FLAG_ENCODED = 512;

  /**
   * LOOKUP, LOOKUP_GROUPS: forget that other nodes have said that they do not have these blocks,
   * and ask them again. Since version 2.2.
   */
  public static final int FLAG_FRESH = 1024;

  /**
   * ACQUIRE: the node that the request names is going to have the blocks that are nowhere yet. They
   * come from there piece by piece, as they are written. Since version 2.3.
   */
  public static final int FLAG_EXPECTED = 2048;

  /** All flags of this version. */
  public static final int FLAGS_ALL = 4095;

  public static final int PRIORITY_HIGH = 0;
  public static final int PRIORITY_NORMAL = 1;
  public static final int PRIORITY_LOW = 2;

  /** FLUSH: all namespaces of all tenants. No namespace has this id. */
  public static final int NAMESPACE_ALL = 0x7FFFFFFF;

  // Header
  public static final int RECORD_BYTES_OFFSET = 0;
  public static final int VERB_OFFSET = 4;
  public static final int FLAGS_OFFSET = 6;
  public static final int CORRELATION_OFFSET = 8;
  public static final int DEADLINE_OFFSET = 16;
  public static final int NAMESPACE_OFFSET = 24;
  public static final int GROUP_OFFSET = 28;
  public static final int PRIORITY_OFFSET = 30;
  public static final int KEY_BYTES_OFFSET = 31;
  public static final int COUNT_OFFSET = 32;
  public static final int DEPTH_OFFSET = 36;
  public static final int ARGUMENT_OFFSET = 40;
  public static final int REGION_OFFSET = 48;
  public static final int FIRST_LAYER_OFFSET = 52;
  public static final int END_LAYER_OFFSET = 54;
  public static final int EVENT_OFFSET = 56;
  public static final int PROGRESS_OFFSET = 60;
  public static final int SHARD_OFFSET = 64;
  public static final int RESERVED_OFFSET = 68;
  public static final int HEADER_BYTES = 96;

  // Trace context: the last bytes of a record with FLAG_CONTEXT
  public static final int CONTEXT_TRACE_OFFSET = 0;
  public static final int CONTEXT_SPAN_OFFSET = 16;
  public static final int CONTEXT_WRITTEN_OFFSET = 24;
  public static final int CONTEXT_FLAGS_OFFSET = 32;
  public static final int CONTEXT_BYTES = 40;

  private RequestDescriptor() {}
}
