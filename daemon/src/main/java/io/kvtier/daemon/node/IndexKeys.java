package io.kvtier.daemon.node;

import io.kvtier.protocol.Records;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;

/** Keys as the index reads them: at multiples of 8 bytes, in native memory. */
final class IndexKeys {
  private IndexKeys() {}

  /**
   * Copies keys.
   *
   * @param packed one after the other, from the position to the limit
   */
  static MemorySegment of(int keyBytes, int count, ByteBuffer packed) {
    return copy(
        keyBytes, count, packed, Arena.ofAuto().allocate(bytes(keyBytes, count), Long.BYTES));
  }

  /** How much memory keys take. */
  static int bytes(int keyBytes, int count) {
    return Records.keyStride(keyBytes) * count;
  }

  /**
   * Copies keys.
   *
   * @param packed one after the other, from the position to the limit
   * @param copy gets the keys, from its begin
   */
  static MemorySegment copy(int keyBytes, int count, ByteBuffer packed, MemorySegment copy) {
    int stride = Records.keyStride(keyBytes);
    MemorySegment from = MemorySegment.ofBuffer(packed);
    for (int i = 0; i < count; i++) {
      MemorySegment.copy(from, (long) i * keyBytes, copy, (long) i * stride, keyBytes);
    }
    return copy;
  }
}
