package io.kvtier.tiers.node;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;

/**
 * The direct memory of closed links, for the links that come next. Otherwise it would be free only
 * after a garbage collection, and many short connections would take all that the process may have.
 * Confined to the thread of a transport.
 */
final class BufferPool {
  /** The most buffers of one size that are kept. */
  private static final int KEPT_MAX = 64;

  private final Map<Integer, ArrayDeque<ByteBuffer>> kept = new HashMap<>();

  /** A buffer of a size, to be written from its begin; big-endian. */
  ByteBuffer take(int bytes) {
    ArrayDeque<ByteBuffer> free = kept.get(bytes);
    ByteBuffer one = free == null ? null : free.poll();
    return one == null ? ByteBuffer.allocateDirect(bytes) : one.clear().order(ByteOrder.BIG_ENDIAN);
  }

  /** Takes a buffer back that nobody uses any more. */
  void giveBack(ByteBuffer buffer) {
    ArrayDeque<ByteBuffer> free = kept.computeIfAbsent(buffer.capacity(), _ -> new ArrayDeque<>());
    if (free.size() < KEPT_MAX) {
      free.push(buffer);
    }
  }
}
