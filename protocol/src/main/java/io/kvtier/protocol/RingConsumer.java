package io.kvtier.protocol;

import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;

/**
 * The reading end of a single-producer single-consumer ring. The caller peeks at the next record,
 * reads it, and advances; a record that is not advanced over stays in the ring, which is how
 * back-pressure works. Confined to one thread. Its own position is private, and the producer's is
 * checked for sense.
 */
public final class RingConsumer {
  private final MemorySegment region;
  private final long ringOffset;
  private final long capacity;
  private final int tailOffset;
  private final int headOffset;
  private final int headerBytes;
  private long head;
  private long tailSeen;

  /**
   * An end at position zero.
   *
   * @param headerBytes the least length of a record
   */
  public RingConsumer(
      MemorySegment region,
      long ringOffset,
      long capacity,
      int tailOffset,
      int headOffset,
      int headerBytes) {
    this.region = region;
    this.ringOffset = ringOffset;
    this.capacity = capacity;
    this.tailOffset = tailOffset;
    this.headOffset = headOffset;
    this.headerBytes = headerBytes;
  }

  /** Whether a record waits. Reads the shared word only when the private copy says no. */
  public boolean hasNext() throws ProtocolViolation {
    return head != tailSeen || refreshTail();
  }

  private boolean refreshTail() throws ProtocolViolation {
    long tail = Words.getLongAcquire(region, tailOffset);
    if (tail == tailSeen) {
      return false;
    }
    if (tail < tailSeen
        || tail - head > capacity
        || (tail & (SessionRegionDescriptor.RECORD_ALIGNMENT - 1)) != 0) {
      throw new ProtocolViolation(
          "ring tail is "
              + tail
              + ", expected a multiple of 8 from "
              + tailSeen
              + " to "
              + (head + capacity));
    }
    tailSeen = tail;
    return true;
  }

  /** The offset of the next record in the region; only after {@link #hasNext}. */
  public long offset() {
    return ringOffset + (head & (capacity - 1));
  }

  /**
   * The length of the next record, checked against what was published; only after {@link #hasNext}.
   */
  public int recordBytes() throws ProtocolViolation {
    int bytes = Words.getInt(region, offset());
    if (bytes < headerBytes
        || bytes > tailSeen - head
        || (bytes & (SessionRegionDescriptor.RECORD_ALIGNMENT - 1)) != 0) {
      throw new ProtocolViolation(
          "record length is "
              + Integer.toUnsignedLong(bytes)
              + ", expected a multiple of 8 from "
              + headerBytes
              + " to "
              + (tailSeen - head));
    }
    return bytes;
  }

  /** Goes past the next record without telling the producer yet. */
  public void skip(int recordBytes) {
    head += recordBytes;
  }

  /** Gives the space of all skipped records back to the producer. */
  public void release() {
    Words.putLongRelease(region, headOffset, head);
  }

  public MemorySegment region() {
    return region;
  }
}
