package io.kvtier.protocol;

import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * What loads of an engine have saved. {@link LoadReportDescriptor} is its layout.
 *
 * @param blocks that were loaded
 * @param tokens that the engine did not compute because of these blocks
 * @param prefillNs that computing these tokens would have taken, at the speed that the engine has
 *     measured; 0 if it does not know its speed yet
 * @param loadNs that the loads took, failed ones too
 */
public record LoadReport(long blocks, long tokens, long prefillNs, long loadNs) {
  private static final long SECOND_NS = 1_000_000_000;

  /** Reads a record. It can have any content. */
  public static LoadReport read(MemorySegment segment, long at) {
    return new LoadReport(
        Integer.toUnsignedLong(Words.getInt(segment, at + LoadReportDescriptor.BLOCKS_OFFSET)),
        Words.getLong(segment, at + LoadReportDescriptor.TOKENS_OFFSET),
        Words.getLong(segment, at + LoadReportDescriptor.PREFILL_NS_OFFSET),
        Words.getLong(segment, at + LoadReportDescriptor.LOAD_NS_OFFSET));
  }

  /** The record of a report that is not {@link #whyNot refused}. */
  public byte[] bytes() {
    byte[] bytes = new byte[LoadReportDescriptor.BYTES];
    MemorySegment segment = MemorySegment.ofArray(new long[bytes.length / Long.BYTES]);
    Words.putInt(segment, LoadReportDescriptor.BLOCKS_OFFSET, (int) blocks);
    Words.putLong(segment, LoadReportDescriptor.TOKENS_OFFSET, tokens);
    Words.putLong(segment, LoadReportDescriptor.PREFILL_NS_OFFSET, prefillNs);
    Words.putLong(segment, LoadReportDescriptor.LOAD_NS_OFFSET, loadNs);
    MemorySegment.ofArray(bytes).copyFrom(segment);
    return bytes;
  }

  /** Why no engine can have measured this; null if one can. */
  public @Nullable String whyNot() {
    if (blocks < 0 || blocks > LoadReportDescriptor.BLOCKS_MAX) {
      return wrong("blocks", blocks, "0 to " + LoadReportDescriptor.BLOCKS_MAX);
    }
    long tokensMax = blocks * LoadReportDescriptor.BLOCK_TOKENS_MAX;
    if (tokens < 0 || tokens > tokensMax) {
      return wrong("tokens", tokens, "0 to " + tokensMax + " for " + Counted.of(blocks, "block"));
    }
    long prefillNsMax = tokens * LoadReportDescriptor.TOKEN_S_MAX * SECOND_NS;
    if (prefillNs < 0 || prefillNs > prefillNsMax) {
      return wrong(
          "prefill ns", prefillNs, "0 to " + prefillNsMax + " for " + Counted.of(tokens, "token"));
    }
    long loadNsMax = LoadReportDescriptor.LOADS_S_MAX * SECOND_NS;
    return loadNs < 0 || loadNs > loadNsMax ? wrong("load ns", loadNs, "0 to " + loadNsMax) : null;
  }

  private static String wrong(String field, long value, String expected) {
    return field + " is " + Long.toUnsignedString(value) + ", expected " + expected;
  }
}
