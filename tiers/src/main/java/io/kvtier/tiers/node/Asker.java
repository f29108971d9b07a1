package io.kvtier.tiers.node;

import org.jspecify.annotations.Nullable;

/** Hears the answer of a node to an ASK, on the thread of the reader. */
@FunctionalInterface
interface Asker {
  /**
   * A node has answered, or will not.
   *
   * @param places null: it will not
   */
  void answered(NodePeer peer, Messages.@Nullable Places places);
}
