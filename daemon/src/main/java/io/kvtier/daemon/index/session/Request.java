package io.kvtier.daemon.index.session;

import io.kvtier.daemon.index.core.KeyBatch;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;

/** The fields of a request that the adapter read and checked. Reused for every request. */
public final class Request extends KeyBatch {
  /**
   * The argument of a STATS that one of the daemon's own sessions sends for a caller with the role
   * admin. In a request of a client it means nothing.
   */
  public static final long STATS_FOR_ADMIN = 1;

  /**
   * The group of a REGISTER that one of the daemon's own sessions sends for a caller who may only
   * read. In a request of a client it means nothing.
   */
  public static final int REGISTER_FOR_READER = 1;

  /** No parent key precedes the keys. */
  public static final long NO_PARENT = -1;

  public Verb verb = Verb.PING;
  public int flags;
  public int priority;
  public long correlationId;
  public long deadlineNs;

  /** The place of the first key in its sequence. */
  public int depth;

  /** Where the key before the first one stands, or {@link #NO_PARENT}. */
  public long parent = NO_PARENT;

  public long argument;

  /**
   * RESERVE: the region in host memory whose shard of each block the client will write; 0: none.
   * ACQUIRE of expected blocks: the CRC32C of the name or address of their node.
   */
  public int shard;

  /** OFFLOAD and ONBOARD: the region, and which of its layers, events, and words of progress. */
  public int region;

  public int firstLayer;
  public int endLayer;
  public int event;
  public int progress;
  public int completionBytes;

  /** The trace context of the request. */
  public final RequestOrigin origin = new RequestOrigin();

  /** Whether the request became an operation, which is answered when it ends. */
  public boolean isOperation;

  /** The answer of a request that is no operation: its status, and how many blocks are OK. */
  public Status outcome = Status.OK;

  public int done;

  /** Where the number of a region's block stands, behind the keys. */
  public long target(int i) {
    return body + (long) count * keyStride + 4L * i;
  }

  /** RESERVE and OFFLOAD: the importance of the blocks for policies, from 0. */
  public int importance() {
    return Records.importance(flags);
  }

  public boolean has(int flag) {
    return (flags & flag) != 0;
  }
}
