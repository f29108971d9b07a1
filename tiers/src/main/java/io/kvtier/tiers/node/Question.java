package io.kvtier.tiers.node;

import io.kvtier.tiers.object.BlockKey;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.PresenceCache.Presence;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** A question to all nodes, whether they have one block, and the callers that wait for answers. */
final class Question {
  /** The number of a block that is of no sequence. */
  static final long ALONE = 0;

  final ObjectKey key;

  /** The lookup whose blocks follow one another; {@link #ALONE}: the block is asked for alone. */
  final long sequence;

  final BlockKey name;

  /** The callers that wait for the answer; guarded by {@link NodeHints}. */
  final List<Consumer<Presence>> waiting = new ArrayList<>(1);

  /** How many nodes have not answered. Confined to the reader that asks, as are those below. */
  int open;

  /** The nodes that have the block, as {@link Holders}. */
  long holders;

  boolean isAnswered;
  boolean isTold;

  Question(ObjectKey key, BlockKey name, long sequence) {
    this.key = key;
    this.sequence = sequence;
    this.name = name;
  }

  /** Whether one frame can ask for both blocks. */
  boolean goesWith(Question other) {
    return name.goesWith(other.name);
  }
}
