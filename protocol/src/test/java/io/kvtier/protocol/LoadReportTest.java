package io.kvtier.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.lang.foreign.MemorySegment;
import java.util.Objects;
import org.junit.jupiter.api.Test;

class LoadReportTest {
  private static final long DAY_NS = 86_400_000_000_000L;

  private static LoadReport read(byte[] bytes) {
    MemorySegment aligned = MemorySegment.ofArray(new long[bytes.length / Long.BYTES]);
    aligned.copyFrom(MemorySegment.ofArray(bytes));
    return LoadReport.read(aligned, 0);
  }

  private static String why(long blocks, long tokens, long prefillNs, long loadNs) {
    return Objects.requireNonNull(new LoadReport(blocks, tokens, prefillNs, loadNs).whyNot());
  }

  @Test
  void bytes_anyReport_areReadAgain() {
    LoadReport report = new LoadReport(65_536, 1L << 32, 4_294_967_296_000_000_000L, DAY_NS);
    assertNull(report.whyNot());
    assertEquals(report, read(report.bytes()));
  }

  @Test
  void whyNot_nothingLoadedInSomeTime_isPossible() {
    assertNull(new LoadReport(0, 0, 0, 1).whyNot());
  }

  @Test
  void whyNot_moreThanAnEngineCanMeasure_saysWhich() {
    assertEquals("blocks is 65537, expected 0 to 65536", why(65_537, 0, 0, 0));
    assertEquals("tokens is 1, expected 0 to 0 for 0 blocks", why(0, 1, 0, 0));
    assertEquals("tokens is 65537, expected 0 to 65536 for 1 block", why(1, 65_537, 0, 0));
    assertEquals(
        "prefill ns is 2000000001, expected 0 to 2000000000 for 2 tokens",
        why(1, 2, 2_000_000_001, 0));
    assertEquals(
        "load ns is 86400000000001, expected 0 to 86400000000000", why(0, 0, 0, DAY_NS + 1));
  }

  @Test
  void whyNot_numbersBeyond63Bits_areNotNegative() {
    assertEquals(
        "tokens is 18446744073709551615, expected 0 to 65536 for 1 block", why(1, -1, 0, 0));
    assertEquals(
        "prefill ns is 9223372036854775808, expected 0 to 1000000000 for 1 token",
        why(1, 1, Long.MIN_VALUE, 0));
    assertEquals("load ns is 18446744073709551615, expected 0 to 86400000000000", why(1, 1, 0, -1));
  }
}
