package io.kvtier.protocol;

import org.jspecify.annotations.Nullable;

/** What a request asks for. Append-only. Generated from protocol/schema.toml. */
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

  /** A command of an operator's: a line of words, answered by a text. */
  ADMIN(18, RequestBody.TEXT),

  /** Opens an engine's KV tensors: a region, whose blocks can be copied. */
  REGISTER_REGION(19, RequestBody.TEXT),
  UNREGISTER_REGION(20, RequestBody.NONE),

  /** Copies blocks of a region to host memory, and keeps them. */
  OFFLOAD(21, RequestBody.KEYS_AND_BLOCKS),

  /** Copies blocks that are kept to a region. */
  ONBOARD(22, RequestBody.KEYS_AND_BLOCKS),

  /** What is to be kept with blocks: entries as {@link AnnotationDescriptor} has them. */
  ANNOTATE(24, RequestBody.TEXT),

  /** Says which blocks stand in a region, for others to copy from there. */
  ADVERTISE(25, RequestBody.KEYS_AND_BLOCKS),

  /** Ends that; answered when no copy of these blocks is under way. */
  REVOKE(26, RequestBody.KEYS);

  private static final @Nullable Verb[] BY_CODE = new Verb[27];

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

  /** What follows its header. */
  public RequestBody body() {
    return body;
  }

  /** The value of a code, or null for a code that is none. */
  public static @Nullable Verb of(int code) {
    return code >= 0 && code < BY_CODE.length ? BY_CODE[code] : null;
  }
}
