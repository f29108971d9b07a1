package io.kvtier.daemon.index.session;

import io.kvtier.protocol.Records;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.function.Consumer;

/**
 * What another node asks of the index, in a session of its own. Only blocks in the first tier
 * count: nothing is loaded, and no source is asked, so that nodes never send each other in circles.
 * Answers are given on the index's thread, and must neither block nor fail.
 */
public sealed interface NodeCall {
  /** A block that is not in this node. */
  byte ABSENT = 0;

  /** A block in the first tier. */
  byte FIRST = 1;

  /** A block in a lower tier only. */
  byte LOWER = 2;

  /**
   * Names of blocks.
   *
   * @param high the upper half of the namespace's fingerprint
   * @param keys in native memory, {@link Records#keyStride} bytes each
   */
  record Blocks(long high, long low, int group, int keyBytes, int count, MemorySegment keys) {
    /** The offset of a key. */
    public long at(int i) {
      return (long) i * Records.keyStride(keyBytes);
    }
  }

  /** Where blocks are. */
  record Find(Blocks blocks, Consumer<Found> answer) implements NodeCall {}

  /**
   * The answer to {@link Find}.
   *
   * @param places a byte for each block, from 0 to the limit
   * @param loadNs how long it would take to load, from lower tiers, those blocks that follow each
   *     other from the first; estimated
   */
  record Found(ByteBuffer places, long loadNs) {}

  /**
   * A lease of one block.
   *
   * @param blockBytes the length that the other node expects
   */
  record Lease(Blocks block, int blockBytes, Consumer<Leased> answer) implements NodeCall {}

  /**
   * Ends a lease.
   *
   * @param isDamaged whether the bytes that arrived did not match: the block is then checked here
   */
  record Release(long lease, boolean isDamaged) implements NodeCall {}

  /** The answer to {@link Lease}. */
  sealed interface Leased {
    /**
     * A block that stays where it is until the lease ends.
     *
     * @param checksum made by the block's writer
     */
    record Here(long lease, int slab, long offset, int length, int checksum) implements Leased {}

    /** The block is not in the first tier, or has another length. */
    record Absent() implements Leased {}

    /** There can be no more leases now. */
    record Busy() implements Leased {}
  }
}
