package io.kvtier.daemon.node;

import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import java.util.ArrayDeque;
import java.util.function.BooleanSupplier;

/**
 * Calls that must reach the index, in their order. If the index has no space for a call, a later
 * round repeats it. An index that has stopped is never waited for. Confined to one thread.
 */
final class SureCalls {
  private final NodeIndex index;

  /** Calls that the index had no space for, each of which returns whether it has space now. */
  private final ArrayDeque<BooleanSupplier> owed = new ArrayDeque<>();

  SureCalls(NodeIndex index) {
    this.index = index;
  }

  /** Asks something in a session. */
  void call(Session session, NodeCall call) {
    say(() -> index.call(session, call));
  }

  /** Ends a session. */
  void close(Session session) {
    say(() -> index.close(session));
  }

  private void say(BooleanSupplier one) {
    if (!owed.isEmpty() || !one.getAsBoolean()) {
      owed.add(one);
    }
  }

  /** Repeats calls, as many as the index has space for. */
  void repeat() {
    while (!owed.isEmpty() && owed.element().getAsBoolean()) {
      owed.remove();
    }
  }

  /** Whether all calls have reached the index. */
  boolean isEmpty() {
    return owed.isEmpty();
  }
}
