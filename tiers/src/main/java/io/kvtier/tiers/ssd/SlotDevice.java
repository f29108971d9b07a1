package io.kvtier.tiers.ssd;

import java.io.IOException;
import java.lang.foreign.MemorySegment;

/**
 * A device of regions, read and written in pieces aligned to 4 KiB. The seam at which tests put a
 * device that lies. Safe for several threads.
 */
public interface SlotDevice extends AutoCloseable {
  /** Writes a header and a body behind each other. */
  void write(int region, long offset, MemorySegment header, MemorySegment body) throws IOException;

  /**
   * Reads a header and a body that stand behind each other. Where less was written there last,
   * there is no telling what stands behind it.
   */
  void read(int region, long offset, MemorySegment header, MemorySegment body) throws IOException;

  /** Makes everything that was written durable against a loss of power. */
  void sync() throws IOException;

  @Override
  void close();
}
