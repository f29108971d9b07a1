package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * A doorbell towards a thread that waits in {@link Epoll} or {@link IoUring}: ringing it is sticky,
 * so none is lost.
 */
public final class EventFd implements AutoCloseable {
  private static final int EFD_NONBLOCK = 0x800;
  private static final int EFD_CLOEXEC = 0x80000;
  private static final MemorySegment ONE = one();

  private final Descriptor descriptor;

  /** Wraps a descriptor received from a peer. */
  public EventFd(Descriptor descriptor) {
    this.descriptor = descriptor;
  }

  /** Creates a doorbell of this process. */
  public static EventFd create() throws IOException {
    return create(EFD_NONBLOCK | EFD_CLOEXEC);
  }

  /**
   * Creates a doorbell whose waiter reads it through an {@link IoUring}: a read that finds it
   * silent waits there, instead of failing.
   */
  public static EventFd createForRing() throws IOException {
    return create(EFD_CLOEXEC);
  }

  private static EventFd create(int flags) throws IOException {
    try {
      int fd = (int) Libc.EVENTFD.invokeExact(Libc.capture(), 0, flags);
      if (fd < 0) {
        throw Libc.failure("eventfd", "");
      }
      return new EventFd(new Descriptor(fd));
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  public Descriptor descriptor() {
    return descriptor;
  }

  /** Wakes the waiter; never blocks: no waiter leaves 2^64 rings unread. */
  public void ring() {
    try {
      long ignored = (long) Libc.WRITE_UNCHECKED.invokeExact(descriptor.number(), ONE, 8L);
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  @Override
  public void close() {
    descriptor.close();
  }

  private static MemorySegment one() {
    MemorySegment segment = Arena.global().allocate(8, 8);
    segment.set(JAVA_LONG, 0, 1L);
    return segment;
  }
}
