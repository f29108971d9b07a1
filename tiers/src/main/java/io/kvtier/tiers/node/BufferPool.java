package io.kvtier.tiers.node;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;

/**
 * Used direct memory of links and of the keys of questions, for the next links and questions.
 * Memory that is not used again is free only after a garbage collection. Until then, many short
 * connections or questions would take all memory that the process may have. Confined to the thread
 * of a transport.
 */
public final class BufferPool {
  /** The most buffers of one size that are kept. */
  private static final int KEPT_MAX = 64;

  private final Map<Integer, ArrayDeque<ByteBuffer>> kept = new HashMap<>();

  /** A buffer of a size, to be written from its begin; big-endian. */
  public ByteBuffer take(int bytes) {
    ArrayDeque<ByteBuffer> free = kept.get(bytes);
    ByteBuffer one = free == null ? null : free.poll();
    return one == null ? ByteBuffer.allocateDirect(bytes) : one.clear().order(ByteOrder.BIG_ENDIAN);
  }

  /** Takes a buffer back that nobody uses any more. */
  public void giveBack(ByteBuffer buffer) {
    ArrayDeque<ByteBuffer> free = kept.computeIfAbsent(buffer.capacity(), _ -> new ArrayDeque<>());
    if (free.size() < KEPT_MAX) {
      free.push(buffer);
    }
  }
}
