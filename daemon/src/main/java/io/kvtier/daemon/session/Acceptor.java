package io.kvtier.daemon.session;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.protocol.linux.Epoll;
import io.kvtier.protocol.linux.UnixSocket;
import java.io.IOException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Accepts connections, and drops those that do not say hello. For the sessions' thread only, after
 * the constructor.
 */
final class Acceptor implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(SessionConductor.class);
  private static final long HELLO_TIMEOUT_NS = 5_000_000_000L;
  private static final int PAUSE_MS = 100;
  private static final long PAUSE_NS = PAUSE_MS * 1_000_000L;

  /** Maximum new connections in one round, so that open sessions are served between them. */
  private static final int ACCEPTS_PER_ROUND = 64;

  /** Maximum unread bytes of a socket, about eight answers: clients ask one question at a time. */
  private static final int UNREAD_BYTES_MAX = 4096;

  /** The most connections that have not said hello: a newcomer takes the place of the oldest. */
  private static final int SILENT_MAX = 256;

  private final UnixSocket listener;
  private final Epoll epoll;
  private final long listenerTag;
  private final Connections connections;
  private final Counters counters;
  private boolean pauses;
  private long listensAgainNs;
  private long nextTag;

  /**
   * Begins to listen.
   *
   * @param epoll watches the listener and the connections
   * @param listenerTag the tag of the listener's events; connections have higher tags
   */
  Acceptor(
      UnixSocket listener,
      Epoll epoll,
      long listenerTag,
      Connections connections,
      Counters counters)
      throws IOException {
    this.listener = listener;
    this.epoll = epoll;
    this.listenerTag = listenerTag;
    this.connections = connections;
    this.counters = counters;
    this.nextTag = listenerTag + 1;
    epoll.add(listener.descriptor(), Epoll.IN, listenerTag);
  }

  /** How long the thread may sleep. */
  int sleepMs(int max) {
    return pauses ? PAUSE_MS : max;
  }

  /** Accepts the connections that wait. */
  void acceptAll() {
    try {
      for (int i = 0; i < ACCEPTS_PER_ROUND; i++) {
        UnixSocket socket = listener.accept();
        if (socket == null) {
          return;
        }
        take(socket);
      }
    } catch (IOException e) {
      LOG.warn("connections can't be accepted for a while: {}", e.getMessage());
      pause();
    }
  }

  private void take(UnixSocket socket) {
    try {
      Connection connection = new Connection(nextTag++, socket, socket.peerCredentials());
      socket.limitUnread(UNREAD_BYTES_MAX);
      epoll.add(socket.descriptor(), Epoll.IN, connection.tag);
      Connection oldest = connections.oldestSilent();
      if (oldest != null && connections.silentCount() >= SILENT_MAX) {
        counters.countRefusal();
        LOG.info(
            "connection of process {} closed: it sent nothing, and others wait", oldest.peer.pid());
        connections.end(oldest);
      }
      connections.add(connection);
    } catch (IOException e) {
      LOG.warn("a connection could not be taken: {}", e.getMessage());
      socket.close();
    }
  }

  /**
   * Pauses accepting. A connection that can't be accepted keeps the listener readable, and the
   * thread would spin.
   */
  private void pause() {
    try {
      epoll.remove(listener.descriptor());
      listensAgainNs = System.nanoTime() + PAUSE_NS;
      pauses = true;
    } catch (IOException e) {
      LOG.debug("{}", e.getMessage());
    }
  }

  /** Ends a pause that is over. */
  void listenAgain() {
    if (pauses && System.nanoTime() - listensAgainNs >= 0) {
      try {
        epoll.add(listener.descriptor(), Epoll.IN, listenerTag);
        pauses = false;
      } catch (IOException e) {
        LOG.warn("connections can't be accepted yet: {}", e.getMessage());
        listensAgainNs = System.nanoTime() + PAUSE_NS;
      }
    }
  }

  /** Ends the connections that have not said hello in time. */
  void dropSilent() {
    long now = System.nanoTime();
    for (Connection oldest = connections.oldestSilent();
        oldest != null && now - oldest.acceptedNs > HELLO_TIMEOUT_NS;
        oldest = connections.oldestSilent()) {
      LOG.info("connection of process {} closed: it sent nothing in time", oldest.peer.pid());
      connections.end(oldest);
    }
  }

  /** Closes the listener. */
  @Override
  public void close() {
    listener.close();
  }
}
