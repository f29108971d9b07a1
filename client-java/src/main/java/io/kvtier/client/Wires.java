package io.kvtier.client;

import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolVersion;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.UnixSocket;
import io.kvtier.protocol.linux.Words;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;

/**
 * The parts of a session that came with the welcome: the connection, the session's memory, the
 * doorbell, the daemon's memory, and the slabs, mapped as they are named. All end together.
 */
final class Wires implements AutoCloseable {
  /** The daemon does not want this client, and says why. */
  static final class Refused extends IOException {
    private static final long serialVersionUID = 1L;
    private final Status status;

    Refused(Status status, String text) {
      super(text);
      this.status = status;
    }

    Status status() {
      return status;
    }
  }

  /** The process that listens is not one that this client trusts. */
  static final class Stranger extends IOException {
    private static final long serialVersionUID = 1L;

    Stranger(String why) {
      super(why);
    }
  }

  /** The possible reasons why a daemon listens but does not answer. */
  static final String WHY_SILENT =
      ": it starts, is busy, or was stopped; it is asked again, and kvtier report looks at it from"
          + " outside";

  private final Arena arena;
  private final UnixSocket socket;
  private final SessionRegion session;
  private final EventFd doorbell;
  private final DaemonView daemon;
  private final SocketQuestions questions;
  private final Slabs slabs;
  private final DaemonInfo info;
  private int lastPassed;

  private Wires(
      Arena arena,
      UnixSocket socket,
      SessionRegion session,
      EventFd doorbell,
      DaemonView daemon,
      SocketQuestions questions,
      Slabs slabs,
      DaemonInfo info) {
    this.arena = arena;
    this.socket = socket;
    this.session = session;
    this.doorbell = doorbell;
    this.daemon = daemon;
    this.questions = questions;
    this.slabs = slabs;
    this.info = info;
  }

  /** Connects, and shakes hands. */
  static Wires connect(
      Path path,
      DaemonUser expected,
      String name,
      int requestRingBytes,
      int completionRingBytes,
      int timeoutMs)
      throws IOException {
    UnixSocket socket = UnixSocket.connect(path, timeoutMs);
    List<Descriptor> descriptors = List.of();
    Arena arena = Arena.ofShared();
    boolean welcome = false;
    try {
      String stranger = expected.whyNot(socket, path);
      if (stranger != null) {
        throw new Stranger(stranger);
      }
      socket.send(hello(name, requestRingBytes, completionRingBytes));
      UnixSocket.Message message = socket.receive(HandshakeDescriptor.MESSAGE_BYTES_MAX);
      if (message == null) {
        throw new IOException(
            "it did not answer the handshake within " + timeoutMs + " ms" + WHY_SILENT);
      }
      descriptors = message.descriptors();
      Wires wires = read(message, socket, arena);
      welcome = true;
      return wires;
    } finally {
      for (int i = 0; i < descriptors.size(); i++) {
        // The doorbell stays; a mapping does not need its descriptor.
        if (!welcome || i != 1) {
          descriptors.get(i).close();
        }
      }
      if (!welcome) {
        arena.close();
        socket.close();
      }
    }
  }

  private static byte[] hello(String name, int requestRingBytes, int completionRingBytes) {
    byte[] nameBytes = name.getBytes(StandardCharsets.UTF_8);
    int nameLength =
        Math.min(
            nameBytes.length,
            HandshakeDescriptor.MESSAGE_BYTES_MAX - HandshakeDescriptor.HELLO_NAME_OFFSET);
    byte[] bytes = new byte[HandshakeDescriptor.HELLO_NAME_OFFSET + nameLength];
    MemorySegment hello = MemorySegment.ofArray(bytes);
    hello.set(ValueLayout.JAVA_LONG_UNALIGNED, 0, HandshakeDescriptor.HELLO_MAGIC);
    hello.set(
        ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.HELLO_VERSION_OFFSET, Protocol.VERSION);
    hello.set(
        ValueLayout.JAVA_INT_UNALIGNED,
        HandshakeDescriptor.HELLO_REQUEST_RING_OFFSET,
        requestRingBytes);
    hello.set(
        ValueLayout.JAVA_INT_UNALIGNED,
        HandshakeDescriptor.HELLO_COMPLETION_RING_OFFSET,
        completionRingBytes);
    hello.set(
        ValueLayout.JAVA_SHORT_UNALIGNED,
        HandshakeDescriptor.HELLO_NAME_BYTES_OFFSET,
        (short) nameLength);
    System.arraycopy(nameBytes, 0, bytes, HandshakeDescriptor.HELLO_NAME_OFFSET, nameLength);
    return bytes;
  }

  private static Wires read(UnixSocket.Message message, UnixSocket socket, Arena arena)
      throws IOException {
    byte[] bytes = message.bytes();
    MemorySegment welcome = MemorySegment.ofArray(bytes);
    if (bytes.length < HandshakeDescriptor.WELCOME_TEXT_OFFSET
        || welcome.get(ValueLayout.JAVA_LONG_UNALIGNED, 0) != HandshakeDescriptor.WELCOME_MAGIC) {
      throw new IOException(
          bytes.length == 0
              ? "it hung up during the handshake"
              : "what answers is not a kvtier daemon");
    }
    int version =
        welcome.get(ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.WELCOME_VERSION_OFFSET);
    Status status = Status.of(unsigned(welcome, HandshakeDescriptor.WELCOME_STATUS_OFFSET));
    int textBytes =
        Math.min(
            unsigned(welcome, HandshakeDescriptor.WELCOME_TEXT_BYTES_OFFSET),
            bytes.length - HandshakeDescriptor.WELCOME_TEXT_OFFSET);
    String text =
        new String(
            bytes, HandshakeDescriptor.WELCOME_TEXT_OFFSET, textBytes, StandardCharsets.UTF_8);
    if (!ProtocolVersion.isCompatible(version)) {
      throw new Refused(
          Status.VERSION_MISMATCH, ProtocolVersion.mismatch(version, Protocol.VERSION));
    }
    if (status != Status.OK) {
      throw new Refused(status, "refuses: " + (text.isEmpty() ? status.meaning() : text));
    }
    if (message.descriptors().size() != 3) {
      throw new IOException(
          "the daemon's welcome has " + message.descriptors().size() + " descriptors, not 3");
    }
    SessionRegion session = SessionRegion.open(message.descriptors().get(0), arena);
    MemorySegment daemon =
        SharedMemory.map(
                message.descriptors().get(2), DaemonRegionDescriptor.REGION_BYTES, false, arena)
            .asReadOnly();
    if (Words.getIntAcquire(daemon, DaemonRegionDescriptor.READY_OFFSET) != 1
        || Words.getLong(daemon, DaemonRegionDescriptor.MAGIC_OFFSET)
            != DaemonRegionDescriptor.MAGIC) {
      throw new IOException("the daemon's memory is not a kvtier daemon region");
    }
    long slabBytes =
        welcome.get(ValueLayout.JAVA_LONG_UNALIGNED, HandshakeDescriptor.WELCOME_SLAB_BYTES_OFFSET);
    int slabCount =
        welcome.get(ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.WELCOME_SLAB_COUNT_OFFSET);
    DaemonInfo info =
        new DaemonInfo(
            text,
            Words.getLong(daemon, DaemonRegionDescriptor.PROCESS_ID_OFFSET),
            Words.getLong(daemon, DaemonRegionDescriptor.GENERATION_OFFSET),
            Words.getLong(daemon, DaemonRegionDescriptor.START_TIME_OFFSET),
            welcome.get(
                ValueLayout.JAVA_LONG_UNALIGNED, HandshakeDescriptor.WELCOME_SESSION_ID_OFFSET));
    SocketQuestions questions = new SocketQuestions(socket);
    return new Wires(
        arena,
        socket,
        session,
        new EventFd(message.descriptors().get(1)),
        new DaemonView(daemon),
        questions,
        new Slabs(questions, arena, slabBytes, slabCount),
        info);
  }

  private static int unsigned(MemorySegment segment, int offset) {
    return Short.toUnsignedInt(segment.get(ValueLayout.JAVA_SHORT_UNALIGNED, offset));
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

  Slabs slabs() {
    return slabs;
  }

  DaemonInfo info() {
    return info;
  }

  /** Numbers for what is passed, that no other call gets. */
  synchronized int nextPassed(int count) {
    int first = lastPassed;
    lastPassed = Math.addExact(lastPassed, count);
    return first;
  }

  /** Gives the daemon a copy of a descriptor of a device's memory. */
  Status pass(int number, int descriptor) throws IOException {
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
