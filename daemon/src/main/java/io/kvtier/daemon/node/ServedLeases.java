package io.kvtier.daemon.node;

import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import java.nio.LongBuffer;
import java.util.HashMap;
import java.util.Map;

/**
 * The leases of the blocks that another node reads over one link. A lease ends when the node has
 * released it, and nothing reads the slot any more. Either can be first: with a fabric, the node
 * can have a block before this side hears that the block is sent. Confined to the server's thread.
 */
final class ServedLeases {
  private enum State {
    SENDING,
    SENT,

    /** The node has released the lease, and the bytes may still be being read. */
    RELEASED,

    /** As {@link #RELEASED}, and the node has found the block damaged. */
    DAMAGED
  }

  private final NodeServer server;
  private final Map<Long, State> leases = new HashMap<>();

  ServedLeases(NodeServer server) {
    this.server = server;
  }

  int size() {
    return leases.size();
  }

  /** A block is going to be sent. */
  void begin(long lease) {
    leases.put(lease, State.SENDING);
  }

  /** Nothing reads the slot of a block any more. */
  void sent(Session session, long lease) {
    State state = leases.replace(lease, State.SENT);
    if (state == State.RELEASED || state == State.DAMAGED) {
      release(session, new long[] {lease}, state == State.DAMAGED);
    }
  }

  /** The node has blocks. Leases that have ended already are ignored. */
  void release(Session session, long[] released, boolean isDamaged) {
    LongBuffer ended = LongBuffer.allocate(released.length);
    for (long lease : released) {
      State state = leases.get(lease);
      if (state == State.SENT) {
        leases.remove(lease);
        ended.put(lease);
      } else if (state == State.SENDING) {
        leases.put(lease, isDamaged ? State.DAMAGED : State.RELEASED);
      }
    }
    if (ended.flip().hasRemaining()) {
      server.surely(session, new NodeCall.Release(ended, isDamaged));
    }
  }

  /** The link has closed: the leases end with the session. */
  void clear() {
    leases.clear();
  }
}
