package io.kvtier.client.internal.session;

import io.kvtier.client.DaemonInfo;
import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.UnixSocket;
import java.io.IOException;
import java.lang.foreign.Arena;

/**
 * What connects a session to its daemon: the socket, the session's memory, the doorbell, the
 * daemon's memory, and the slabs, each mapped when it is first named. All end together.
 */
public final class Wires implements AutoCloseable {
  private final Arena arena;
  private final UnixSocket socket;
  private final SessionRegion session;
  private final EventFd doorbell;
  private final DaemonView daemon;
  private final SocketQuestions questions;
  private final Slabs slabs;
  private final DaemonInfo info;
  private final boolean encodes;
  private final boolean expects;
  private int lastPassed;

  /**
   * The connection of a session.
   *
   * @param arena what is mapped is mapped in this arena, which ends with the connection
   */
  Wires(Arena arena, UnixSocket socket, Handshake.Welcome welcome) throws IOException {
    this.arena = arena;
    this.socket = socket;
    this.session = welcome.session();
    this.doorbell = welcome.doorbell();
    this.daemon = welcome.daemon();
    this.info = welcome.info();
    this.encodes = welcome.encodes();
    this.expects = welcome.expects();
    this.questions = new SocketQuestions(socket);
    this.slabs = new Slabs(questions, arena, welcome.slabBytes(), welcome.slabCount());
  }

  UnixSocket socket() {
    return socket;
  }

  SessionRegion session() {
    return session;
  }

  EventFd doorbell() {
    return doorbell;
  }

  DaemonView daemon() {
    return daemon;
  }

  public Slabs slabs() {
    return slabs;
  }

  public DaemonInfo info() {
    return info;
  }

  /** Whether the daemon knows encoded blocks. */
  public boolean encodes() {
    return encodes;
  }

  /** Whether the daemon knows gets of blocks that a node is going to have. */
  boolean expects() {
    return expects;
  }

  /**
   * Takes numbers for descriptors that this session will pass. Each number is taken once.
   *
   * @return the first of the numbers
   */
  public synchronized int nextPassed(int count) {
    int first = lastPassed;
    lastPassed = Math.addExact(lastPassed, count);
    return first;
  }

  /** Gives the daemon a copy of a descriptor of a device's memory. */
  public Status pass(int number, int descriptor) throws IOException {
    return questions
        .ask(
            HandshakeDescriptor.PASS_MEMORY_MAGIC,
            number,
            0,
            descriptor,
            "the memory of descriptor " + descriptor)
        .status();
  }

  @Override
  public void close() {
    socket.close();
    doorbell.close();
    arena.close();
  }

  @Override
  public String toString() {
    return "session " + info.sessionId() + " with " + info.version() + ", process " + info.pid();
  }
}
