package io.kvtier.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.Epoll;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.Futex;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Two threads over both rings of a session, each sleeping whenever it has nothing to do, as the
 * protocol says. A lost wake-up shows as a sleep that lasted to its end.
 */
final class RingStressTest {
  private static final int RING_BYTES = 8192;
  private static final int ROUNDS = 60_000;
  private static final long SLEEP_NS = 20_000_000_000L;

  @Test
  @Timeout(value = 120, unit = TimeUnit.SECONDS)
  void wakeUps_bothSidesSleep_noneIsLost() throws Exception {
    try (Arena arena = Arena.ofShared();
        Descriptor memory =
            SharedMemory.create("ring-stress", SessionRegion.regionBytes(RING_BYTES, RING_BYTES));
        EventFd doorbell = EventFd.create();
        Epoll epoll = Epoll.create()) {
      SessionRegion daemon = SessionRegion.create(memory, 1, RING_BYTES, RING_BYTES, arena);
      SessionRegion client = SessionRegion.open(memory, arena);
      MemorySegment daemonWords = arena.allocate(DaemonRegionDescriptor.REGION_BYTES, 64);
      epoll.add(doorbell.descriptor(), Epoll.IN | Epoll.EDGE, 7);
      AtomicReference<Throwable> failure = new AtomicReference<>();
      Thread server =
          new Thread(() -> {
            try {
              serve(daemon, daemonWords, epoll);
            } catch (Throwable t) {
              failure.set(t);
            }
          });
      server.start();
      ask(client, daemonWords, doorbell);
      server.join();
      assertEquals(null, failure.get());
    }
  }

  /** Echoes each request; sleeps in epoll whenever the ring is empty. */
  private static void serve(SessionRegion region, MemorySegment daemonWords, Epoll epoll)
      throws ProtocolViolation {
    RingConsumer requests = region.requestConsumer();
    RingProducer completions = region.completionProducer();
    MemorySegment segment = region.segment();
    int waiting = DaemonRegionDescriptor.INDEX_WAITING_OFFSET;
    for (int served = 0; served < ROUNDS; ) {
      while (requests.hasNext()) {
        long to = completions.tryClaim(CompletionDescriptor.HEADER_BYTES);
        if (to < 0) {
          break;
        }
        long from = requests.offset();
        Words.putInt(segment, to, CompletionDescriptor.HEADER_BYTES);
        Words.putLong(segment, to + 8, Words.getLong(segment, from + 8));
        requests.skip(requests.recordBytes());
        requests.release();
        completions.publish();
        Words.fullFence();
        if (Words.getIntVolatile(segment, SessionRegionDescriptor.CLIENT_WAITING_OFFSET) == 1) {
          Words.putIntVolatile(segment, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 0);
          Futex.wake(segment, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 1);
        }
        served++;
      }
      Words.putIntVolatile(daemonWords, waiting, 1);
      if (served < ROUNDS && !requests.hasNext()) {
        long before = System.nanoTime();
        int events = epoll.await((int) (SLEEP_NS / 1_000_000));
        assertTrue(
            events > 0 || System.nanoTime() - before < SLEEP_NS * 9 / 10, "the daemon's wake-up");
      }
      Words.putIntVolatile(daemonWords, waiting, 0);
    }
  }

  /** Sends bursts and waits for all answers; sleeps on the futex whenever there is none. */
  private static void ask(SessionRegion region, MemorySegment daemonWords, EventFd doorbell)
      throws ProtocolViolation {
    RingProducer requests = region.requestProducer();
    RingConsumer completions = region.completionConsumer();
    MemorySegment segment = region.segment();
    SplittableRandom random = new SplittableRandom(7);
    long sent = 0;
    long answered = 0;
    while (answered < ROUNDS) {
      int burst = (int) Math.min(random.nextInt(1, 5), ROUNDS - sent);
      for (int i = 0; i < burst; i++) {
        long at = requests.tryClaim(RequestDescriptor.HEADER_BYTES);
        Words.putInt(segment, at, RequestDescriptor.HEADER_BYTES);
        Words.putLong(segment, at + 8, ++sent);
      }
      requests.publish();
      Words.fullFence();
      if (Words.getIntAcquire(daemonWords, DaemonRegionDescriptor.INDEX_WAITING_OFFSET) == 1) {
        doorbell.ring();
      }
      while (answered < sent) {
        while (completions.hasNext()) {
          assertEquals(++answered, Words.getLong(segment, completions.offset() + 8));
          completions.skip(completions.recordBytes());
          completions.release();
        }
        int waiting = SessionRegionDescriptor.CLIENT_WAITING_OFFSET;
        Words.putIntVolatile(segment, waiting, 1);
        if (answered < sent && !completions.hasNext()) {
          long before = System.nanoTime();
          Futex.await(segment, waiting, 1, SLEEP_NS);
          assertTrue(System.nanoTime() - before < SLEEP_NS * 9 / 10, "the client's wake-up");
        }
        Words.putIntVolatile(segment, waiting, 0);
      }
    }
  }
}
