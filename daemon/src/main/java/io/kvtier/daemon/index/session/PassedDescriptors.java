package io.kvtier.daemon.index.session;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.UnixSocket;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * Descriptors of device memory that a session's client has passed and no region has used yet. The
 * thread that receives them gives them here, the index takes them.
 */
public final class PassedDescriptors {
  /** The most that wait in all sessions together: each is an open file of the daemon's. */
  private static final int WAITING_MAX = 1 << 14;

  /** And of those the most of one session: others have some, too. */
  private static final int OF_A_SESSION_MAX = WAITING_MAX / 2;

  private static final AtomicInteger WAITING = new AtomicInteger();

  private final Map<Integer, Descriptor> byNumber = new ConcurrentHashMap<>();

  /**
   * Keeps a descriptor of memory, or discards it.
   *
   * @return OK, {@code EXISTS} where another has that number, {@code BUSY} where too many wait
   */
  public Status give(int number, Descriptor descriptor) {
    if (WAITING.incrementAndGet() > WAITING_MAX || byNumber.size() >= OF_A_SESSION_MAX) {
      discard(descriptor);
      return Status.BUSY;
    }
    if (byNumber.putIfAbsent(number, descriptor) != null) {
      discard(descriptor);
      return Status.EXISTS;
    }
    return Status.OK;
  }

  /** The descriptor of a number, which is the caller's then; null where there is none. */
  @Nullable
  public Descriptor take(int number) {
    Descriptor descriptor = byNumber.remove(number);
    if (descriptor != null) {
      WAITING.decrementAndGet();
    }
    return descriptor;
  }

  /** Discards what nobody took, when the session has ended. */
  public void close() {
    for (Integer number : Set.copyOf(byNumber.keySet())) {
      Descriptor descriptor = byNumber.remove(number);
      if (descriptor != null) {
        discard(descriptor);
      }
    }
  }

  private static void discard(Descriptor descriptor) {
    WAITING.decrementAndGet();
    UnixSocket.discard(descriptor);
  }
}
