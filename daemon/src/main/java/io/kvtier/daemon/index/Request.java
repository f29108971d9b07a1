package io.kvtier.daemon.index;

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
  int completionBytes;
  MemorySegment segment = MemorySegment.NULL;

  /** Where the first key, id or character stands. */
  long body;

  long key(int i) {
    return body + (long) i * keyStride;
  }

  boolean has(int flag) {
    return (flags & flag) != 0;
  }
}
