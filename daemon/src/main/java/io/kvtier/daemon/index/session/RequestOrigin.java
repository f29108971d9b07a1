package io.kvtier.daemon.index.session;

import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;

/** The trace context of a request, if the request has one. Reused with its holder. */
public final class RequestOrigin {
  /** A client may say anything of when it wrote. */
  private static final long WAIT_NS_MAX = 60_000_000_000L;

  public long traceHigh;
  public long traceLow;

  /** The caller's span; 0: there is none. */
  public long parentId;

  /** The request's own span, where it is traced. */
  public long spanId;

  /** When its client wrote it, or the daemon took it. */
  public long writtenNs;

  public boolean isTraced;

  /** Whether the request has no id. */
  public boolean isNone() {
    return (traceHigh | traceLow) == 0;
  }

  public void clear() {
    traceHigh = 0;
    traceLow = 0;
    isTraced = false;
  }

  public void set(RequestOrigin other) {
    traceHigh = other.traceHigh;
    traceLow = other.traceLow;
    parentId = other.parentId;
    spanId = other.spanId;
    writtenNs = other.writtenNs;
    isTraced = other.isTraced;
  }

  /** Reads the end of a record, which its client can still write: each field once. */
  public void read(MemorySegment segment, long at, boolean isToTrace, long nowNs)
      throws ProtocolViolation {
    traceHigh =
        Long.reverseBytes(Words.getLong(segment, at + RequestDescriptor.CONTEXT_TRACE_OFFSET));
    traceLow =
        Long.reverseBytes(
            Words.getLong(segment, at + RequestDescriptor.CONTEXT_TRACE_OFFSET + Long.BYTES));
    parentId =
        Long.reverseBytes(Words.getLong(segment, at + RequestDescriptor.CONTEXT_SPAN_OFFSET));
    if (isNone() || parentId == 0) {
      throw new ProtocolViolation("a trace context has ids of zeros");
    }
    int flags = Words.getByte(segment, at + RequestDescriptor.CONTEXT_FLAGS_OFFSET);
    isTraced = isToTrace && (flags & TraceContext.FLAG_SAMPLED) != 0;
    long written = Words.getLong(segment, at + RequestDescriptor.CONTEXT_WRITTEN_OFFSET);
    boolean isPlausible = written > 0 && written <= nowNs && written >= nowNs - WAIT_NS_MAX;
    writtenNs = isPlausible ? written : nowNs;
  }
}
