package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/** Asks the kernel for the process at the other end of a connected Unix socket. */
final class SocketPeer {
  private static final int SO_PEERCRED = 17;
  private static final int SO_PEERGROUPS = 59;
  // Linux 6.5.
  private static final int SO_PEERPIDFD = 77;
  private static final long PIDFD_OPEN = 434;
  // As many ids as most have; the kernel says where there are more.
  private static final int GROUPS_BYTES = 64 * 4;

  private SocketPeer() {}

  /** See {@link UnixSocket#peerCredentials}. */
  static UnixSocket.PeerCredentials credentials(Descriptor socket) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment ucred = arena.allocate(12, 4);
      MemorySegment length = arena.allocateFrom(JAVA_INT, 12);
      if ((int)
              Libc.GETSOCKOPT.invokeExact(
                  Libc.capture(),
                  socket.number(),
                  UnixSocket.SOL_SOCKET,
                  SO_PEERCRED,
                  ucred,
                  length)
          < 0) {
        throw Libc.failure("getsockopt", "SO_PEERCRED");
      }
      return new UnixSocket.PeerCredentials(
          ucred.get(JAVA_INT, 0),
          ucred.get(JAVA_INT, 4),
          ucred.get(JAVA_INT, 8),
          groups(socket, arena));
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** See {@link UnixSocket#peerProcess}. */
  static @Nullable Descriptor process(Descriptor socket, UnixSocket.PeerCredentials peer)
      throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment number = arena.allocate(JAVA_INT);
      MemorySegment length = arena.allocateFrom(JAVA_INT, 4);
      if ((int)
              Libc.GETSOCKOPT.invokeExact(
                  Libc.capture(),
                  socket.number(),
                  UnixSocket.SOL_SOCKET,
                  SO_PEERPIDFD,
                  number,
                  length)
          == 0) {
        return new Descriptor(number.get(JAVA_INT, 0));
      }
      if (Libc.errno() != Errno.ENOPROTOOPT) {
        throw Libc.failure("getsockopt", "SO_PEERPIDFD, process " + peer.pid());
      }
      if (peer.pid() == 0) {
        return null;
      }
      long opened = (long) Libc.PIDFD_OPEN.invokeExact(Libc.capture(), PIDFD_OPEN, peer.pid(), 0);
      if (opened < 0 && Libc.errno() == Errno.ENOSYS) {
        return null;
      }
      if (opened < 0) {
        throw Libc.failure("pidfd_open", "process " + peer.pid());
      }
      return new Descriptor((int) opened);
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** The supplementary groups, asked of the socket: the process may have ended. */
  private static @Nullable List<Integer> groups(Descriptor socket, Arena arena) throws Throwable {
    int bytes = GROUPS_BYTES;
    while (true) {
      MemorySegment ids = arena.allocate(bytes, 4);
      MemorySegment length = arena.allocateFrom(JAVA_INT, bytes);
      if ((int)
              Libc.GETSOCKOPT.invokeExact(
                  Libc.capture(),
                  socket.number(),
                  UnixSocket.SOL_SOCKET,
                  SO_PEERGROUPS,
                  ids,
                  length)
          == 0) {
        return IntStream.of(ids.asSlice(0, length.get(JAVA_INT, 0)).toArray(JAVA_INT))
            .boxed()
            .toList();
      }
      if (Libc.errno() != Errno.ERANGE || length.get(JAVA_INT, 0) <= bytes) {
        return null;
      }
      bytes = length.get(JAVA_INT, 0);
    }
  }
}
