package io.kvtier.protocol;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.Words;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.List;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

/** Properties of a ring that hold whatever its two ends do. */
final class RingProperties {
  private static final int RING_BYTES = 4096;

  /** Any mix of claims, publications and takings: what comes out is what went in, in order. */
  @Property(tries = 300)
  void contents_anyInterleaving_areThoseOfAQueue(
      @ForAll @Size(min = 1, max = 400) List<@IntRange(min = 0, max = 99) Integer> steps)
      throws IOException, ProtocolViolation {
    try (Arena arena = Arena.ofConfined();
        Descriptor memory = memory()) {
      SessionRegion daemon = SessionRegion.create(memory, 1, RING_BYTES, RING_BYTES, arena);
      SessionRegion client = SessionRegion.open(memory, arena);
      RingProducer producer = daemon.completionProducer();
      RingConsumer consumer = client.completionConsumer();
      ArrayDeque<Long> claimed = new ArrayDeque<>();
      ArrayDeque<Long> published = new ArrayDeque<>();
      long inRing = 0;
      long stamp = 0;
      for (int step : steps) {
        if (step < 60) {
          int bytes = CompletionDescriptor.HEADER_BYTES + 8 * step;
          long at = producer.tryClaim(bytes);
          require((at >= 0) == (inRing + bytes <= RING_BYTES), "room for " + bytes);
          if (at >= 0) {
            inRing += bytes;
            Words.putInt(producer.region(), at, bytes);
            Words.putLong(producer.region(), at + 8, ++stamp);
            Words.putLong(producer.region(), at + bytes - 8, stamp);
            claimed.add(stamp);
          }
        } else if (step < 70) {
          producer.publish();
          published.addAll(claimed);
          claimed.clear();
        } else {
          require(consumer.hasNext() == !published.isEmpty(), "something to take");
          if (!published.isEmpty()) {
            int bytes = consumer.recordBytes();
            long expected = published.remove();
            long at = consumer.offset();
            require(Words.getLong(consumer.region(), at + 8) == expected, "the next record");
            require(Words.getLong(consumer.region(), at + bytes - 8) == expected, "its end");
            consumer.skip(bytes);
            consumer.release();
            inRing -= bytes;
          }
        }
      }
    }
  }

  /**
   * Whatever the peer writes into the header and the ring, reading ends in order or as a violation.
   */
  @Property(tries = 500)
  void garbage_anywhere_isReadOrRefused(
      @ForAll long tail, @ForAll @Size(512) List<@IntRange(min = -8, max = 4096) Integer> words)
      throws IOException {
    try (Arena arena = Arena.ofConfined();
        Descriptor memory = memory()) {
      SessionRegion daemon = SessionRegion.create(memory, 1, RING_BYTES, RING_BYTES, arena);
      MemorySegment region = SessionRegion.open(memory, arena).segment();
      for (int i = 0; i < words.size(); i++) {
        Words.putInt(region, SessionRegion.ringsOffset() + 8L * i, words.get(i));
      }
      long plausible = tail % 2 == 0 ? tail & (RING_BYTES - 1) & ~7L : tail;
      Words.putLongRelease(region, SessionRegionDescriptor.REQUEST_TAIL_OFFSET, plausible);
      RingConsumer consumer = daemon.requestConsumer();
      long taken = 0;
      try {
        while (consumer.hasNext()) {
          int bytes = consumer.recordBytes();
          require(bytes >= RequestDescriptor.HEADER_BYTES, "a whole header");
          long end = consumer.offset() + bytes;
          require(end <= SessionRegion.ringsOffset() + 2L * RING_BYTES, "inside the ring");
          consumer.skip(bytes);
          consumer.release();
          taken += bytes;
        }
        require(taken == plausible, "all was taken");
      } catch (ProtocolViolation e) {
        require(taken <= RING_BYTES, "no more than the ring");
      }
    }
  }

  private static Descriptor memory() throws IOException {
    return SharedMemory.create(
        "ring-properties", SessionRegion.regionBytes(RING_BYTES, RING_BYTES));
  }

  private static void require(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError("does not hold: " + what);
    }
  }
}
