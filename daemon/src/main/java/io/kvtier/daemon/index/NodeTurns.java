package io.kvtier.daemon.index;

import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.verbs.NodeCalls;
import java.util.ArrayDeque;

/**
 * The calls of other nodes that wait for the index. Nodes have turns, one after the other. The
 * turns in one round of the index take about half a millisecond, so neither other nodes nor clients
 * wait for all calls of one node. Each node's link bounds the node's calls. Confined to the index.
 */
final class NodeTurns {
  private static final int KEYS_PER_ROUND = 4096;
  private static final int KEYS_PER_TURN = 512;

  /** The time of a call without keys, as the number of keys that are looked up in that time. */
  private static final int KEYS_PER_CALL = 16;

  private final NodeCalls calls;
  private final ArrayDeque<Session> due = new ArrayDeque<>();

  NodeTurns(NodeCalls calls) {
    this.calls = calls;
  }

  /** A node has made a call. */
  void add(Session session, NodeCall call) {
    if (session.nodeCalls.isEmpty()) {
      due.add(session);
    }
    session.nodeCalls.add(call);
  }

  boolean isEmpty() {
    return due.isEmpty();
  }

  /** Gives nodes their turns; returns how many calls were carried out. */
  int take() {
    int count = 0;
    int keysLeft = KEYS_PER_ROUND;
    while (keysLeft > 0 && !due.isEmpty()) {
      Session session = due.remove();
      int keys = 0;
      while (keys < KEYS_PER_TURN && !session.nodeCalls.isEmpty()) {
        NodeCall call = session.nodeCalls.remove();
        calls.handle(session, call);
        keys += keysOf(call);
        count++;
      }
      keysLeft -= keys;
      if (!session.nodeCalls.isEmpty()) {
        due.add(session);
      }
    }
    return count;
  }

  /** The time of a call, as a number of keys that are looked up. */
  private static int keysOf(NodeCall call) {
    return switch (call) {
      case NodeCall.Find find -> KEYS_PER_CALL + find.blocks().count();
      case NodeCall.Lease lease -> KEYS_PER_CALL * lease.blocks().count();
      case NodeCall.Release release -> KEYS_PER_CALL * release.leases().limit();
      default -> KEYS_PER_CALL;
    };
  }

  /** Carries out all calls of a session that has ended. Such calls look nothing up. */
  void end(Session session) {
    if (!session.nodeCalls.isEmpty()) {
      due.remove(session);
      session.nodeCalls.forEach(call -> calls.handle(session, call));
      session.nodeCalls.clear();
    }
  }
}
