package io.kvtier.tiers.outer;

import java.io.IOException;
import java.lang.foreign.MemorySegment;

/**
 * Blocks that another program keeps, and that the daemon only reads. Several threads of the daemon
 * call a source at once, but never the index's thread. A call may block, but must end by itself:
 * give connections and requests a timeout.
 */
public interface OuterSource extends AutoCloseable {
  /** The result of {@link #read} for a block that is not there. */
  long ABSENT = -1;

  /**
   * Says whether a block is there. The daemon remembers the answer for a while, and asks for
   * several blocks of a prompt at once.
   *
   * @throws IOException if the source can't answer now
   */
  boolean has(BlockName block) throws IOException;

  /**
   * Reads a block.
   *
   * @param target memory as long as the block, which may be used until the call returns
   * @return the CRC-32C of the block in the lower 32 bits, the upper bits 0; or {@link #ABSENT}.
   *     The writer of the block must have made the checksum. A checksum of bytes that were just
   *     read proves nothing: a byte that changed on the way would be served to engines
   * @throws IOException when the block can't be read now
   */
  long read(BlockName block, MemorySegment target) throws IOException;

  /** The daemon stops: calls that are under way should end soon. */
  @Override
  default void close() {}
}
