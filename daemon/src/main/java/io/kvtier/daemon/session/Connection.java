package io.kvtier.daemon.session;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.UnixSocket;
import java.lang.foreign.Arena;
import org.jspecify.annotations.Nullable;

/** A client's connection and, once there is one, the parts of its session. */
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

  /** Whether a thread of the closer uses the socket, which is then closed after that use. */
  boolean isAside;

  /** Whether the index was told that the session is over. */
  boolean closeOffered;

  /**
   * Whether the client has closed its end, which it does only when it no longer writes to slots.
   */
  boolean hasHungUp;

  Connection(long tag, UnixSocket socket, UnixSocket.PeerCredentials peer) {
    this.tag = tag;
    this.socket = socket;
    this.peer = peer;
    this.acceptedNs = System.nanoTime();
  }

  /** Whether the session belongs to a tenant. */
  boolean isOf(int tenant) {
    return grant != null && grant.tenant() == tenant;
  }
}
