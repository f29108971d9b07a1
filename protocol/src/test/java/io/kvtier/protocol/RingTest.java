package io.kvtier.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.Words;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Both ends of a request ring, each over a mapping of its own of one memory file. */
final class RingTest {
  private static final int RING_BYTES = 4096;
  private static final int HEADER_BYTES = 64;

  private final Arena arena = Arena.ofConfined();
  private MemorySegment clientSide = MemorySegment.NULL;
  private MemorySegment daemonSide = MemorySegment.NULL;
  private RingProducer producer = producer(MemorySegment.NULL);
  private RingConsumer consumer = consumer(MemorySegment.NULL);

  @BeforeEach
  void map() throws IOException {
    long bytes = SessionRegion.regionBytes(RING_BYTES, RING_BYTES);
    try (Descriptor memory = SharedMemory.create("ring-test", bytes)) {
      daemonSide = SessionRegion.create(memory, 1, RING_BYTES, RING_BYTES, arena).segment();
      clientSide = SessionRegion.open(memory, arena).segment();
    }
    producer = producer(clientSide);
    consumer = consumer(daemonSide);
  }

  @AfterEach
  void unmap() {
    arena.close();
  }

  private static RingProducer producer(MemorySegment region) {
    return new RingProducer(
        region,
        SessionRegion.ringsOffset(),
        RING_BYTES,
        SessionRegionDescriptor.REQUEST_TAIL_OFFSET,
        SessionRegionDescriptor.REQUEST_HEAD_OFFSET);
  }

  private static RingConsumer consumer(MemorySegment region) {
    return new RingConsumer(
        region,
        SessionRegion.ringsOffset(),
        RING_BYTES,
        SessionRegionDescriptor.REQUEST_TAIL_OFFSET,
        SessionRegionDescriptor.REQUEST_HEAD_OFFSET,
        HEADER_BYTES);
  }

  private boolean offer(int bytes, long stamp) throws ProtocolViolation {
    long at = producer.tryClaim(bytes);
    if (at < 0) {
      return false;
    }
    Words.putInt(clientSide, at, bytes);
    for (int offset = 8; offset < bytes; offset += 8) {
      Words.putLong(clientSide, at + offset, stamp + offset);
    }
    return true;
  }

  private int take(long stamp) throws ProtocolViolation {
    int bytes = consumer.recordBytes();
    long at = consumer.offset();
    for (int offset = 8; offset < bytes; offset += 8) {
      assertEquals(stamp + offset, Words.getLong(daemonSide, at + offset), "word at " + offset);
    }
    consumer.skip(bytes);
    consumer.release();
    return bytes;
  }

  @Test
  void hasNext_unpublished_isFalse() throws ProtocolViolation {
    assertTrue(offer(64, 1));
    assertFalse(consumer.hasNext());
    producer.publish();
    assertTrue(consumer.hasNext());
  }

  @Test
  void take_manyTimesRound_keepsEachRecordWhole() throws ProtocolViolation {
    for (int i = 0; i < 10_000; i++) {
      int bytes = 64 + 8 * (i % 300);
      assertTrue(offer(bytes, i * 1000L));
      producer.publish();
      assertTrue(consumer.hasNext());
      assertEquals(bytes, take(i * 1000L));
      assertFalse(consumer.hasNext());
    }
  }

  @Test
  void tryClaim_fullRing_refusesUntilReleased() throws ProtocolViolation {
    int records = 0;
    while (offer(64, records)) {
      records++;
    }
    assertEquals(RING_BYTES / 64, records);
    producer.publish();
    assertEquals(-1, producer.tryClaim(64));
    assertFalse(producer.hasRoom(8));
    assertTrue(consumer.hasNext());
    assertEquals(64, take(0));
    assertTrue(producer.hasRoom(64));
    assertFalse(producer.hasRoom(72));
    assertTrue(offer(64, 99));
  }

  @Test
  void tryClaim_largerThanTheRing_refuses() throws ProtocolViolation {
    assertEquals(-1, producer.tryClaim(RING_BYTES + 8));
  }

  @Test
  void hasNext_tailBeyondTheRing_isViolation() {
    Words.putLongRelease(clientSide, SessionRegionDescriptor.REQUEST_TAIL_OFFSET, RING_BYTES + 8L);
    assertThrows(ProtocolViolation.class, consumer::hasNext);
  }

  @Test
  void hasNext_tailGoesBack_isViolation() throws ProtocolViolation {
    assertTrue(offer(64, 1));
    producer.publish();
    assertTrue(consumer.hasNext());
    assertEquals(64, take(1));
    Words.putLongRelease(clientSide, SessionRegionDescriptor.REQUEST_TAIL_OFFSET, 0);
    assertThrows(ProtocolViolation.class, consumer::hasNext);
  }

  @Test
  void hasNext_crookedTail_isViolation() {
    Words.putLongRelease(clientSide, SessionRegionDescriptor.REQUEST_TAIL_OFFSET, 65);
    assertThrows(ProtocolViolation.class, consumer::hasNext);
  }

  @Test
  void recordBytes_garbage_isViolation() throws ProtocolViolation {
    for (int length : new int[] {0, 8, 56, 65, 72, 4096, -64, Integer.MIN_VALUE}) {
      assertTrue(offer(64, 1));
      Words.putInt(clientSide, SessionRegion.ringsOffset(), length);
      producer.publish();
      assertTrue(consumer.hasNext());
      assertThrows(ProtocolViolation.class, consumer::recordBytes, "length " + length);
      producer = producer(clientSide);
      consumer = consumer(daemonSide);
      Words.putLong(clientSide, SessionRegionDescriptor.REQUEST_TAIL_OFFSET, 0);
    }
  }

  @Test
  void recordBytes_moreThanWasPublishedBehindIt_isViolation_wherever() throws ProtocolViolation {
    for (int before = 0; before < RING_BYTES / 64; before++) {
      assertTrue(offer(64, before));
      long at = producer.tryClaim(64);
      Words.putInt(clientSide, at, 72);
      producer.publish();
      assertTrue(consumer.hasNext());
      assertEquals(64, take(before));
      assertThrows(ProtocolViolation.class, consumer::recordBytes, "behind " + before);
      Words.putInt(clientSide, at, 64);
      assertEquals(64, consumer.recordBytes());
      consumer.skip(64);
      consumer.release();
    }
  }

  @Test
  void tryClaim_headBeyondWhatWasPublished_isViolation() throws ProtocolViolation {
    while (offer(64, 1)) {
      // Until the ring is full.
    }
    producer.publish();
    Words.putLongRelease(daemonSide, SessionRegionDescriptor.REQUEST_HEAD_OFFSET, RING_BYTES + 64L);
    assertThrows(ProtocolViolation.class, () -> producer.tryClaim(64));
  }

  @Test
  void tryClaim_headGoesBack_isViolation() throws ProtocolViolation {
    while (offer(64, 1)) {
      // Until the ring is full.
    }
    producer.publish();
    assertTrue(consumer.hasNext());
    assertEquals(64, take(1));
    assertTrue(offer(64, 1));
    producer.publish();
    Words.putLongRelease(daemonSide, SessionRegionDescriptor.REQUEST_HEAD_OFFSET, 0);
    assertThrows(ProtocolViolation.class, () -> producer.tryClaim(64));
  }
}
