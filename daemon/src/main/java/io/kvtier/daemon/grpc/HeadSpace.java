package io.kvtier.daemon.grpc;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.List;

/**
 * Memory outside of the heap for what stands before the bytes of a block. Were it in the heap, the
 * socket would copy the bytes of the block together with it.
 *
 * <p>Confined to one event loop.
 */
final class HeadSpace {
  static final int CHUNK_BYTES = 4096;
  private static final int FREE_MAX = 256;

  private final ArrayDeque<ByteBuffer> free = new ArrayDeque<>();

  ByteBuffer take() {
    ByteBuffer chunk = free.poll();
    return chunk == null ? ByteBuffer.allocateDirect(CHUNK_BYTES) : chunk.clear();
  }

  void give(List<ByteBuffer> chunks) {
    for (ByteBuffer chunk : chunks) {
      if (free.size() < FREE_MAX) {
        free.push(chunk);
      }
    }
  }
}
