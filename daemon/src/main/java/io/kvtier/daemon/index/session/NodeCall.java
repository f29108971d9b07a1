package io.kvtier.daemon.index.session;

import io.kvtier.protocol.Records;
import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.util.List;
import java.util.function.Consumer;

/**
 * What another node asks of the index, in a session of its own, and what this daemon asks in order
 * to hand its blocks to other nodes. Only blocks in the first tier count: nothing is loaded, and no
 * source is asked, so that nodes never send each other in circles. Answers are given on the index's
 * thread, and must neither block nor fail.
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
   * Leases of blocks.
   *
   * @param blockBytes the length of each that the other node expects
   * @param answer takes what became of each block, in their order
   */
  record Lease(Blocks blocks, int blockBytes, Consumer<List<Leased>> answer) implements NodeCall {}

  /**
   * Ends leases.
   *
   * @param leases from 0 to the limit
   * @param isDamaged whether the bytes that arrived did not match: the blocks are then checked here
   */
  record Release(LongBuffer leases, boolean isDamaged) implements NodeCall {}

  /** What became of a block of a {@link Lease}. */
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

  // ---- blocks that another node expects

  /**
   * Tells another node's block as it comes, until {@link Unfollow}: its pieces while it is written,
   * and its checksum when it is whole. What is told stays where it is until then.
   *
   * @param block its name
   * @param blockBytes the length that the other node expects
   * @param withinNs how long the other node waits, ns
   */
  record Follow(Blocks block, int blockBytes, long withinNs, Consumer<Followed> told)
      implements NodeCall {}

  /** What becomes of the block of a {@link Follow}. */
  sealed interface Followed {
    /**
     * Some bytes of the block are in its slot.
     *
     * @param units in how many equal parts the block is cut
     * @param from the first of these parts that are there
     * @param to the part after the last one
     */
    record Piece(int slab, long offset, int units, int from, int to) implements Followed {}

    /**
     * The whole block is in its slot.
     *
     * @param checksum made by the block's writer
     */
    record Whole(int slab, long offset, int checksum) implements Followed {}

    /** The block does not come. Nothing further is told. */
    record Lost(Status status, String why) implements Followed {}
  }

  /**
   * Nothing of a block is read here any more on account of a {@link Follow}.
   *
   * @param isDamaged whether the bytes that arrived did not match: the block is then checked here
   * @param ended runs on the index's thread when the follow has ended
   */
  record Unfollow(Follow follow, boolean isDamaged, Runnable ended) implements NodeCall {}

  // ---- blocks that another node pushes

  /**
   * How much another node can push here.
   *
   * @param unusedBytes host memory that no block has
   */
  record Room(long unusedBytes) {}

  /**
   * Registers a namespace for the session, so that blocks of it can be pushed.
   *
   * @param text the tenant, the block size and the properties, as the namespace's fingerprint has
   *     them
   */
  record Introduce(long high, long low, String text, Consumer<Introduced> answer)
      implements NodeCall {}

  /**
   * The answer to {@link Introduce}.
   *
   * @param why in words, if the status is not OK
   */
  record Introduced(Status status, String why, Room room) {}

  /**
   * A block that another node wants to push.
   *
   * @param blocks its name; if there is a second one, it is the block before it in its sequence
   * @param parent the fingerprint of the block before it; 0: unknown
   */
  record Pushed(
      Blocks blocks, int blockBytes, boolean isEncoded, int importance, int depth, long parent) {}

  /** Reserves a slot for a block. */
  record Reserve(Pushed block, Consumer<Reserved> answer) implements NodeCall {}

  /** The answer to {@link Reserve}. */
  sealed interface Reserved {
    Room room();

    /** A slot for the block, until the commit, the abort or the end of the session. */
    record Go(long reservation, int slab, long offset, Room room) implements Reserved {}

    /** The block is in this node already. */
    record Have(Room room) implements Reserved {}

    /**
     * The block is not taken.
     *
     * @param status PENDING: it may be taken soon
     */
    record No(Status status, String why, Room room) implements Reserved {}
  }

  /**
   * The bytes of a block are in its slot, and match the checksum of its writer: the block becomes
   * visible.
   *
   * @param answer OK, or STALE if there is no such reservation
   */
  record Commit(long reservation, int checksum, Consumer<Status> answer) implements NodeCall {}

  /**
   * Gives a reservation back; nothing writes its slot any more.
   *
   * @param isDamaged whether the bytes that came did not match their checksum
   */
  record Abort(long reservation, boolean isDamaged) implements NodeCall {}

  // ---- blocks that this daemon hands over

  /** The blocks of the first tier in the order in which they are to be handed over. */
  record Rank(Consumer<int[]> answer) implements NodeCall {}

  /** Keeps a block where it is until {@link Given}. */
  record Keep(int block, Consumer<Keeping> answer) implements NodeCall {}

  /** The answer to {@link Keep}. */
  sealed interface Keeping {
    /**
     * A block that stays where it is, with all that another node needs in order to take it.
     *
     * @param text of its namespace, as in {@link Introduce}
     * @param parentKey of the block before it; of length 0 if that block has left
     * @param parent its fingerprint; 0: unknown
     * @param checksum made by the block's writer
     */
    record Kept(
        long lease,
        long high,
        long low,
        String text,
        int group,
        MemorySegment key,
        MemorySegment parentKey,
        long parent,
        int depth,
        int importance,
        boolean isEncoded,
        int slab,
        long offset,
        int length,
        int checksum)
        implements Keeping {}

    /** The block is no longer in the first tier. */
    record Gone() implements Keeping {}

    /** There can be no more leases now. */
    record Busy() implements Keeping {}
  }

  /**
   * A block need not be kept any more.
   *
   * @param isTaken whether another node has taken it
   * @param isDamaged whether its bytes did not match: the block is then checked here
   */
  record Given(long lease, int length, boolean isTaken, boolean isDamaged) implements NodeCall {}
}
