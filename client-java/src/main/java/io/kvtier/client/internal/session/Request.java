package io.kvtier.client.internal.session;

import io.kvtier.client.Keys;
import io.kvtier.client.RequestContext;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * The content of one request record. Reusable: set the fields and submit it again. Confined to one
 * thread.
 */
public final class Request {
  public static final int NO_NAMESPACE = 0;

  public Verb verb = Verb.PING;
  public int flags;
  public int priority = RequestDescriptor.PRIORITY_NORMAL;
  public int namespaceId = NO_NAMESPACE;
  public int group;
  public int depth;
  public long argument;

  /** CLOCK_MONOTONIC ns, the clock of {@link System#nanoTime} on Linux. */
  public long deadlineNs;

  /** The keys, ids or bytes of text in the body. */
  public int count;

  public int from;
  public @Nullable Keys keys;
  public @Nullable Keys parent;
  public int parentIndex;
  public long @Nullable [] ids;
  public byte @Nullable [] text;

  /** The number of a device region; 0: none. */
  public int region;

  public int firstLayer;
  public int endLayer;
  public int event;
  public int @Nullable [] blocks;

  /** Whether a node is going to have the blocks that are nowhere yet, and its number. */
  private boolean isExpecting;

  private int expectedNode;

  /** The trace context of the request. */
  public @Nullable TraceContext context;

  Request() {}

  /** A request in the trace context of this thread. */
  public Request(Verb verb, long deadlineNs) {
    this.verb = verb;
    this.deadlineNs = deadlineNs;
    this.context = RequestContext.current();
  }

  /**
   * Expects the blocks that are nowhere yet from a node.
   *
   * @param node its name or its address; empty for none
   */
  public void expectFrom(String node) {
    isExpecting = !node.isEmpty();
    expectedNode = isExpecting ? Records.numberOfNode(node) : 0;
  }

  /**
   * The flags that the request needs beside {@link #flags}.
   *
   * @param expects whether the daemon knows blocks that a node is going to have
   */
  int furtherFlags(boolean expects) {
    return (isExpecting && expects ? RequestDescriptor.FLAG_EXPECTED : 0)
        | (context == null ? 0 : RequestDescriptor.FLAG_CONTEXT);
  }

  /** The number of the node from which blocks are expected, with {@code FLAG_EXPECTED}. */
  int expectedNode() {
    return expectedNode;
  }

  /** The length of the record with these flags, which the request ring may have added to. */
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
