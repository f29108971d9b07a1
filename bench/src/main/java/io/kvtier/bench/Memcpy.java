package io.kvtier.bench;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Bare copies between shared memory and memory of the process: the same blocks in the same order as
 * the gets and puts, without anybody to ask.
 */
final class Memcpy implements AutoCloseable {
  private final Arena arena = Arena.ofShared();
  private final WorkingSet set;
  private final MemorySegment shared;
  private int next;

  Memcpy(int blockBytes, int blocks, int batch) throws IOException {
    set = new WorkingSet(blockBytes, blocks, batch, arena);
    long bytes = (long) blockBytes * blocks;
    try (Descriptor memory = SharedMemory.create("kvtier-bench-memcpy", bytes)) {
      shared = SharedMemory.map(memory, bytes, true, arena);
      // As the daemon's slabs are.
      SharedMemory.adviseHugePages(shared);
      SharedMemory.populate(memory, shared);
    }
  }

  /** Out of shared memory, bytes per nanosecond. */
  double getGbps(long durationNs) {
    return run(durationNs, false);
  }

  /** Into shared memory, bytes per nanosecond. */
  double putGbps(long durationNs) {
    return run(durationNs, true);
  }

  private double run(long durationNs, boolean into) {
    long bytes = 0;
    long took = 0;
    while (took < durationNs) {
      int index = next;
      next = (next + 1) % set.batches();
      long started = System.nanoTime();
      for (int i = 0; i < set.batch(); i++) {
        MemorySegment own = set.batch(index).get(i);
        long at = (long) set.number(index, i) * set.blockBytes();
        if (into) {
          MemorySegment.copy(own, 0, shared, at, set.blockBytes());
        } else {
          MemorySegment.copy(shared, at, own, 0, set.blockBytes());
        }
      }
      took += System.nanoTime() - started;
      bytes += set.batchBytes();
    }
    return bytes / (double) took;
  }

  @Override
  public void close() {
    arena.close();
  }
}
