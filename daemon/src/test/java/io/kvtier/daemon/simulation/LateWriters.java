package io.kvtier.daemon.simulation;

import io.kvtier.protocol.linux.ProcessId;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.IntFunction;

/**
 * Clients that go on writing where they were told to, when the daemon has ended or has cut them
 * off: honest ones, which have not heard of it yet, or stand still in the middle of a block.
 */
final class LateWriters {
  private static final int CHUNKS = 4;

  private static final class Writer {
    final ProcessId process;
    final int slab;
    final long offset;
    final byte[] content;
    int writesLeft;

    Writer(ProcessId process, int slab, long offset, byte[] content, int writesLeft) {
      this.process = process;
      this.slab = slab;
      this.offset = offset;
      this.content = content;
      this.writesLeft = writesLeft;
    }
  }

  private final IntFunction<MemorySegment> slabs;
  private final SplittableRandom random;
  private final List<Writer> writers = new ArrayList<>();

  /** Processes that have ended. */
  private final Set<ProcessId> gone = new HashSet<>();

  LateWriters(IntFunction<MemorySegment> slabs, SplittableRandom random) {
    this.slabs = slabs;
    this.random = random;
  }

  /** A process has lost a slot that it had not said it had written. */
  void add(ProcessId process, int slab, long offset, byte[] content) {
    writers.add(new Writer(process, slab, offset, content, 1 + random.nextInt(12)));
  }

  /** A process ends, and writes no more. */
  void end(ProcessId process) {
    gone.add(process);
    writers.removeIf(writer -> writer.process.equals(process));
  }

  boolean isGone(ProcessId process) {
    return gone.contains(process);
  }

  /** The memory is new: who writes to the old one is of no matter. */
  void forget() {
    writers.clear();
  }

  /**
   * One of them writes a part of its block.
   *
   * @return whether any did
   */
  boolean write() {
    if (writers.isEmpty()) {
      return false;
    }
    int which = random.nextInt(writers.size());
    Writer writer = writers.get(which);
    int chunk = writer.content.length / CHUNKS;
    int from = random.nextInt(CHUNKS) * chunk;
    MemorySegment.copy(
        MemorySegment.ofArray(writer.content),
        from,
        slabs.apply(writer.slab),
        writer.offset + from,
        chunk);
    if (--writer.writesLeft == 0) {
      writers.remove(which);
    }
    return true;
  }
}
