package io.kvtier.tiers.transfer;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;

/**
 * Native memory that threads borrow, a buffer each at a time. There are as many buffers as were
 * ever borrowed at once, each as large as the largest block so far. Safe for several threads.
 */
public final class Buffers {
  private final ArrayDeque<MemorySegment> free = new ArrayDeque<>();

  /** A buffer of at least that many bytes, which nobody else uses until {@link #give}. */
  public MemorySegment take(long bytes) {
    MemorySegment buffer;
    synchronized (free) {
      buffer = free.poll();
    }
    return buffer == null || buffer.byteSize() < bytes
        ? Arena.ofAuto().allocate(bytes, Long.BYTES)
        : buffer;
  }

  /** Takes a buffer back. */
  public void give(MemorySegment buffer) {
    synchronized (free) {
      free.push(buffer);
    }
  }
}
