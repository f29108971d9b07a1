package io.kvtier.daemon.node;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.IndexAgent;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.slots.SlotAllocator;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.function.IntFunction;

/**
 * Sessions of other nodes with the index of this daemon. They have rings like all sessions, but the
 * smallest, since their calls come through the inbox: a node asks for other things than a client.
 */
public final class IndexSessions implements NodeIndex {
  private static final int RING_BYTES = 4096;

  private final IndexAgent index;
  private final Runnable bell;
  private final int slabs;
  private final IntFunction<MemorySegment> mapping;

  /**
   * Opens sessions with an index.
   *
   * @param bell wakes the index
   * @param slabs how many slabs the first tier has
   * @param mapping the bytes of each slab
   */
  public IndexSessions(
      IndexAgent index, Runnable bell, int slabs, IntFunction<MemorySegment> mapping) {
    this.index = index;
    this.bell = bell;
    this.slabs = slabs;
    this.mapping = mapping;
  }

  @Override
  public Session open(String name, Grant grant, Runnable ended) throws IOException {
    Arena arena = Arena.ofShared();
    boolean isOpen = false;
    try (Descriptor memory =
        SharedMemory.create("kvtier-node", SessionRegion.regionBytes(RING_BYTES, RING_BYTES))) {
      SessionRegion region =
          SessionRegion.create(memory, SlotAllocator.DAEMON, RING_BYTES, RING_BYTES, arena);
      Session session =
          new Session(
              SlotAllocator.DAEMON,
              Session.Client.of(
                  "node " + name, (int) ProcessHandle.current().pid(), SocketPaths.uid()),
              grant,
              region,
              slabs,
              new Owner(arena, ended));
      isOpen = index.offerOpen(session);
      if (!isOpen) {
        throw new IOException("the index takes no more sessions now");
      }
      bell.run();
      return session;
    } finally {
      if (!isOpen) {
        arena.close();
      }
    }
  }

  @Override
  public boolean call(Session session, NodeCall call) {
    boolean isTaken = index.offerNodeCall(session, call);
    bell.run();
    return isTaken;
  }

  @Override
  public boolean close(Session session) {
    boolean isTaken = index.offerClose(session);
    bell.run();
    return isTaken;
  }

  @Override
  public MemorySegment slab(int slab) {
    return mapping.apply(slab);
  }

  /** Keeps a session's memory until the index has let go of the session. */
  private record Owner(Arena arena, Runnable ended) implements Session.Owner {
    @Override
    public void end(Session session, Status reason, String why) {
      ended.run();
    }

    @Override
    public void released(Session session) {
      // A session that the index did not take in is released twice.
      if (arena.scope().isAlive()) {
        arena.close();
      }
    }

    @Override
    public void wake(Session session) {}
  }
}
