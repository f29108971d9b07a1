package io.kvtier.daemon.index.session;

import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.util.function.IntSupplier;

/**
 * The processor of the index's thread. The kernel often lets a client wake up on it, also while
 * others are idle. Such a client runs only once the index sleeps, and the index only once such a
 * client sleeps: whoever spins there delays the other. So both sides say where they are. All
 * methods but the constructor are of the index's thread.
 */
public final class IndexProcessor {
  private final MemorySegment daemonRegion;
  private final IntSupplier current;
  private int published;
  private boolean isNeeded;

  /**
   * A processor of which nothing has been said yet.
   *
   * @param daemonRegion where clients read of it
   * @param current the number of the calling thread's processor
   */
  public IndexProcessor(MemorySegment daemonRegion, IntSupplier current) {
    this.daemonRegion = daemonRegion;
    this.current = current;
  }

  /**
   * A client is woken.
   *
   * @param clientCpu where it went to sleep, as the protocol's words say it
   */
  public void woken(int clientCpu) {
    if (clientCpu != 0 && clientCpu == current.getAsInt() + 1) {
      isNeeded = true;
    }
  }

  /**
   * The index has no more work, and says where it is.
   *
   * @return whether a client needs this processor that was woken since the last call
   */
  public boolean rest() {
    int here = current.getAsInt() + 1;
    if (here != published) {
      published = here;
      Words.putIntVolatile(daemonRegion, DaemonRegionDescriptor.INDEX_CPU_OFFSET, here);
    }
    boolean was = isNeeded;
    isNeeded = false;
    return was;
  }
}
