package io.kvtier.protocol;

/**
 * The layout of a request record in a session's request ring. Little-endian, 8-byte aligned.
 *
 * <pre>
 *    0  u32 record bytes   4  u8 verb   5  u8 flags   6  u8 priority   7  u8 key bytes
 *    8  u64 correlation id
 *   16  u64 deadline, CLOCK_MONOTONIC ns; 0: the daemon's default
 *   24  u32 namespace id  28  u16 group  30  u16 zero
 *   32  u32 count         36  u32 depth of the first key in its sequence
 *   40  u64 argument      lease duration ns (ACQUIRE; 0: default), correlation id to cancel (CANCEL),
 *                         block bytes (REGISTER), region id (UNREGISTER_REGION, REVOKE), u32 rank (ADVERTISE)
 *   48  u32 region id (and ADVERTISE)  52  u16 first layer  54  u16 end of layers; 0: all (OFFLOAD, ONBOARD; else zero)
 *   56  u32 event         60  u32 progress word; each counted from 1, 0: none
 *   64  body              count x key stride | count x u64 id | count bytes of UTF-8
 *                         | count x key stride, count x u32 block of the region (OFFLOAD, ONBOARD, ADVERTISE)
 *                         | count x (u64 id, u32 CRC32C, u32 zero), COMMIT with {@link #FLAG_CHECKSUMS}
 * </pre>
 *
 * With {@link #FLAG_CONTEXT} the record's last {@link #CONTEXT_BYTES} bytes, behind the body, are
 * the trace context in which its client works ({@link TraceContext}):
 *
 * <pre>
 *    0  16 bytes trace id, in the order of its hexadecimal digits; not all zero
 *   16  8 bytes span id of the caller, in that order; not all zero
 *   24  u64 when the record was written, CLOCK_MONOTONIC ns; 0: not told
 *   32  u8 W3C trace flags     33  7 bytes zero
 * </pre>
 *
 * Keys are in prefix order: each is the parent of the next. With {@link #FLAG_PARENT} one more key
 * stands before the first and is its parent; it is not part of the count.
 */
public final class RequestDescriptor {
  public static final int RECORD_BYTES_OFFSET = 0;
  public static final int VERB_OFFSET = 4;
  public static final int FLAGS_OFFSET = 5;
  public static final int PRIORITY_OFFSET = 6;
  public static final int KEY_BYTES_OFFSET = 7;
  public static final int CORRELATION_OFFSET = 8;
  public static final int DEADLINE_OFFSET = 16;
  public static final int NAMESPACE_OFFSET = 24;
  public static final int GROUP_OFFSET = 28;
  public static final int COUNT_OFFSET = 32;
  public static final int DEPTH_OFFSET = 36;
  public static final int ARGUMENT_OFFSET = 40;
  public static final int REGION_OFFSET = 48;
  public static final int FIRST_LAYER_OFFSET = 52;
  public static final int END_LAYER_OFFSET = 54;
  public static final int EVENT_OFFSET = 56;
  public static final int PROGRESS_OFFSET = 60;
  public static final int HEADER_BYTES = 64;

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
   * ACQUIRE (and ONBOARD) answers from the host tier only; what is lower is PENDING and its
   * promotion is started.
   */
  public static final int FLAG_NO_WAIT = 8;

  /**
   * COMMIT brings the CRC32C of each block, made while it was copied: ids and checksums alternate.
   * RESERVE says that the commit will, which it has to do then: such blocks can have slots that
   * somebody else may still write. Of RESERVE since version 1.5.
   */
  public static final int FLAG_CHECKSUMS = 16;

  /**
   * RELEASE of leases whose bytes did not match their checksum: the daemon looks for itself, and
   * drops what is damaged.
   */
  public static final int FLAG_CORRUPT = 32;

  /** The record ends with the trace context of its request. Since version 1.2. */
  public static final int FLAG_CONTEXT = 64;

  public static final int FLAGS_ALL = 127;

  /** In the context, from its first byte on. */
  public static final int CONTEXT_TRACE_OFFSET = 0;

  public static final int CONTEXT_SPAN_OFFSET = 16;
  public static final int CONTEXT_WRITTEN_OFFSET = 24;
  public static final int CONTEXT_FLAGS_OFFSET = 32;
  public static final int CONTEXT_BYTES = 40;

  public static final int PRIORITY_HIGH = 0;
  public static final int PRIORITY_NORMAL = 1;
  public static final int PRIORITY_LOW = 2;

  /** Instead of a namespace id, FLUSH: all namespaces of all tenants. An id is never so large. */
  public static final int NAMESPACE_ALL = Integer.MAX_VALUE;

  private RequestDescriptor() {}

  /** The bytes that one key takes in a body. */
  public static int keyStride(int keyBytes) {
    return (keyBytes + 7) & ~7;
  }

  /** The bytes that one id takes in a body, with its checksum where it has one. */
  public static int idStride(int flags) {
    return (flags & FLAG_CHECKSUMS) == 0 ? 8 : 16;
  }

  /** The bytes of a whole record. */
  public static int recordBytes(Verb verb, int count, int keyBytes, int flags) {
    int body =
        switch (verb.body()) {
          case NONE -> 0;
          case KEYS -> (count + (flags & FLAG_PARENT)) * keyStride(keyBytes);
          case KEYS_AND_BLOCKS ->
              (count + (flags & FLAG_PARENT)) * keyStride(keyBytes) + ((4 * count + 7) & ~7);
          case IDS -> count * idStride(flags);
          case TEXT -> (count + 7) & ~7;
        };
    return HEADER_BYTES + body + ((flags & FLAG_CONTEXT) == 0 ? 0 : CONTEXT_BYTES);
  }
}
