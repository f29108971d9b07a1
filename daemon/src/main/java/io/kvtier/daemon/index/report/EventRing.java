package io.kvtier.daemon.index.report;

import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.RingProducer;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Records for one other thread that say where blocks are, in a ring of fixed size. When the ring is
 * full, the index goes on, and the reader sees by the sequence that records are missing. Removals
 * have space of their own; all other records can be repeated by a walk over the directory.
 */
public final class EventRing implements AutoCloseable {
  /**
   * A namespace, for who reads records that name it.
   *
   * @param name with its tenant before a slash, if it has one
   */
  public record Name(String name, Map<String, String> properties) {}

  /** Of the ring, for removals only. */
  private static final int REMOVALS_SHARE = 4;

  private static final int TAIL_OFFSET = 0;
  private static final int HEAD_OFFSET = 64;
  private static final long HEADER_BYTES = SharedMemory.pageBytes();

  private final Arena arena = Arena.ofShared();
  private final MemorySegment memory;
  private final long bytes;
  private final RingProducer producer;
  private final Map<Integer, Name> names = new ConcurrentHashMap<>();
  private final AtomicLong lost = new AtomicLong();
  private final AtomicInteger walksWanted = new AtomicInteger();
  private volatile Supplier<Map<String, Object>> report = Map::of;
  private long sequence;

  /**
   * An empty ring.
   *
   * @param bytes a power of two of at least a page
   */
  public EventRing(long bytes) throws IOException {
    this.bytes = bytes;
    long pageBytes = SharedMemory.pageBytes();
    long fileBytes = HEADER_BYTES + bytes + pageBytes;
    try (Descriptor file = SharedMemory.create("kvtier-events", fileBytes)) {
      memory = SharedMemory.mapMirrored(file, HEADER_BYTES, bytes, pageBytes, arena);
    }
    producer = new RingProducer(memory, HEADER_BYTES, bytes, TAIL_OFFSET, HEAD_OFFSET);
  }

  // ---- the index's side

  /**
   * Claims a record, of which the length and the sequence are written.
   *
   * @return its place in {@link #memory}, or -1 where it is lost
   */
  long claim(int recordBytes, boolean isRemoval) {
    long at =
        hasRoom(isRemoval ? recordBytes : recordBytes + bytes / REMOVALS_SHARE)
            ? tryClaim(recordBytes)
            : -1;
    if (at < 0) {
      sequence++;
      var _ = lost.incrementAndGet();
      return -1;
    }
    memory.set(ValueLayout.JAVA_INT, at + EventRecordDescriptor.RECORD_BYTES_OFFSET, recordBytes);
    memory.set(ValueLayout.JAVA_LONG, at + EventRecordDescriptor.SEQUENCE_OFFSET, sequence++);
    return at;
  }

  private long tryClaim(int recordBytes) {
    try {
      return producer.tryClaim(recordBytes);
    } catch (ProtocolViolation e) {
      throw new IllegalStateException(e);
    }
  }

  private boolean hasRoom(long wanted) {
    try {
      return producer.hasRoom(wanted);
    } catch (ProtocolViolation e) {
      throw new IllegalStateException(e);
    }
  }

  /** Whether a walk may go on: it leaves half of the ring to what happens meanwhile. */
  boolean hasRoomForWalk() {
    return hasRoom(bytes / 2);
  }

  void publish() {
    producer.publish();
  }

  MemorySegment memory() {
    return memory;
  }

  void name(int namespaceId, Name name) {
    names.put(namespaceId, name);
  }

  int walksWanted() {
    return walksWanted.get();
  }

  /** What the reader has to say for the statistics. */
  Map<String, Object> report() {
    return report.get();
  }

  // ---- the reader's side

  /** The reading end; there is one. */
  public RingConsumer consumer() {
    return new RingConsumer(
        memory,
        HEADER_BYTES,
        bytes,
        TAIL_OFFSET,
        HEAD_OFFSET,
        EventRecordDescriptor.ANNOTATION_OFFSET);
  }

  /** The namespace of a record that was read. */
  public @Nullable Name name(int namespaceId) {
    return names.get(namespaceId);
  }

  /** Wants a walk over all blocks that begins after this. */
  public void wantWalk() {
    var _ = walksWanted.incrementAndGet();
  }

  /** How many records were lost. */
  public long lost() {
    return lost.get();
  }

  /** Says who tells the statistics of the reader; called by any thread. */
  public void reportBy(Supplier<Map<String, Object>> reporter) {
    report = reporter;
  }

  @Override
  public void close() {
    arena.close();
  }
}
