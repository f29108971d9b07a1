package io.kvtier.protocol.linux;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Memory of this process alone, for large tables that are read all over. */
public final class PrivateMemory {
  private PrivateMemory() {}

  /**
   * Maps zeroed memory that is taken from the system as it comes into use, in huge pages where the
   * kernel gives any; it goes with the arena.
   *
   * @param bytes rounded up to whole pages
   */
  public static MemorySegment map(long bytes, Arena arena) throws IOException {
    long rounded = (bytes + SharedMemory.PAGE_BYTES - 1) & -SharedMemory.PAGE_BYTES;
    int protection = SharedMemory.PROT_READ | SharedMemory.PROT_WRITE;
    int flags = SharedMemory.MAP_PRIVATE | SharedMemory.MAP_ANONYMOUS | SharedMemory.MAP_NORESERVE;
    MemorySegment memory = SharedMemory.mapAligned(-1, rounded, protection, flags, arena);
    SharedMemory.adviseHugePages(memory);
    return memory;
  }
}
