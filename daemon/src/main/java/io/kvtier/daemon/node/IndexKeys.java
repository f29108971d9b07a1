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
    int stride = Records.keyStride(keyBytes);
    MemorySegment copy = Arena.ofAuto().allocate((long) stride * count, Long.BYTES);
    MemorySegment from = MemorySegment.ofBuffer(packed);
    for (int i = 0; i < count; i++) {
      MemorySegment.copy(from, (long) i * keyBytes, copy, (long) i * stride, keyBytes);
    }
    return copy;
  }
}
