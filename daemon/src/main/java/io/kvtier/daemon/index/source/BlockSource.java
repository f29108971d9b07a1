package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Directory;
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
 * Where blocks can be read from that this daemon does not own: an object store, other nodes. What
 * is there is known in part, and never for sure: what is not known is asked, and a block that can't
 * be read is a miss. Confined to the index.
 */
public interface BlockSource {
  /**
   * What a source is called outside of the index, and what its work is counted as.
   *
   * @param id what clients are told of a block that is there
   * @param times what reads are timed as; null where they are not
   * @param hits blocks that clients got, and that came from there
   * @param fetched blocks that were read
   * @param readBytes bytes that were read
   * @param errors reads that failed; what was not there, or damaged, is none
   */
  record Traits(
      TierId id,
      Latencies.@Nullable Kind times,
      Counter hits,
      Counter fetched,
      Counter readBytes,
      Counter errors) {}

  /** Makes a source for an index. */
  @FunctionalInterface
  interface Opener {
    /**
     * Makes a source.
     *
     * @param isAwaited whether a request waits for a block
     * @param waitingMax the most blocks of gets that wait for an answer
     */
    BlockSource open(
        Directory directory, Namespaces namespaces, IntPredicate isAwaited, int waitingMax);
  }

  /** Hears what became of the question for a get. */
  @FunctionalInterface
  interface Finder {
    void found(int block, int priority, boolean prefetch, Presence presence);
  }

  Traits traits();

  /** Reads blocks: transfers of kind LOAD, into slots of the first tier. */
  Pipeline pipeline();

  /** The most transfers that the pipeline takes. */
  int depth();

  /** Whether a read would be tried now. */
  boolean isOpen();

  // ---- what is there

  /** Says whether the block is there whose key was sought last, as far as is known. */
  Presence presenceOfSought(Namespaces.Namespace namespace, int keyBytes, int group);

  /** Says whether a block that has a record is there, as far as is known. */
  Presence presenceOf(int block);

  /** Whether a block that is here is there, too, as far as is known. */
  boolean has(int block);

  // ---- questions

  /**
   * Has it found out whether the block whose key was sought last is there, as one more of the
   * lookup under way.
   *
   * @return whether it will be known soon
   */
  boolean seek(Namespaces.Namespace namespace, int group, int keyBytes);

  /** The lookup under way has named all that it does not know. */
  void endLookup();

  /**
   * Has it found out, for a get, whether a block is there; {@link #collect} tells.
   *
   * @return false when that can't be found out now
   */
  boolean ask(int block, int priority, boolean prefetch);

  /** Tells of the questions that are answered; returns how many. */
  int collect(Finder finder);

  /** Whether {@link #collect} would tell of any. */
  boolean hasFound();

  /** Asks as much as may be under way. */
  void advance();

  /** How much is being found out, or is to be. */
  int waiting();

  // ---- reads

  /** A read of a block is over, well or not. */
  void fetched(int block, Status status);

  /** Checks that what is counted adds up; for tests. */
  void checkInvariants();
}
