package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.Epoll;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.Words;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Test;

/** When the index is woken by other threads of the daemon. */
final class IndexDoorbellTest {
  @Test
  void run_indexSleeps_ringsOnceInEachSleep() throws IOException {
    try (Epoll epoll = Epoll.create();
        EventFd eventFd = EventFd.create();
        Arena arena = Arena.ofConfined()) {
      epoll.add(eventFd.descriptor(), Epoll.IN | Epoll.EDGE, 0);
      MemorySegment region = arena.allocate(DaemonRegionDescriptor.REGION_BYTES, 4096);
      IndexDoorbell doorbell = new IndexDoorbell(region, eventFd);

      doorbell.run();
      assertEquals(0, epoll.await(0), "the index is awake");
      for (int sleep = 0; sleep < 2; sleep++) {
        Words.putIntVolatile(region, DaemonRegionDescriptor.INDEX_WAITING_OFFSET, 1);
        doorbell.run();
        assertEquals(1, epoll.await(0), "the first ring");
        doorbell.run();
        assertEquals(0, epoll.await(0), "the index has been woken already");
      }
    }
  }
}
