package io.kvtier.daemon.index.transfer;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Iterator;
import org.jspecify.annotations.Nullable;

/**
 * Memory for blocks that go from a lower tier further down: they need no slot of the first tier,
 * which may be full of blocks that wait to go down. Confined to the index.
 */
final class RelayBuffers {
  private static final int PAGE = 4096;

  private final long bytesMax;
  private final ArrayDeque<MemorySegment> free = new ArrayDeque<>();
  private long bytes;
  private int taken;

  /**
   * Without memory, which is taken when it is needed.
   *
   * @param bytesMax the most bytes, except for a single larger block
   */
  RelayBuffers(long bytesMax) {
    this.bytesMax = bytesMax;
  }

  /** Memory of at least that many bytes, for direct IO; null when there is none. */
  @Nullable MemorySegment take(long size) {
    for (Iterator<MemorySegment> each = free.iterator(); each.hasNext(); ) {
      MemorySegment buffer = each.next();
      if (buffer.byteSize() >= size) {
        each.remove();
        taken++;
        return buffer;
      }
    }
    while (bytes + size > bytesMax && !free.isEmpty()) {
      // The buffer has another size: the garbage collector frees it.
      bytes -= free.remove().byteSize();
    }
    if (bytes + size > bytesMax && taken > 0) {
      return null;
    }
    taken++;
    bytes += size;
    return Arena.ofAuto().allocate(size, PAGE);
  }

  /** Gives memory back. */
  void give(MemorySegment buffer) {
    taken--;
    free.add(buffer);
  }
}
