package io.kvtier.daemon.node;

import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import java.nio.LongBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * The leases of the blocks that another node reads over one link. A lease ends when the node has
 * released it, and nothing reads the slot any more. Either can be first: with a fabric, the node
 * can have a block before this side hears that the block is sent. A lease has no end in time,
 * because bytes of the slot may still be on their way. If a node keeps a lease too long, its link
 * is closed. Confined to the server's thread.
 */
final class ServedLeases {
  /** How long a node may keep a block that was given to it. */
  static final long KEPT_NS = TimeUnit.SECONDS.toNanos(30);

  private enum State {
    SENDING,
    SENT,

    /** The node has released the lease, and the bytes may still be being read. */
    RELEASED,

    /** As {@link #RELEASED}, and the node has found the block damaged. */
    DAMAGED
  }

  private static final class Lease {
    final long sinceNs;
    State state = State.SENDING;

    Lease(long sinceNs) {
      this.sinceNs = sinceNs;
    }
  }

  private final NodeServer server;

  /** The oldest first. */
  private final Map<Long, Lease> leases = new LinkedHashMap<>();

  ServedLeases(NodeServer server) {
    this.server = server;
  }

  int size() {
    return leases.size();
  }

  /** A block is going to be sent. */
  void begin(long lease) {
    leases.put(lease, new Lease(server.nowNs()));
  }

  /** Whether the node keeps a lease for too long, or takes a block too slowly. */
  boolean isLate(long nowNs) {
    return !leases.isEmpty() && nowNs - leases.values().iterator().next().sinceNs >= KEPT_NS;
  }

  /** Nothing reads the slot of a block any more. */
  void sent(Session session, long lease) {
    Lease one = leases.get(lease);
    if (one == null) {
      return;
    }
    State before = one.state;
    one.state = State.SENT;
    if (before == State.RELEASED || before == State.DAMAGED) {
      release(session, new long[] {lease}, before == State.DAMAGED);
    }
  }

  /** The node has blocks. Leases that have ended already are ignored. */
  void release(Session session, long[] released, boolean isDamaged) {
    LongBuffer ended = LongBuffer.allocate(released.length);
    for (long lease : released) {
      Lease one = leases.get(lease);
      if (one != null && one.state == State.SENT) {
        leases.remove(lease);
        ended.put(lease);
      } else if (one != null && one.state == State.SENDING) {
        one.state = isDamaged ? State.DAMAGED : State.RELEASED;
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
