package io.kvtier.tiers.outer;

import java.io.IOException;
import java.lang.foreign.MemorySegment;

/**
 * Blocks that somebody else keeps, and that the daemon can read. Several threads of the daemon call
 * it at once, never the index's thread. A call may block, but must end by itself: give connections
 * and requests a timeout. Nothing is ever written.
 */
public interface OuterSource extends AutoCloseable {
  /** What {@link #read} returns for a block that is not there. */
  long ABSENT = -1;

  /**
   * Says whether a block is there. The daemon remembers the answer for a while, and asks several
   * blocks of one prompt at once.
   *
   * @throws IOException when that can't be found out now
   */
  boolean has(BlockName block) throws IOException;

  /**
   * Reads a block.
   *
   * @param target as long as the block. It can be used until this returns
   * @return the CRC-32C of the block in the lower 32 bits, the upper bits 0; or {@link #ABSENT}.
   *     The checksum must come from whoever wrote the block. A checksum of what was just read
   *     proves nothing: a byte that changed on the way would be served to engines
   * @throws IOException when the block can't be read now
   */
  long read(BlockName block, MemorySegment target) throws IOException;

  /** The daemon stops: calls that are under way should end soon. */
  @Override
  default void close() {}
}
