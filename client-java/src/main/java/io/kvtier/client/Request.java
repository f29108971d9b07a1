package io.kvtier.client;

import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * What one request record shall say. Reusable: set it and submit it again. Confined to one thread.
 */
final class Request {
  static final int NO_NAMESPACE = 0;

  Verb verb = Verb.PING;
  int flags;
  int priority = RequestDescriptor.PRIORITY_NORMAL;
  int namespaceId = NO_NAMESPACE;
  int group;
  int depth;
  long argument;

  /** CLOCK_MONOTONIC ns, the clock of {@link System#nanoTime} on Linux. */
  long deadlineNs;

  /** The keys, ids or bytes of text in the body. */
  int count;

  int from;
  @Nullable Keys keys;
  @Nullable Keys parent;
  int parentIndex;
  long @Nullable [] ids;
  byte @Nullable [] text;

  /** A region, and which of its layers, events and blocks. */
  int region;

  int firstLayer;
  int endLayer;
  int event;
  int @Nullable [] blocks;

  /** What the request is made in. */
  @Nullable TraceContext context;

  Request() {}

  Request(Verb verb, long deadlineNs) {
    this.verb = verb;
    this.deadlineNs = deadlineNs;
    this.context = RequestContext.current();
  }

  /** The length of the record with these flags, which are not this request's alone. */
  int recordBytes(int flags) {
    Keys some = keys;
    return Records.request(verb, count, some == null ? 0 : some.keyBytes(), flags);
  }

  void writeBody(MemorySegment ring, long offset) {
    Keys someKeys = keys;
    long[] someIds = ids;
    byte[] someText = text;
    if (someKeys != null) {
      long at = offset;
      if (parent != null) {
        parent.copyTo(parentIndex, 1, ring, at);
        at += parent.stride();
      }
      someKeys.copyTo(from, count, ring, at);
      int[] someBlocks = blocks;
      if (someBlocks != null) {
        at += (long) count * someKeys.stride();
        MemorySegment.copy(MemorySegment.ofArray(someBlocks), 4L * from, ring, at, 4L * count);
        if ((count & 1) != 0) {
          ring.set(ValueLayout.JAVA_INT, at + 4L * count, 0);
        }
      }
    } else if (someIds != null) {
      long stride = Records.idStride(flags);
      MemorySegment.copy(
          MemorySegment.ofArray(someIds), stride * from, ring, offset, stride * count);
    } else if (someText != null) {
      MemorySegment.copy(MemorySegment.ofArray(someText), 0, ring, offset, count);
      for (int pad = count; (pad & 7) != 0; pad++) {
        ring.set(ValueLayout.JAVA_BYTE, offset + pad, (byte) 0);
      }
    }
  }
}
