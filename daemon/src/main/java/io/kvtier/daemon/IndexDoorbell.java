package io.kvtier.daemon;

import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;

/**
 * Wakes the index from other threads of the daemon; costs a fence and a load while it is awake. It
 * rings once in each sleep of the index: the first who brings work takes the announcement away.
 */
final class IndexDoorbell implements Runnable {
  private final MemorySegment daemonRegion;
  private final EventFd eventFd;

  IndexDoorbell(MemorySegment daemonRegion, EventFd eventFd) {
    this.daemonRegion = daemonRegion;
    this.eventFd = eventFd;
  }

  @Override
  public void run() {
    Words.fullFence();
    if (Words.getIntVolatile(daemonRegion, DaemonRegionDescriptor.INDEX_WAITING_OFFSET) != 0
        && Words.compareAndSetInt(
            daemonRegion, DaemonRegionDescriptor.INDEX_WAITING_OFFSET, 1, 0)) {
      eventFd.ring();
    }
  }
}
