package io.kvtier.tiers.transfer;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;

/**
 * Buffers of native memory. A thread borrows a buffer, and gives it back when the thread has
 * finished with it: no two threads have the same buffer at once. A buffer that is too small is
 * replaced. Safe for several threads.
 *
 * <p>There are at most as many buffers as were ever borrowed at once.
 */
public final class Buffers {
  private final ArrayDeque<MemorySegment> free = new ArrayDeque<>();

  /** Borrows a buffer of at least that many bytes. */
  public MemorySegment take(long bytes) {
    MemorySegment buffer;
    synchronized (free) {
      buffer = free.poll();
    }
    return buffer == null || buffer.byteSize() < bytes
        ? Arena.ofAuto().allocate(bytes, Long.BYTES)
        : buffer;
  }

  /** Gives a borrowed buffer back; once, and never to use it again. */
  public void give(MemorySegment buffer) {
    synchronized (free) {
      free.push(buffer);
    }
  }
}
