package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A Unix socket of type {@code SOCK_SEQPACKET}: whole messages in order, with descriptors attached
 * ({@code SCM_RIGHTS}) and the peer's credentials ({@code SO_PEERCRED}, {@code SO_PEERGROUPS}).
 */
public final class UnixSocket implements AutoCloseable {
  private static final int AF_UNIX = 1;
  private static final int SOCK_SEQPACKET = 5;
  private static final int SOCK_CLOEXEC = 0x80000;
  private static final int SOCK_NONBLOCK = 0x800;
  static final int SOL_SOCKET = 1;
  private static final int SO_SNDBUF = 7;
  private static final int SO_LINGER = 13;
  private static final int SO_RCVTIMEO = 20;
  private static final int SO_SNDTIMEO = 21;
  // Linux 6.16.
  private static final int SO_PASSRIGHTS = 83;
  private static final int MSG_NOSIGNAL = 0x4000;
  private static final int MSG_CMSG_CLOEXEC = 0x40000000;
  private static final int MSG_TRUNC = 0x20;
  private static final int MSG_CTRUNC = 0x8;
  private static final int MSG_PEEK = 0x2;
  private static final long SIOCOUTQ = 0x5411;
  private static final int BACKLOG = 1024;
  private static final int UNREAD_MAX = 4096;
  private static final int SHUT_RDWR = 2;
  private static final short POLLRDHUP = 0x2000;
  // POLLERR, POLLHUP, POLLNVAL and POLLRDHUP.
  private static final int POLL_GONE = 0x8 | 0x10 | 0x20 | 0x2000;
  // struct pollfd: i32 fd, i16 events, i16 revents.
  private static final int POLLFD_BYTES = 8;
  // struct sockaddr_un: u16 family, char path[108].
  private static final int ADDRESS_BYTES = 110;
  private static final int PATH_BYTES_MAX = 107;

  /** The most descriptors that one message carries here. */
  public static final int DESCRIPTORS_MAX = 16;

  // Whoever has read leased blocks looks for the daemon's end, without garbage.
  private static final ThreadLocal<MemorySegment> POLLED =
      ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(POLLFD_BYTES, 4));

  /**
   * Who is at the other end, as it was when it connected.
   *
   * @param pid 0 where it is of another PID namespace
   * @param groups its supplementary groups; null where the kernel does not tell
   */
  public record PeerCredentials(int pid, int uid, int gid, @Nullable List<Integer> groups) {}

  /** A received message; the receiver owns the descriptors. */
  @SuppressWarnings("ArrayRecordComponent") // messages are never compared
  public record Message(byte[] bytes, List<Descriptor> descriptors) {}

  /**
   * A message that still waits.
   *
   * @param hasDescriptors whether some are attached; they have not come into this process
   */
  @SuppressWarnings("ArrayRecordComponent") // messages are never compared
  public record Waiting(byte[] bytes, boolean hasDescriptors) {}

  private final Descriptor descriptor;

  private UnixSocket(Descriptor descriptor) {
    this.descriptor = descriptor;
  }

  public Descriptor descriptor() {
    return descriptor;
  }

  /**
   * Binds and listens, non-blocking, with the given file mode on the socket's path. Whoever
   * connects can't pass descriptors, where the kernel has a way to say so, before {@link
   * #takeDescriptors}.
   */
  public static UnixSocket listen(Path path, int mode) throws IOException {
    UnixSocket socket = open(SOCK_NONBLOCK);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment address = address(path, arena);
      if ((int)
              Libc.BIND.invokeExact(
                  Libc.capture(), socket.descriptor.number(), address, ADDRESS_BYTES)
          < 0) {
        throw Libc.failure("bind", path.toString());
      }
      if ((int) Libc.CHMOD.invokeExact(Libc.capture(), arena.allocateFrom(path.toString()), mode)
          < 0) {
        throw Libc.failure("chmod", path.toString());
      }
      setInts(socket.descriptor, SO_PASSRIGHTS, 0);
      if ((int) Libc.LISTEN.invokeExact(Libc.capture(), socket.descriptor.number(), BACKLOG) < 0) {
        throw Libc.failure("listen", path.toString());
      }
      return socket;
    } catch (IOException e) {
      socket.close();
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Connects, blocking.
   *
   * @param timeoutMs the bound of every later send and receive
   */
  public static UnixSocket connect(Path path, int timeoutMs) throws IOException {
    UnixSocket socket = open(0);
    try (Arena arena = Arena.ofConfined()) {
      socket.setTimeouts(timeoutMs);
      MemorySegment address = address(path, arena);
      if ((int)
              Libc.CONNECT.invokeExact(
                  Libc.capture(), socket.descriptor.number(), address, ADDRESS_BYTES)
          < 0) {
        throw Libc.failure("connect", path.toString());
      }
      return socket;
    } catch (IOException e) {
      socket.close();
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  private static UnixSocket open(int flags) throws IOException {
    try {
      int fd =
          (int)
              Libc.SOCKET.invokeExact(
                  Libc.capture(), AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
      if (fd < 0) {
        throw Libc.failure("socket", "AF_UNIX, SOCK_SEQPACKET");
      }
      return new UnixSocket(new Descriptor(fd));
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** Throws when a path is too long for a socket: nobody can listen there or connect. */
  public static void requireAddress(Path path) throws IOException {
    addressBytes(path);
  }

  private static byte[] addressBytes(Path path) throws IOException {
    byte[] bytes = path.toString().getBytes(StandardCharsets.UTF_8);
    if (bytes.length > PATH_BYTES_MAX) {
      throw new IOException(
          "socket path '"
              + path
              + "' has "
              + bytes.length
              + " bytes; Linux allows at most "
              + PATH_BYTES_MAX
              + ": choose a shorter one");
    }
    return bytes;
  }

  private static MemorySegment address(Path path, Arena arena) throws IOException {
    byte[] bytes = addressBytes(path);
    MemorySegment address = arena.allocate(ADDRESS_BYTES, 8);
    address.set(JAVA_SHORT, 0, (short) AF_UNIX);
    MemorySegment.copy(bytes, 0, address, JAVA_BYTE, 2, bytes.length);
    return address;
  }

  /** Lets the peer of an accepted connection pass descriptors. */
  public void takeDescriptors() {
    setInts(descriptor, SO_PASSRIGHTS, 1);
  }

  /**
   * Closes a descriptor that a peer passed and nobody wants. It may be a socket that its sender has
   * told to linger: closing it would block for as long as the sender likes.
   */
  public static void discard(Descriptor unwanted) {
    setInts(unwanted, SO_LINGER, 0, 0);
    unwanted.close();
  }

  /** Sets an option where there is such a one. */
  private static void setInts(Descriptor socket, int option, int... value) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment ints = arena.allocateFrom(JAVA_INT, value);
      int ignored =
          (int)
              Libc.SETSOCKOPT.invokeExact(
                  Libc.capture(), socket.number(), SOL_SOCKET, option, ints, (int) ints.byteSize());
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  private void setTimeouts(int timeoutMs) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment timeval = arena.allocate(16, 8);
      timeval.set(JAVA_LONG, 0, timeoutMs / 1000);
      timeval.set(JAVA_LONG, 8, (timeoutMs % 1000) * 1000L);
      for (int option : new int[] {SO_RCVTIMEO, SO_SNDTIMEO}) {
        if ((int)
                Libc.SETSOCKOPT.invokeExact(
                    Libc.capture(), descriptor.number(), SOL_SOCKET, option, timeval, 16)
            < 0) {
          throw Libc.failure("setsockopt", "timeout " + timeoutMs + " ms");
        }
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** The next connection, non-blocking itself, or null when none waits. */
  public @Nullable UnixSocket accept() throws IOException {
    try {
      int fd =
          (int)
              Libc.ACCEPT4.invokeExact(
                  Libc.capture(),
                  descriptor.number(),
                  MemorySegment.NULL,
                  MemorySegment.NULL,
                  SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) {
        return switch (Libc.errno()) {
          case Errno.EAGAIN, Errno.EINTR, 103 /* ECONNABORTED */ -> null;
          default -> throw Libc.failure("accept4", descriptor.toString());
        };
      }
      return new UnixSocket(new Descriptor(fd));
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** Who connected, as the kernel recorded it at connect. */
  public PeerCredentials peerCredentials() throws IOException {
    return SocketPeer.credentials(descriptor);
  }

  /**
   * The process that connected, to wait for its end in {@link Epoll}. A later process with the same
   * number is not meant.
   *
   * @return null where the kernel can't tell (before Linux 6.5 of processes in other PID
   *     namespaces)
   * @throws IOException when the process has ended
   */
  public @Nullable Descriptor peerProcess(PeerCredentials peer) throws IOException {
    return SocketPeer.process(descriptor, peer);
  }

  /**
   * Bounds what the peer may leave unread: a send beyond it fails (EAGAIN). Descriptors in unread
   * messages count against the limit of this process's user.
   *
   * @param bytes about a thousand for each small message
   */
  public void limitUnread(int bytes) {
    setInts(descriptor, SO_SNDBUF, bytes);
  }

  /** Whether the peer has left anything unread that this end has sent. */
  public boolean isUnread() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment bytes = arena.allocate(JAVA_INT);
      return (int) Libc.IOCTL.invokeExact(Libc.capture(), descriptor.number(), SIOCOUTQ, bytes) == 0
          && bytes.get(JAVA_INT, 0) > 0;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Looks at the next message of a non-blocking socket without taking it, nor descriptors into this
   * process: closing one of those may wait for its sender.
   *
   * @return null when there is none; a message of no bytes when the peer has gone
   */
  public @Nullable Waiting peek(int bytesMax) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment data = arena.allocate(bytesMax, 8);
      MemorySegment header = MessageHeader.of(arena, data, bytesMax, MemorySegment.NULL);
      long received =
          (long) Libc.RECVMSG.invokeExact(Libc.capture(), descriptor.number(), header, MSG_PEEK);
      if (received < 0) {
        return switch (Libc.errno()) {
          case Errno.EAGAIN, Errno.EINTR -> null;
          case Errno.ECONNRESET -> new Waiting(new byte[0], false);
          default -> throw Libc.failure("recvmsg", descriptor.toString());
        };
      }
      byte[] bytes = new byte[(int) received];
      MemorySegment.copy(data, JAVA_BYTE, 0, bytes, 0, bytes.length);
      return new Waiting(bytes, (MessageHeader.flags(header) & MSG_CTRUNC) != 0);
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Takes the next message, and lets the kernel drop descriptors that are attached: they don't come
   * into this process, yet their last close may wait for their sender.
   */
  public void drop() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment header = MessageHeader.of(arena, arena.allocate(8, 8), 8, MemorySegment.NULL);
      long _ = (long) Libc.RECVMSG.invokeExact(Libc.capture(), descriptor.number(), header, 0);
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Ends the connection of a non-blocking socket, and looks through what the peer has sent and
   * nobody has taken.
   *
   * @return whether there are descriptors among it, which {@link #close} lets go
   */
  public boolean endHoldsDescriptors() {
    shutdown();
    try {
      for (int i = 0; i < UNREAD_MAX; i++) {
        Waiting waiting = peek(1);
        if (waiting == null || (waiting.bytes().length == 0 && !waiting.hasDescriptors())) {
          return false;
        }
        if (waiting.hasDescriptors()) {
          return true;
        }
        drop();
      }
      return true;
    } catch (IOException e) {
      return true;
    }
  }

  /**
   * Sends one whole message with descriptors attached; the sender keeps its own copies of these.
   */
  public void send(byte[] bytes, Descriptor... descriptors) throws IOException {
    int[] numbers = new int[descriptors.length];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = descriptors[i].number();
    }
    send(bytes, numbers);
  }

  /** Sends one whole message with a descriptor that somebody else has opened. */
  public void pass(byte[] bytes, int descriptor) throws IOException {
    send(bytes, new int[] {descriptor});
  }

  private void send(byte[] bytes, int[] descriptors) throws IOException {
    if (descriptors.length > DESCRIPTORS_MAX) {
      throw new IllegalArgumentException(
          "at most " + DESCRIPTORS_MAX + " descriptors, not " + descriptors.length);
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment data = arena.allocate(Math.max(bytes.length, 1), 8);
      MemorySegment.copy(bytes, 0, data, JAVA_BYTE, 0, bytes.length);
      MemorySegment control = MessageHeader.control(arena, descriptors);
      MemorySegment header = MessageHeader.of(arena, data, bytes.length, control);
      long sent =
          (long)
              Libc.SENDMSG.invokeExact(Libc.capture(), descriptor.number(), header, MSG_NOSIGNAL);
      if (sent < 0) {
        throw Libc.failure(
            "sendmsg", bytes.length + " bytes, " + descriptors.length + " descriptors");
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Receives one message.
   *
   * @return null when a non-blocking socket has none; a message of no bytes when the peer has gone
   */
  public @Nullable Message receive(int bytesMax) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment data = arena.allocate(bytesMax, 8);
      MemorySegment control = MessageHeader.controlFor(arena, DESCRIPTORS_MAX);
      MemorySegment header = MessageHeader.of(arena, data, bytesMax, control);
      long received =
          (long)
              Libc.RECVMSG.invokeExact(
                  Libc.capture(), descriptor.number(), header, MSG_CMSG_CLOEXEC);
      if (received < 0) {
        return switch (Libc.errno()) {
          case Errno.EAGAIN, Errno.EINTR -> null;
          case Errno.ECONNRESET -> new Message(new byte[0], List.of());
          default -> throw Libc.failure("recvmsg", descriptor.toString());
        };
      }
      List<Descriptor> descriptors = MessageHeader.descriptors(header, control);
      int flags = MessageHeader.flags(header);
      if ((flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        descriptors.forEach(UnixSocket::discard);
        throw new IOException(
            "message larger than "
                + bytesMax
                + " bytes or "
                + DESCRIPTORS_MAX
                + " descriptors, or this process may open no more files (ulimit -n)");
      }
      byte[] bytes = new byte[(int) received];
      MemorySegment.copy(data, JAVA_BYTE, 0, bytes, 0, bytes.length);
      return new Message(bytes, descriptors);
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Waits until the peer has closed its end.
   *
   * @param timeoutMs 0 only looks, a negative value waits for ever
   * @return whether it has; false after the timeout or an interruption
   */
  public boolean awaitHangup(int timeoutMs) {
    try {
      MemorySegment watched = POLLED.get();
      watched.set(JAVA_INT, 0, descriptor.number());
      watched.set(JAVA_SHORT, 4, POLLRDHUP);
      int count = (int) Libc.POLL.invokeExact(Libc.capture(), watched, 1L, timeoutMs);
      return count > 0 && (watched.get(JAVA_SHORT, 6) & POLL_GONE) != 0;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Ends the connection in both directions and keeps the descriptor: whoever waits on it returns.
   */
  public void shutdown() {
    try {
      int ignored = (int) Libc.SHUTDOWN.invokeExact(Libc.capture(), descriptor.number(), SHUT_RDWR);
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  @Override
  public void close() {
    descriptor.close();
  }
}
