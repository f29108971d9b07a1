package io.kvtier.daemon.node;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import java.io.IOException;
import java.lang.foreign.MemorySegment;

/** The index, as those who serve other nodes see it. */
public interface NodeIndex {
  /**
   * Opens a session for another node.
   *
   * @param ended runs on the index's thread if the index ends the session
   */
  Session open(String name, Grant grant, Runnable ended) throws IOException;

  /** Asks something in a session; false if too much waits for the index. */
  boolean call(Session session, NodeCall call);

  /** Ends a session, with its leases; false if too much waits for the index. */
  boolean close(Session session);

  /** The bytes of a slab of the first tier. */
  MemorySegment slab(int slab);
}
