package io.kvtier.client.internal.session;

import io.kvtier.client.DaemonInfo;
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
import java.util.List;

/** The first two messages of a session: the client's hello and the daemon's welcome. */
final class Handshake {
  /** Daemons know encoded blocks from this minor version on. */
  private static final int VERSION_MINOR_ENCODED = 1;

  /** Daemons know gets of blocks that a node is going to have from this minor version on. */
  private static final int VERSION_MINOR_EXPECTED = 3;

  /** The daemon refuses this client, or a request of it, and says why. */
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

  /**
   * What the daemon's welcome brings.
   *
   * @param daemon the daemon's memory, read-only
   */
  record Welcome(
      SessionRegion session,
      EventFd doorbell,
      DaemonView daemon,
      DaemonInfo info,
      long slabBytes,
      int slabCount,
      boolean encodes,
      boolean expects) {}

  /** The possible reasons why a daemon listens but does not answer. */
  static final String WHY_SILENT =
      ": it starts, is busy, or was stopped; it is asked again, and kvtier report looks at it from"
          + " outside";

  private Handshake() {}

  /** Connects, says hello, and reads the welcome. */
  static Wires connect(Connecting to) throws IOException {
    UnixSocket socket = UnixSocket.connect(to.socket(), to.timeoutMs());
    List<Descriptor> descriptors = List.of();
    Arena arena = Arena.ofShared();
    boolean welcome = false;
    try {
      String stranger = to.daemonUser().whyNot(socket, to.socket());
      if (stranger != null) {
        throw new Stranger(stranger);
      }
      socket.send(hello(to));
      UnixSocket.Message message = socket.receive(HandshakeDescriptor.MESSAGE_BYTES_MAX);
      if (message == null) {
        throw new IOException(
            "it did not answer the handshake within " + to.timeoutMs() + " ms" + WHY_SILENT);
      }
      descriptors = message.descriptors();
      Wires wires = new Wires(arena, socket, read(message, arena));
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

  private static byte[] hello(Connecting to) {
    byte[] nameBytes = to.name().getBytes(StandardCharsets.UTF_8);
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
        to.requestRingBytes());
    hello.set(
        ValueLayout.JAVA_INT_UNALIGNED,
        HandshakeDescriptor.HELLO_COMPLETION_RING_OFFSET,
        to.completionRingBytes());
    hello.set(
        ValueLayout.JAVA_SHORT_UNALIGNED,
        HandshakeDescriptor.HELLO_NAME_BYTES_OFFSET,
        (short) nameLength);
    System.arraycopy(nameBytes, 0, bytes, HandshakeDescriptor.HELLO_NAME_OFFSET, nameLength);
    return bytes;
  }

  private static Welcome read(UnixSocket.Message message, Arena arena) throws IOException {
    byte[] bytes = message.bytes();
    MemorySegment welcome = MemorySegment.ofArray(bytes);
    if (bytes.length < HandshakeDescriptor.WELCOME_TEXT_OFFSET
        || welcome.get(ValueLayout.JAVA_LONG_UNALIGNED, 0) != HandshakeDescriptor.WELCOME_MAGIC) {
      throw new IOException(
          bytes.length == 0
              ? "it hung up during the handshake"
              : "what answers is not a kvtier daemon");
    }
    String text = checkedText(bytes, welcome);
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
    DaemonInfo info =
        new DaemonInfo(
            text,
            Words.getLong(daemon, DaemonRegionDescriptor.PROCESS_ID_OFFSET),
            Words.getLong(daemon, DaemonRegionDescriptor.GENERATION_OFFSET),
            Words.getLong(daemon, DaemonRegionDescriptor.START_TIME_OFFSET),
            welcome.get(
                ValueLayout.JAVA_LONG_UNALIGNED, HandshakeDescriptor.WELCOME_SESSION_ID_OFFSET));
    return new Welcome(
        session,
        new EventFd(message.descriptors().get(1)),
        new DaemonView(daemon),
        info,
        welcome.get(ValueLayout.JAVA_LONG_UNALIGNED, HandshakeDescriptor.WELCOME_SLAB_BYTES_OFFSET),
        welcome.get(ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.WELCOME_SLAB_COUNT_OFFSET),
        minorVersion(welcome) >= VERSION_MINOR_ENCODED,
        minorVersion(welcome) >= VERSION_MINOR_EXPECTED);
  }

  private static int minorVersion(MemorySegment welcome) {
    return welcome.get(ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.WELCOME_VERSION_OFFSET)
        & 0xffff;
  }

  /** The daemon's text in a welcome that accepts this client. */
  private static String checkedText(byte[] bytes, MemorySegment welcome) throws Refused {
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
    return text;
  }

  private static int unsigned(MemorySegment segment, int offset) {
    return Short.toUnsignedInt(segment.get(ValueLayout.JAVA_SHORT_UNALIGNED, offset));
  }
}
