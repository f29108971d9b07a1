package io.kvtier.daemon.index;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.lang.foreign.MemorySegment;

/** What the adapter read and checked of a request's header. Reused for every request. */
final class Request {
  /** No parent key precedes the keys. */
  static final long NO_PARENT = -1;

  Verb verb = Verb.PING;
  int flags;
  int priority;
  int keyBytes;
  int keyStride;
  long correlationId;
  long deadlineNs;
  int namespaceId;
  int group;
  int count;

  /** The place of the first key in its sequence. */
  int depth;

  /** Where the key before the first one stands, or {@link #NO_PARENT}. */
  long parent = NO_PARENT;

  long argument;

  /** OFFLOAD and ONBOARD: the region, and which of its layers, events, and words of progress. */
  int region;

  int firstLayer;
  int endLayer;
  int event;
  int progress;
  int completionBytes;
  MemorySegment segment = MemorySegment.NULL;

  /** Whom it is for. */
  final RequestOrigin origin = new RequestOrigin();

  /** Whether it became an operation, which is answered when it ends. */
  boolean isOperation;

  /** The answer to what is no operation: its status, and how many of its blocks are OK. */
  Status outcome = Status.OK;

  int done;

  /** Where the first key, id or character stands. */
  long body;

  long key(int i) {
    return body + (long) i * keyStride;
  }

  /** Where the number of a region's block stands, behind the keys. */
  long target(int i) {
    return body + (long) count * keyStride + 4L * i;
  }

  boolean has(int flag) {
    return (flags & flag) != 0;
  }
}
