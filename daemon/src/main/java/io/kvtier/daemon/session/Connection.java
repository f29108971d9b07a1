package io.kvtier.daemon.session;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.UnixSocket;
import java.lang.foreign.Arena;
import org.jspecify.annotations.Nullable;

/** A client's connection, and what belongs to its session once it has one. */
final class Connection {
  final long tag;
  final UnixSocket socket;
  final UnixSocket.PeerCredentials peer;
  final long acceptedNs;
  @Nullable Session session;
  @Nullable EventFd doorbell;
  @Nullable Arena arena;
  @Nullable Descriptor process;
  @Nullable Grant grant;
  RingBudget.@Nullable Rings rings;
  boolean socketClosed;

  /** Whether a closer has the socket: then that is closed when the closer is through. */
  boolean isAside;

  /** Whether the index was told that the session is over. */
  boolean closeOffered;

  /** The client has closed its end, which it does when it writes to no slot any more. */
  boolean hasHungUp;

  Connection(long tag, UnixSocket socket, UnixSocket.PeerCredentials peer) {
    this.tag = tag;
    this.socket = socket;
    this.peer = peer;
    this.acceptedNs = System.nanoTime();
  }

  /** Whether its session belongs to that tenant. */
  boolean isOf(int tenant) {
    return grant != null && grant.tenant() == tenant;
  }
}
