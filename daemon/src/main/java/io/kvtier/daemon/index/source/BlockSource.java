package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.Pipeline;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/**
 * A source of blocks that this daemon does not own, such as an object store. The index knows only
 * in part, and never for sure, which blocks a source has. It asks about the others, and a block
 * that can't be read is a miss. Confined to the index.
 */
public interface BlockSource {
  /**
   * The name of a source outside of the index, and the counters of its work.
   *
   * @param id the tier that clients see for a block of the source
   * @param times the kind of latency of reads; null when reads are not timed
   * @param hits counts the blocks of the source that clients got
   * @param fetched counts the blocks that were read
   * @param readBytes counts the bytes that were read
   * @param errors counts the reads that failed; an absent or damaged block is no error
   */
  record Traits(
      TierId id,
      Latencies.@Nullable Kind times,
      Counter hits,
      Counter fetched,
      Counter readBytes,
      Counter errors) {
    /**
     * Traits of a source whose blocks count, and are shown to clients, as those of the object
     * store.
     */
    public static Traits ofObjects(Latencies.@Nullable Kind times) {
      return new Traits(
          TierId.OBJECT,
          times,
          Counter.HITS_OBJECT,
          Counter.OBJECT_FETCHED,
          Counter.OBJECT_READ_BYTES,
          Counter.OBJECT_ERRORS);
    }
  }

  /** Makes a source for an index. */
  @FunctionalInterface
  interface Opener {
    /**
     * Makes a source.
     *
     * @param isAwaited whether a request waits for a block
     * @param waitingMax the most blocks of gets that wait for an answer
     */
    BlockSource open(IndexCore core, IntPredicate isAwaited, int waitingMax);
  }

  /** Hears the answer to a question that was asked for a get. */
  @FunctionalInterface
  interface Finder {
    void found(int block, int priority, boolean prefetch, Presence presence);
  }

  Traits traits();

  /** Reads blocks: transfers of kind LOAD, into slots of the first tier. */
  Pipeline pipeline();

  /** The most transfers that the pipeline takes. */
  int depth();

  /**
   * Whether the source has blocks in the form in which daemons store them, which may be encoded.
   * Other sources have raw blocks.
   */
  boolean keepsForms();

  /** Whether a read would be tried now. */
  boolean isOpen();

  // ---- blocks

  /** Whether the source has the block whose key was sought last, as far as is known. */
  Presence presenceOfSought(Namespaces.Namespace namespace, int keyBytes, int group);

  /**
   * Forgets that the source does not have the block whose key was sought last, so that it is asked
   * again. A source whose answers cost money or much time keeps what it knows.
   */
  default void forgetAbsence(Namespaces.Namespace namespace, int keyBytes, int group) {}

  /** Whether the source has a block that has a record, as far as is known. */
  Presence presenceOf(int block);

  /** Whether the source is known to have a block that has a record. */
  boolean has(int block);

  /** Estimates how long reads take; null: as long as those before took on average. */
  default @Nullable ReadTimes readTimes() {
    return null;
  }

  // ---- questions

  /**
   * Asks whether the source has the block whose key was sought last, as one more block of the
   * lookup under way.
   *
   * @return whether the answer will be known soon
   */
  boolean seek(Namespaces.Namespace namespace, int group, int keyBytes);

  /** The lookup under way has named all its unknown blocks. */
  void endLookup();

  /**
   * Asks, for a get, whether the source has a block; {@link #collect} gives the answer.
   *
   * @return false when that can't be asked now
   */
  boolean ask(int block, int priority, boolean prefetch);

  /** Gives the answers that have come to a finder; returns how many. */
  int collect(Finder finder);

  /** Whether {@link #collect} would give an answer. */
  boolean hasFound();

  /** Asks waiting questions, as many as may be under way. */
  void advance();

  /** How many questions are under way or wait. */
  int waiting();

  // ---- reads

  /** Whether the source waits for blocks that it does not have yet; then it has no others. */
  default boolean isExpecting() {
    return false;
  }

  /**
   * A block with a record is going to be read that a node does not have yet.
   *
   * @param node the CRC32C of the node's name or address
   * @param deadlineNs when the block is given up
   */
  default void expect(int block, int node, long deadlineNs) {}

  /** A read of a block is over, well or not. */
  void fetched(int block, Status status);

  /** Checks that the counts agree; for tests. */
  void checkInvariants();
}
