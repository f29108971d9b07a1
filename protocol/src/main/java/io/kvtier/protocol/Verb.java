package io.kvtier.protocol;

import org.jspecify.annotations.Nullable;

/** The operation that a request asks for. Append-only. Generated from protocol/schema.toml. */
public enum Verb {
  PING(1, RequestBody.NONE),
  REGISTER(2, RequestBody.TEXT),
  UNREGISTER(3, RequestBody.NONE),
  LOOKUP(4, RequestBody.KEYS),
  RESERVE(5, RequestBody.KEYS),
  COMMIT(6, RequestBody.IDS),
  ABORT(7, RequestBody.IDS),
  ACQUIRE(8, RequestBody.KEYS),
  RELEASE(9, RequestBody.IDS),
  PREFETCH(10, RequestBody.KEYS),
  PIN(11, RequestBody.KEYS),
  UNPIN(12, RequestBody.KEYS),
  DELETE(13, RequestBody.KEYS),
  CLEAR(14, RequestBody.NONE),
  FLUSH(15, RequestBody.NONE),
  CANCEL(16, RequestBody.NONE),
  STATS(17, RequestBody.NONE),

  /** Carries out an operator's command, a line of words. The answer is a text. */
  ADMIN(18, RequestBody.TEXT),

  /** Opens an engine's KV tensors as a region, whose blocks can then be copied. */
  REGISTER_REGION(19, RequestBody.TEXT),
  UNREGISTER_REGION(20, RequestBody.NONE),

  /** Copies blocks of a region to host memory, and stores them. */
  OFFLOAD(21, RequestBody.KEYS_AND_BLOCKS),

  /** Copies stored blocks to a region. */
  ONBOARD(22, RequestBody.KEYS_AND_BLOCKS),

  /** Keeps annotations with blocks. The body has the entries of {@link AnnotationDescriptor}. */
  ANNOTATE(24, RequestBody.TEXT),

  /** Offers blocks of a region to other engines, which can copy them from there. */
  ADVERTISE(25, RequestBody.KEYS_AND_BLOCKS),

  /** Withdraws the offer of ADVERTISE. Answered when no copy of these blocks is under way. */
  REVOKE(26, RequestBody.KEYS),

  /**
   * Reports what loads of an engine have saved. The body is the record of {@link
   * LoadReportDescriptor}.
   */
  REPORT_LOADS(27, RequestBody.TEXT),

  /**
   * Looks blocks of several namespaces up, such as those of all groups of a model. Behind the keys
   * stands, for each, the id of its namespace; keys of one namespace stand together.
   */
  LOOKUP_GROUPS(28, RequestBody.KEYS_AND_BLOCKS),

  /**
   * Keeps blocks on this node for a time, or ends that. Blocks that are still being written are
   * kept, too. If the blocks do not all fit into the tenant's quota, none is kept, and the answer
   * is OVER_QUOTA with the numbers.
   */
  RETAIN(29, RequestBody.KEYS);

  private static final @Nullable Verb[] BY_CODE = new Verb[30];

  static {
    for (Verb one : values()) {
      BY_CODE[one.code] = one;
    }
  }

  private final int code;
  private final RequestBody body;

  Verb(int code, RequestBody body) {
    this.code = code;
    this.body = body;
  }

  /** The number on the wire, an unsigned 16-bit value. */
  public int code() {
    return code;
  }

  /** The body of its requests. */
  public RequestBody body() {
    return body;
  }

  /** The value of a code, or null for a code that is none. */
  public static @Nullable Verb of(int code) {
    return code >= 0 && code < BY_CODE.length ? BY_CODE[code] : null;
  }
}
