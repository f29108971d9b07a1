package io.kvtier.daemon.session;

import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Epoll;
import io.kvtier.protocol.linux.UnixSocket;
import io.kvtier.protocol.linux.Words;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers what clients ask over the sockets of their sessions: to map a slab, or to take a
 * descriptor of a device's memory. For the sessions' thread only.
 */
final class Questions {
  private static final Logger LOG = LoggerFactory.getLogger(SessionConductor.class);

  private final SessionConductor.Memory memory;
  private final Epoll epoll;
  private final Connections connections;
  private final PassedDescriptors passed;

  /**
   * No questions yet.
   *
   * @param epoll watches the sockets
   */
  Questions(
      SessionConductor.Memory memory,
      Epoll epoll,
      Connections connections,
      PassedDescriptors passed) {
    this.memory = memory;
    this.epoll = epoll;
    this.connections = connections;
    this.passed = passed;
  }

  /** Gives a client the descriptor of a slab, or refuses it. */
  void mapSlab(Connection connection, Session session, byte[] bytes) throws IOException {
    if (!Messages.isMapping(bytes)) {
      throw new IOException("that was not a request to map a slab");
    }
    MemorySegment message = Messages.aligned(bytes);
    int slab = Words.getInt(message, HandshakeDescriptor.QUESTION_NUMBER_OFFSET);
    boolean write = Words.getInt(message, HandshakeDescriptor.QUESTION_WORD_OFFSET) != 0;
    Status status =
        slab < 0 || slab >= memory.slabs().slabs()
            ? Status.INVALID_ARGUMENT
            : memory.slabTenants().tenantOf(slab) != session.tenant()
                    || (write && !session.mayWrite(slab))
                ? Status.DENIED
                : Status.OK;
    byte[] answer = Messages.answer(bytes, status);
    if (status == Status.OK) {
      connection.socket.send(answer, memory.slabs().descriptor(slab, write));
    } else {
      connection.socket.send(answer);
    }
  }

  /**
   * Has another thread take what a client passes: a descriptor can take long to close. Until the
   * answer, the connection is not watched.
   */
  void takeAside(Connection connection, byte[] question) throws IOException {
    epoll.remove(connection.socket.descriptor());
    connection.isAside = true;
    if (!passed.take(connection, question)) {
      connection.isAside = false;
      throw new IOException("too much that was passed does not close");
    }
  }

  /** Answers the questions whose descriptors were taken. */
  void answerAside() {
    for (PassedDescriptors.Taken one = passed.poll(); one != null; one = passed.poll()) {
      Connection connection = one.connection();
      Session session = connection.session;
      connection.isAside = false;
      if (connection.socketClosed || session == null) {
        if (one.passed() instanceof PassedDescriptors.Passed.Memory taken) {
          UnixSocket.discard(taken.descriptor());
        }
        connections.endSocket(connection);
        continue;
      }
      try {
        // Before anything that can fail: the session takes the memory, and closes it later.
        Status status = statusOf(one, session);
        epoll.add(connection.socket.descriptor(), Epoll.IN, connection.tag);
        connection.socket.send(Messages.answer(one.question(), status));
      } catch (IOException e) {
        LOG.info("connection of process {} ends: {}", connection.peer.pid(), e.getMessage());
        connections.end(connection);
      }
    }
  }

  private static Status statusOf(PassedDescriptors.Taken one, Session session) throws IOException {
    int number =
        Words.getInt(Messages.aligned(one.question()), HandshakeDescriptor.QUESTION_NUMBER_OFFSET);
    return switch (one.passed()) {
      case PassedDescriptors.Passed.Memory taken ->
          session.passedMemory().give(number, taken.descriptor());
      case PassedDescriptors.Passed.OfAnotherCount _ -> Status.INVALID_ARGUMENT;
      case PassedDescriptors.Passed.Unwanted _ -> Status.DENIED;
      case PassedDescriptors.Passed.Wrong wrong -> throw new IOException(wrong.why());
    };
  }
}
