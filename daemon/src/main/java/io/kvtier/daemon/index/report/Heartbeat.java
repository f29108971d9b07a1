package io.kvtier.daemon.index.report;

import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;

/**
 * The sign of life of the index's thread, which writes one at least every half a second. Any thread
 * may read it.
 *
 * @param daemonRegion the memory where the index writes the time of its sign of life
 */
public record Heartbeat(MemorySegment daemonRegion) {
  private static final long AGE_NS_MAX = 5_000_000_000L;

  /** The age of the last sign of life, ns. */
  public long ageNs() {
    long beat = Words.getLongAcquire(daemonRegion, DaemonRegionDescriptor.HEARTBEAT_OFFSET);
    return Math.max(0, System.nanoTime() - beat);
  }

  /** Whether an index with a sign of life of this age counts as alive. */
  public static boolean isLive(long ageNs) {
    return ageNs < AGE_NS_MAX;
  }

  /** Whether the index counts as alive. */
  public boolean isLive() {
    return isLive(ageNs());
  }
}
