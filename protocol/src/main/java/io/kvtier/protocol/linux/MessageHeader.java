package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * {@code struct msghdr} of one message with one buffer, and {@code struct cmsghdr} of the
 * descriptors that go with it ({@code SCM_RIGHTS}).
 */
final class MessageHeader {
  private static final int SCM_RIGHTS = 1;
  // struct msghdr, 64-bit: name, namelen, iov, iovlen, control, controllen, flags.
  private static final int MSGHDR_BYTES = 56;
  private static final int CONTROL_BYTES_OFFSET = 40;
  private static final int FLAGS_OFFSET = 48;
  // struct cmsghdr, 64-bit: u64 len, i32 level, i32 type.
  private static final int CMSGHDR_BYTES = 16;

  private MessageHeader() {}

  /** A header for a buffer, and for control data or {@link MemorySegment#NULL}. */
  static MemorySegment of(Arena arena, MemorySegment data, long dataBytes, MemorySegment control) {
    MemorySegment iovec = arena.allocate(16, 8);
    iovec.set(ADDRESS, 0, data);
    iovec.set(JAVA_LONG, 8, dataBytes);
    MemorySegment header = arena.allocate(MSGHDR_BYTES, 8);
    header.set(ADDRESS, 16, iovec);
    header.set(JAVA_LONG, 24, 1L);
    header.set(ADDRESS, 32, control);
    header.set(JAVA_LONG, CONTROL_BYTES_OFFSET, control.byteSize());
    return header;
  }

  /** Control data that sends descriptors; {@link MemorySegment#NULL} for none. */
  static MemorySegment control(Arena arena, int[] descriptors) {
    if (descriptors.length == 0) {
      return MemorySegment.NULL;
    }
    long dataBytes = 4L * descriptors.length;
    MemorySegment control = arena.allocate(CMSGHDR_BYTES + ((dataBytes + 7) & ~7L), 8);
    control.set(JAVA_LONG, 0, CMSGHDR_BYTES + dataBytes);
    control.set(JAVA_INT, 8, UnixSocket.SOL_SOCKET);
    control.set(JAVA_INT, 12, SCM_RIGHTS);
    for (int i = 0; i < descriptors.length; i++) {
      control.set(JAVA_INT, CMSGHDR_BYTES + 4L * i, descriptors[i]);
    }
    return control;
  }

  /** Space for the control data of a message with at most that many descriptors. */
  static MemorySegment controlFor(Arena arena, int descriptorsMax) {
    return arena.allocate(CMSGHDR_BYTES + 4L * descriptorsMax, 8);
  }

  /** The descriptors that came with a message; the receiver owns them. */
  static List<Descriptor> descriptors(MemorySegment header, MemorySegment control) {
    List<Descriptor> descriptors = new ArrayList<>();
    if (header.get(JAVA_LONG, CONTROL_BYTES_OFFSET) >= CMSGHDR_BYTES
        && control.get(JAVA_INT, 8) == UnixSocket.SOL_SOCKET
        && control.get(JAVA_INT, 12) == SCM_RIGHTS) {
      long count = (control.get(JAVA_LONG, 0) - CMSGHDR_BYTES) / 4;
      for (int i = 0; i < count; i++) {
        descriptors.add(new Descriptor(control.get(JAVA_INT, CMSGHDR_BYTES + 4L * i)));
      }
    }
    return descriptors;
  }

  /** The flags that the kernel set when a message was received. */
  static int flags(MemorySegment header) {
    return header.get(JAVA_INT, FLAGS_OFFSET);
  }
}
