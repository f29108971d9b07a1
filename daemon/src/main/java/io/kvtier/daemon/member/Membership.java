package io.kvtier.daemon.member;

import java.io.IOException;

/**
 * Says which other nodes there are. Nodes come and go; one that has started anew leaves first, then
 * comes with another incarnation.
 */
public interface Membership extends AutoCloseable {
  /**
   * Hears of nodes. The calls come one after the other, from any thread, and must not block. A node
   * that has come leaves before another one comes with the same address.
   */
  interface Listener {
    /** A node is there from now on. */
    void joined(Member member);

    /** A node that had come is not there any more, or can't be reached. */
    void left(Member member);
  }

  /**
   * Begins to tell of nodes. This does not wait for any of them. Called once.
   *
   * @throws IOException naming the key to change
   */
  void start(Listener listener) throws IOException;

  /** How nodes are found, and whether that works, in a few words; from any thread. */
  String state();

  /** Tells of nothing more, and lets the others know that this node leaves. */
  @Override
  void close();
}
