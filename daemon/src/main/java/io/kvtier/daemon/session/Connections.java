package io.kvtier.daemon.session;

import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.Epoll;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.UnixSocket;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** All connections, and how they end. For the sessions' thread only. */
final class Connections {
  private static final Logger LOG = LoggerFactory.getLogger(Connections.class);

  private final Epoll epoll;
  private final SessionConductor.IndexSide index;
  private final RingBudget rings;
  private final UnreadAnswers unread;
  private final Closer closer;
  private final Map<Long, Connection> all = new HashMap<>();

  /** Connections with a session, by the session's id, oldest first. */
  private final Map<Long, Connection> bySession = new LinkedHashMap<>();

  /** Connections without a hello, by tag, oldest first. */
  private final Map<Long, Connection> silent = new LinkedHashMap<>();

  /** Ended connections that the index has not yet been told of. */
  private final ArrayDeque<Connection> closing = new ArrayDeque<>();

  /**
   * A set without connections.
   *
   * @param epoll watches the sockets
   */
  Connections(
      Epoll epoll,
      SessionConductor.IndexSide index,
      RingBudget rings,
      UnreadAnswers unread,
      Closer closer) {
    this.epoll = epoll;
    this.index = index;
    this.rings = rings;
    this.unread = unread;
    this.closer = closer;
  }

  /** Adds a connection that has not yet said hello. */
  void add(Connection connection) {
    all.put(connection.tag, connection);
    silent.put(connection.tag, connection);
  }

  /** Notes that a connection has a session now. */
  void opened(Connection connection, long sessionId) {
    silent.remove(connection.tag);
    bySession.put(sessionId, connection);
  }

  /** The connection with a tag, or null. */
  @Nullable Connection byTag(long tag) {
    return all.get(tag);
  }

  /** The connection of a session, or null. */
  @Nullable Connection ofSession(long sessionId) {
    return bySession.get(sessionId);
  }

  /** The connections with a session, oldest first. */
  Collection<Connection> withSession() {
    return Collections.unmodifiableCollection(bySession.values());
  }

  /** The count of connections without a hello. */
  int silentCount() {
    return silent.size();
  }

  /** The oldest connection without a hello, or null. */
  @Nullable Connection oldestSilent() {
    return silent.isEmpty() ? null : silent.values().iterator().next();
  }

  /** Ends a connection. The index is asked to release its session, if there is one. */
  void end(Connection connection) {
    closeSocket(connection);
    if (connection.session == null) {
      forget(connection);
    } else if (!connection.closeOffered) {
      closing.add(connection);
      offerCloses();
    }
  }

  /** Closes a connection's socket, on another thread if that can take long. The session stays. */
  void closeSocket(Connection connection) {
    if (!connection.socketClosed) {
      connection.socketClosed = true;
      try {
        epoll.remove(connection.socket.descriptor());
      } catch (IOException e) {
        LOG.debug("{}", e.getMessage());
      }
      Descriptor process = connection.process;
      if (process != null) {
        try {
          epoll.remove(process);
        } catch (IOException e) {
          LOG.debug("{}", e.getMessage());
        }
        process.close();
      }
      if (!connection.isAside) {
        endSocket(connection);
      }
    }
  }

  /**
   * Whether the client runs as root or as the daemon's user: these users need no limit of unread
   * answers.
   */
  private static boolean isTrusted(Connection connection) {
    int user = connection.peer.uid();
    return user == 0 || user == SocketPaths.uid();
  }

  /** Closes a socket that is no longer watched. */
  void endSocket(Connection connection) {
    UnixSocket socket = connection.socket;
    boolean sentDescriptors = connection.session != null;
    if (socket.endHoldsDescriptors()) {
      boolean _ = closer.run(connection.peer.pid(), connection.peer.uid(), socket::close);
    } else if (sentDescriptors && !isTrusted(connection) && socket.isUnread()) {
      unread.add(socket, connection.peer.uid());
    } else {
      socket.close();
    }
  }

  /** Tells the index of ended connections, until the index takes no more. */
  void offerCloses() {
    while (!closing.isEmpty()) {
      Connection connection = closing.peek();
      Session session = connection.session;
      if (session != null && !connection.closeOffered) {
        if (!index.agent().offerClose(session, connection.hasHungUp)) {
          return;
        }
        connection.closeOffered = true;
        index.bell().run();
      }
      closing.poll();
    }
  }

  /**
   * Removes a connection without a session, or whose session the index has released, and frees its
   * parts.
   */
  void forget(Connection connection) {
    all.remove(connection.tag);
    silent.remove(connection.tag);
    if (connection.grant != null && connection.rings != null) {
      rings.release(connection.grant, connection.rings);
      connection.rings = null;
    }
    Session session = connection.session;
    if (session != null) {
      bySession.remove(session.id());
      session.passedMemory().close();
    }
    EventFd doorbell = connection.doorbell;
    if (doorbell != null) {
      try {
        index.epoll().remove(doorbell.descriptor());
      } catch (IOException e) {
        LOG.debug("{}", e.getMessage());
      }
      doorbell.close();
    }
    Arena arena = connection.arena;
    if (arena != null) {
      arena.close();
    }
  }

  /** Closes all sockets, without telling the index. */
  void closeAll() {
    for (Connection connection : all.values()) {
      closeSocket(connection);
    }
    unread.close();
  }
}
