package io.kvtier.bench;

import io.kvtier.policies.BitMixer;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/** Keys that every program of a benchmark can make: 32 bytes of a tag and a number. */
final class BenchKeys {
  static final int KEY_BYTES = 32;

  private static final ValueLayout.OfLong LONG =
      ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final long GOLDEN = 0x9E37_79B9_7F4A_7C15L;

  private BenchKeys() {}

  /** Writes one key; {@code bench/worker.py} makes the same ones. */
  static void put(MemorySegment target, long offset, long tag, long number) {
    target.set(LONG, offset, number * GOLDEN);
    target.set(LONG, offset + 8, tag);
    target.set(LONG, offset + 16, number);
    target.set(LONG, offset + 24, 0);
  }

  /** A key's well-mixed first half, for a directory that hashes what it gets. */
  static long mix(long value) {
    return BitMixer.mix(value + GOLDEN);
  }
}
