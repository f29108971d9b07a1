package io.kvtier.tiers.object;

import io.kvtier.tiers.object.PresenceCache.Presence;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The known presence of a source's blocks, and questions about other blocks. An answer may be out
 * of date as soon as it is known. The index's thread uses it, and never waits.
 */
public interface KnownBlocks {
  /** Whether the source has a block, as far as is known. */
  Presence lookup(ObjectKey key);

  /** The block was read. */
  void present(ObjectKey key);

  /** The block was missing or damaged. */
  void absent(ObjectKey key);

  /** Nothing is known of the block any more. */
  void forget(ObjectKey key);

  /**
   * Asks in the background whether the source has a block, unless the answer is known or under way.
   * The answer is UNKNOWN if the source does not answer in time.
   *
   * @param whenFound called on any thread; at once if the answer is known
   * @return false if too many questions wait: there will be no answer
   */
  boolean probe(ObjectKey key, BlockKey name, @Nullable Consumer<Presence> whenFound);

  /** The next questions are for blocks that follow one another in a sequence, in its order. */
  default void beginSequence() {}

  /** The questions of a sequence have been asked. */
  default void endSequence() {}

  /** All questions of a round have been asked. */
  default void endRound() {}

  /** The most questions that are under way. */
  int probesMax();

  /** Whether the source has not answered for a while. */
  boolean isSilent();
}
