package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Waits for several descriptors at once ({@code epoll(7)}). One thread waits; any thread adds and
 * removes.
 */
public final class Epoll implements AutoCloseable {
  /** Readable; level-triggered. */
  public static final int IN = 0x1;

  /** Edge-triggered: a doorbell that is never read still reports every ring. */
  public static final int EDGE = 1 << 31;

  /** Reports one event, and nothing more before {@link #again}. */
  public static final int ONCE = 1 << 30;

  private static final int EPOLL_CLOEXEC = 0x80000;
  private static final int CTL_ADD = 1;
  private static final int CTL_DEL = 2;
  private static final int CTL_MOD = 3;
  // struct epoll_event: u32 events, u64 data.
  private static final int EVENT_BYTES = Machine.current().epollEventBytes();
  private static final int DATA_OFFSET = Machine.current().epollDataOffset();
  private static final int BATCH = 64;

  private final Descriptor descriptor;
  private final Arena arena = Arena.ofShared();
  private final MemorySegment events = arena.allocate((long) EVENT_BYTES * BATCH, 8);

  private Epoll(Descriptor descriptor) {
    this.descriptor = descriptor;
  }

  /** Creates an empty set. */
  public static Epoll create() throws IOException {
    try {
      int fd = (int) Libc.EPOLL_CREATE1.invokeExact(Libc.capture(), EPOLL_CLOEXEC);
      if (fd < 0) {
        throw Libc.failure("epoll_create1", "");
      }
      return new Epoll(new Descriptor(fd));
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Adds a descriptor.
   *
   * @param tag what {@link #tag} answers for its events
   */
  public void add(Descriptor watched, int eventMask, long tag) throws IOException {
    control(CTL_ADD, watched.number(), eventMask, tag);
  }

  /** As {@link #add}, of a descriptor that a library owns; its end removes it. */
  public void addBorrowed(int watched, int eventMask, long tag) throws IOException {
    control(CTL_ADD, watched, eventMask, tag);
  }

  /** Watches a descriptor of {@link #addBorrowed} for other events from now on. */
  public void again(int watched, int eventMask, long tag) throws IOException {
    control(CTL_MOD, watched, eventMask, tag);
  }

  /** Removes a descriptor; it must still be open. */
  public void remove(Descriptor watched) throws IOException {
    control(CTL_DEL, watched.number(), 0, 0);
  }

  private void control(int operation, int watched, int eventMask, long tag) throws IOException {
    try (Arena local = Arena.ofConfined()) {
      MemorySegment event = local.allocate(EVENT_BYTES, 8);
      event.set(JAVA_INT, 0, eventMask);
      event.set(JAVA_LONG_UNALIGNED, DATA_OFFSET, tag);
      if ((int)
              Libc.EPOLL_CTL.invokeExact(
                  Libc.capture(), descriptor.number(), operation, watched, event)
          < 0) {
        throw Libc.failure("epoll_ctl", "operation " + operation + ", fd " + watched);
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Waits for events.
   *
   * @param timeoutMs 0 polls, a negative value waits for ever
   * @return how many events are there, 0 after the timeout or an interruption
   */
  public int await(int timeoutMs) {
    try {
      int count =
          (int)
              Libc.EPOLL_WAIT.invokeExact(
                  Libc.capture(), descriptor.number(), events, BATCH, timeoutMs);
      return Math.max(count, 0);
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** The tag of the i-th event of the last wait. */
  public long tag(int i) {
    return events.get(JAVA_LONG_UNALIGNED, (long) i * EVENT_BYTES + DATA_OFFSET);
  }

  @Override
  public void close() {
    descriptor.close();
    arena.close();
  }
}
