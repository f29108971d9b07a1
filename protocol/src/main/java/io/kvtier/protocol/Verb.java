package io.kvtier.protocol;

import org.jspecify.annotations.Nullable;

/** What a request asks for. Append-only. */
public enum Verb {
  PING(1, Body.NONE),
  REGISTER(2, Body.TEXT),
  UNREGISTER(3, Body.NONE),
  LOOKUP(4, Body.KEYS),
  RESERVE(5, Body.KEYS),
  COMMIT(6, Body.IDS),
  ABORT(7, Body.IDS),
  ACQUIRE(8, Body.KEYS),
  RELEASE(9, Body.IDS),
  PREFETCH(10, Body.KEYS),
  PIN(11, Body.KEYS),
  UNPIN(12, Body.KEYS),
  DELETE(13, Body.KEYS),
  CLEAR(14, Body.NONE),
  FLUSH(15, Body.NONE),
  CANCEL(16, Body.NONE),
  STATS(17, Body.NONE),

  /** A command of an operator's: a line of words, answered by a text. */
  ADMIN(18, Body.TEXT),

  /** Opens an engine's KV tensors: a region, whose blocks can be copied. */
  REGISTER_REGION(19, Body.TEXT),
  UNREGISTER_REGION(20, Body.NONE),

  /** Copies blocks of a region to host memory, and keeps them. */
  OFFLOAD(21, Body.KEYS_AND_BLOCKS),

  /** Copies blocks that are kept to a region. */
  ONBOARD(22, Body.KEYS_AND_BLOCKS),

  /** What is to be kept with blocks: entries as {@link AnnotationDescriptor} has them. */
  ANNOTATE(24, Body.TEXT),

  /** Says which blocks stand in a region, for others to copy from there. */
  ADVERTISE(25, Body.KEYS_AND_BLOCKS),

  /** Ends that; answered when no copy of these blocks is under way. */
  REVOKE(26, Body.KEYS);

  /** What follows a request's header. */
  public enum Body {
    NONE,
    /** Block keys, {@link RequestDescriptor#keyStride} bytes each. */
    KEYS,
    /** Block keys, and behind them as many numbers of a region's blocks, 4 bytes each. */
    KEYS_AND_BLOCKS,
    /** Lease or reservation ids, 8 bytes each. */
    IDS,
    /** UTF-8 text, or the entries of ANNOTATE; the count is its length in bytes. */
    TEXT;

    /** Whether block keys come first. */
    public boolean hasKeys() {
      return this == KEYS || this == KEYS_AND_BLOCKS;
    }
  }

  private static final @Nullable Verb[] BY_CODE = new Verb[32];

  static {
    for (Verb verb : values()) {
      BY_CODE[verb.code] = verb;
    }
  }

  private final int code;
  private final Body body;

  Verb(int code, Body body) {
    this.code = code;
    this.body = body;
  }

  public int code() {
    return code;
  }

  public Body body() {
    return body;
  }

  /** The verb of a code, or null for a code that is none. */
  public static @Nullable Verb of(int code) {
    return code >= 0 && code < BY_CODE.length ? BY_CODE[code] : null;
  }
}
