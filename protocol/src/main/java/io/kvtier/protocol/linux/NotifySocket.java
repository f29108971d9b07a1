package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;

/**
 * The sending end of a service manager's notification socket: datagrams of text to a Unix address
 * ({@code sd_notify(3)}). Any thread may send.
 */
public final class NotifySocket implements AutoCloseable {
  private static final int AF_UNIX = 1;
  private static final int SOCK_DGRAM = 2;
  private static final int SOCK_CLOEXEC = 0x80000;
  private static final int MSG_NOSIGNAL = 0x4000;
  // struct sockaddr_un: u16 family, char path[108].
  private static final int FAMILY_BYTES = 2;
  private static final int NAME_BYTES_MAX = 108;
  // struct msghdr, 64-bit: name, namelen, iov, iovlen, control, controllen, flags.
  private static final int MSGHDR_BYTES = 56;

  private final String name;
  private final byte[] nameBytes;
  private final Descriptor descriptor;

  private NotifySocket(String name, byte[] nameBytes, Descriptor descriptor) {
    this.name = name;
    this.nameBytes = nameBytes;
    this.descriptor = descriptor;
  }

  /**
   * A socket that sends to an address; whether somebody listens there shows at the first {@link
   * #send}.
   *
   * @param name an absolute path, or {@code @} and a name in the kernel's abstract namespace
   * @throws IOException when it is neither, or too long
   */
  public static NotifySocket to(String name) throws IOException {
    boolean isAbstract = name.startsWith("@");
    if (!isAbstract && !name.startsWith("/")) {
      throw new IOException(
          "'"
              + name
              + "' is no address of a Unix socket: expected an absolute path, or '@' and a name");
    }
    byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
    if (bytes.length > NAME_BYTES_MAX) {
      throw new IOException(
          "'" + name + "' has " + bytes.length + " bytes; Linux allows at most " + NAME_BYTES_MAX);
    }
    if (isAbstract) {
      bytes[0] = 0;
    }
    try {
      int fd = (int) Libc.SOCKET.invokeExact(Libc.capture(), AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      if (fd < 0) {
        throw Libc.failure("socket", "AF_UNIX, SOCK_DGRAM");
      }
      return new NotifySocket(name, bytes, new Descriptor(fd));
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** Sends one datagram. */
  public void send(String text) throws IOException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    try (Arena arena = Arena.ofConfined()) {
      // As long as the name and no longer: in an abstract name every byte counts.
      int addressBytes = FAMILY_BYTES + nameBytes.length;
      MemorySegment address = arena.allocate(addressBytes, 8);
      address.set(JAVA_SHORT, 0, (short) AF_UNIX);
      MemorySegment.copy(nameBytes, 0, address, JAVA_BYTE, FAMILY_BYTES, nameBytes.length);
      MemorySegment data = arena.allocate(Math.max(bytes.length, 1), 8);
      MemorySegment.copy(bytes, 0, data, JAVA_BYTE, 0, bytes.length);
      MemorySegment iovec = arena.allocate(16, 8);
      iovec.set(ADDRESS, 0, data);
      iovec.set(JAVA_LONG, 8, bytes.length);
      MemorySegment header = arena.allocate(MSGHDR_BYTES, 8);
      header.set(ADDRESS, 0, address);
      header.set(JAVA_INT, 8, addressBytes);
      header.set(ADDRESS, 16, iovec);
      header.set(JAVA_LONG, 24, 1L);
      long sent =
          (long)
              Libc.SENDMSG.invokeExact(Libc.capture(), descriptor.number(), header, MSG_NOSIGNAL);
      if (sent < 0) {
        throw Libc.failure("sendmsg", bytes.length + " bytes to " + name);
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  @Override
  public void close() {
    descriptor.close();
  }
}
