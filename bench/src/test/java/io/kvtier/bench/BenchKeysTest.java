package io.kvtier.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

final class BenchKeysTest {
  /** The same bytes as {@code key_of(2, 3)} of {@code worker.py}. */
  @Test
  void put_isWhatThePythonSideMakes() {
    MemorySegment keys = MemorySegment.ofArray(new byte[2 * BenchKeys.KEY_BYTES]);
    BenchKeys.put(keys, BenchKeys.KEY_BYTES, 2, 3);
    assertEquals(
        "0".repeat(2 * BenchKeys.KEY_BYTES)
            + "3f74df7d2c6da6da"
            + "0200000000000000"
            + "0300000000000000"
            + "0000000000000000",
        HexFormat.of().formatHex(keys.toArray(ValueLayout.JAVA_BYTE)));
  }
}
