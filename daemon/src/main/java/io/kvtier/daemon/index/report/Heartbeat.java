package io.kvtier.daemon.index.report;

import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;

/**
 * The sign of life of the index's thread, which looks round every half a second at least. Any
 * thread may read it.
 *
 * @param daemonRegion where the index writes when it last looked round
 */
public record Heartbeat(MemorySegment daemonRegion) {
  private static final long AGE_NS_MAX = 5_000_000_000L;

  /** How long ago the index last looked round, ns. */
  public long ageNs() {
    long beat = Words.getLongAcquire(daemonRegion, DaemonRegionDescriptor.HEARTBEAT_OFFSET);
    return Math.max(0, System.nanoTime() - beat);
  }

  /** Whether a sign of life of this age says that the index goes on. */
  public static boolean isLive(long ageNs) {
    return ageNs < AGE_NS_MAX;
  }

  /** Whether the index goes on. */
  public boolean isLive() {
    return isLive(ageNs());
  }
}
