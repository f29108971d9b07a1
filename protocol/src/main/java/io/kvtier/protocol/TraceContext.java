package io.kvtier.protocol;

import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.util.HexFormat;
import org.jspecify.annotations.Nullable;

/**
 * What names a request across processes: the ids of the trace and of the span in which its client
 * works, as the W3C Recommendation <i>Trace Context</i> has them. In hexadecimal the trace id is
 * the request id that logs name.
 *
 * @param traceHigh the first half of the trace id
 * @param spanId of the caller
 * @param flags the W3C trace flags, 8 bits
 */
public record TraceContext(long traceHigh, long traceLow, long spanId, int flags) {
  /** Of {@link #flags}: the caller records this trace. */
  public static final int FLAG_SAMPLED = 1;

  private static final int TEXT_LENGTH = 55;
  private static final int TRACE_AT = 3;
  private static final int SPAN_AT = 36;
  private static final int FLAGS_AT = 53;
  private static final String NO_VERSION = "ff";
  private static final HexFormat HEX = HexFormat.of();

  /** Neither id is all zero: that stands for none. */
  public TraceContext {
    if ((traceHigh | traceLow) == 0 || spanId == 0) {
      throw new IllegalArgumentException("a trace id and a span id are not all zero");
    }
    if (flags < 0 || flags > 0xff) {
      throw new IllegalArgumentException("trace flags are 8 bits, not " + flags);
    }
  }

  /**
   * The context that a {@code traceparent} names; null where it is none, which W3C's rules have
   * ignored. Of a version from the future what this one knows is read.
   */
  public static @Nullable TraceContext parse(@Nullable String traceparent) {
    if (traceparent == null || traceparent.length() < TEXT_LENGTH) {
      return null;
    }
    String version = traceparent.substring(0, 2);
    boolean isKnown = version.equals("00");
    if (!isHex(version)
        || version.equals(NO_VERSION)
        || traceparent.charAt(TRACE_AT - 1) != '-'
        || traceparent.charAt(SPAN_AT - 1) != '-'
        || traceparent.charAt(FLAGS_AT - 1) != '-'
        || (traceparent.length() > TEXT_LENGTH
            && (isKnown || traceparent.charAt(TEXT_LENGTH) != '-'))) {
      return null;
    }
    String trace = traceparent.substring(TRACE_AT, SPAN_AT - 1);
    String span = traceparent.substring(SPAN_AT, FLAGS_AT - 1);
    String flags = traceparent.substring(FLAGS_AT, TEXT_LENGTH);
    if (!isHex(trace) || !isHex(span) || !isHex(flags)) {
      return null;
    }
    long high = HexFormat.fromHexDigitsToLong(trace, 0, 16);
    long low = HexFormat.fromHexDigitsToLong(trace, 16, 32);
    long id = HexFormat.fromHexDigitsToLong(span);
    return (high | low) == 0 || id == 0
        ? null
        : new TraceContext(high, low, id, HexFormat.fromHexDigits(flags));
  }

  /** W3C has lower case only. */
  private static boolean isHex(String text) {
    return text.chars().allMatch(c -> (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
  }

  /** Whether the caller records this trace. */
  public boolean isSampled() {
    return (flags & FLAG_SAMPLED) != 0;
  }

  /** The trace id in hexadecimal: the request id. */
  public String traceId() {
    return traceId(traceHigh, traceLow);
  }

  /** A trace id in hexadecimal. */
  public static String traceId(long high, long low) {
    return HEX.toHexDigits(high) + HEX.toHexDigits(low);
  }

  /** Writes it where a record's context stands. */
  public void write(MemorySegment out, long at, long writtenNs) {
    Words.putLong(out, at + RequestDescriptor.CONTEXT_TRACE_OFFSET, Long.reverseBytes(traceHigh));
    Words.putLong(
        out, at + RequestDescriptor.CONTEXT_TRACE_OFFSET + Long.BYTES, Long.reverseBytes(traceLow));
    Words.putLong(out, at + RequestDescriptor.CONTEXT_SPAN_OFFSET, Long.reverseBytes(spanId));
    Words.putLong(out, at + RequestDescriptor.CONTEXT_WRITTEN_OFFSET, writtenNs);
    // The flags, and the zeros behind them.
    Words.putLong(out, at + RequestDescriptor.CONTEXT_FLAGS_OFFSET, flags);
  }

  /** The {@code traceparent}. */
  @Override
  public String toString() {
    return "00-" + traceId() + '-' + HEX.toHexDigits(spanId) + '-' + HEX.toHexDigits((byte) flags);
  }
}
