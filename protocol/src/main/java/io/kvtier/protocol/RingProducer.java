package io.kvtier.protocol;

import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;

/**
 * The writing end of a single-producer single-consumer ring of records in a mirrored mapping. The
 * caller claims a contiguous span, writes the record, and publishes; several records may be
 * published at once. Confined to one thread. Its own position is private: what the peer writes into
 * the shared words can only make the ring look full, and an impossible value is a protocol
 * violation.
 */
public final class RingProducer {
  private final MemorySegment region;
  private final long ringOffset;
  private final long capacity;
  private final int tailOffset;
  private final int headOffset;
  private long claimed;
  private long published;
  private long headSeen;

  /**
   * An end at position zero.
   *
   * @param ringOffset where the ring's first mapping begins in the region
   * @param capacity the ring's bytes, a power of two
   */
  public RingProducer(
      MemorySegment region, long ringOffset, long capacity, int tailOffset, int headOffset) {
    this.region = region;
    this.ringOffset = ringOffset;
    this.capacity = capacity;
    this.tailOffset = tailOffset;
    this.headOffset = headOffset;
  }

  public MemorySegment region() {
    return region;
  }

  public long capacity() {
    return capacity;
  }

  /**
   * Whether that many bytes could be claimed now. Reads the shared word only when the private copy
   * says no.
   */
  public boolean hasRoom(long bytes) throws ProtocolViolation {
    if (capacity - (claimed - headSeen) >= bytes) {
      return true;
    }
    refreshHead();
    return capacity - (claimed - headSeen) >= bytes;
  }

  /**
   * Claims a span for one record.
   *
   * @param bytes a multiple of {@link SessionRegionDescriptor#RECORD_ALIGNMENT}
   * @return the record's offset in the region, or -1 while there is no room
   */
  public long tryClaim(long bytes) throws ProtocolViolation {
    if (!hasRoom(bytes)) {
      return -1;
    }
    long offset = ringOffset + (claimed & (capacity - 1));
    claimed += bytes;
    return offset;
  }

  private void refreshHead() throws ProtocolViolation {
    long head = Words.getLongAcquire(region, headOffset);
    if (head < headSeen || head > published) {
      throw new ProtocolViolation(
          "ring head is " + head + ", expected a value from " + headSeen + " to " + published);
    }
    headSeen = head;
  }

  /** Makes all claimed records visible to the consumer. */
  public void publish() {
    published = claimed;
    Words.putLongRelease(region, tailOffset, claimed);
  }

  /** Whether records are claimed and not yet visible. */
  public boolean hasUnpublished() {
    return claimed != published;
  }
}
