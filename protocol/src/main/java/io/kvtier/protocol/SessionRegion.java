package io.kvtier.protocol;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.Words;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * A session's mapped memory, laid out as {@link SessionRegionDescriptor} says, and the ends of its
 * rings. The rings begin after the header, at the first byte of a page.
 */
public final class SessionRegion {
  private static final long RINGS_OFFSET =
      Math.max(SessionRegionDescriptor.HEADER_BYTES, SharedMemory.pageBytes());

  private final MemorySegment segment;
  private final long requestRingBytes;
  private final long completionRingBytes;

  private SessionRegion(MemorySegment segment, long requestRingBytes, long completionRingBytes) {
    this.segment = segment;
    this.requestRingBytes = requestRingBytes;
    this.completionRingBytes = completionRingBytes;
  }

  /** Initialises fresh memory; the ready word is published last. */
  public static SessionRegion create(
      Descriptor memory,
      long sessionId,
      long requestRingBytes,
      long completionRingBytes,
      Arena arena)
      throws IOException {
    MemorySegment segment =
        SharedMemory.mapMirrored(
            memory, RINGS_OFFSET, requestRingBytes, completionRingBytes, arena);
    Words.putLong(segment, SessionRegionDescriptor.MAGIC_OFFSET, SessionRegionDescriptor.MAGIC);
    Words.putInt(segment, SessionRegionDescriptor.VERSION_OFFSET, Protocol.VERSION);
    Words.putLong(segment, SessionRegionDescriptor.SESSION_ID_OFFSET, sessionId);
    Words.putLong(
        segment,
        SessionRegionDescriptor.REGION_BYTES_OFFSET,
        regionBytes(requestRingBytes, completionRingBytes));
    Words.putLong(segment, SessionRegionDescriptor.REQUEST_RING_BYTES_OFFSET, requestRingBytes);
    Words.putLong(
        segment, SessionRegionDescriptor.COMPLETION_RING_BYTES_OFFSET, completionRingBytes);
    Words.putIntRelease(segment, SessionRegionDescriptor.READY_OFFSET, 1);
    return new SessionRegion(segment, requestRingBytes, completionRingBytes);
  }

  /** Maps a region that the daemon made, and checks that it is one. */
  public static SessionRegion open(Descriptor memory, Arena arena) throws IOException {
    long requestBytes;
    long completionBytes;
    try (Arena probe = Arena.ofConfined()) {
      MemorySegment header =
          SharedMemory.map(memory, SessionRegionDescriptor.HEADER_BYTES, false, probe);
      if (Words.getIntAcquire(header, SessionRegionDescriptor.READY_OFFSET) != 1
          || Words.getLong(header, SessionRegionDescriptor.MAGIC_OFFSET)
              != SessionRegionDescriptor.MAGIC) {
        throw new IOException("the session's memory is not a kvtier session region");
      }
      int version = Words.getInt(header, SessionRegionDescriptor.VERSION_OFFSET);
      if (!ProtocolVersion.isCompatible(version)) {
        throw new IOException(
            "the session's memory has layout "
                + ProtocolVersion.describe(version)
                + ", this client reads "
                + ProtocolVersion.describe(Protocol.VERSION));
      }
      requestBytes = Words.getLong(header, SessionRegionDescriptor.REQUEST_RING_BYTES_OFFSET);
      completionBytes = Words.getLong(header, SessionRegionDescriptor.COMPLETION_RING_BYTES_OFFSET);
    }
    MemorySegment segment =
        SharedMemory.mapMirrored(memory, RINGS_OFFSET, requestBytes, completionBytes, arena);
    return new SessionRegion(segment, requestBytes, completionBytes);
  }

  /**
   * The offset of the request ring: that of the layout, or one page of a kernel with larger ones.
   */
  public static long ringsOffset() {
    return RINGS_OFFSET;
  }

  /** The size of the memory file, without the rings' second mapping. */
  public static long regionBytes(long requestRingBytes, long completionRingBytes) {
    return RINGS_OFFSET + requestRingBytes + completionRingBytes;
  }

  /** The offset of the completion ring in a mirrored mapping. */
  public static long completionRingOffset(long requestRingBytes) {
    return RINGS_OFFSET + 2 * requestRingBytes;
  }

  /** The mirrored mapping. */
  public MemorySegment segment() {
    return segment;
  }

  public long requestRingBytes() {
    return requestRingBytes;
  }

  public long completionRingBytes() {
    return completionRingBytes;
  }

  public RingProducer requestProducer() {
    return new RingProducer(
        segment,
        RINGS_OFFSET,
        requestRingBytes,
        SessionRegionDescriptor.REQUEST_TAIL_OFFSET,
        SessionRegionDescriptor.REQUEST_HEAD_OFFSET);
  }

  public RingConsumer requestConsumer() {
    return new RingConsumer(
        segment,
        RINGS_OFFSET,
        requestRingBytes,
        SessionRegionDescriptor.REQUEST_TAIL_OFFSET,
        SessionRegionDescriptor.REQUEST_HEAD_OFFSET,
        RequestDescriptor.HEADER_BYTES);
  }

  public RingProducer completionProducer() {
    return new RingProducer(
        segment,
        completionRingOffset(requestRingBytes),
        completionRingBytes,
        SessionRegionDescriptor.COMPLETION_TAIL_OFFSET,
        SessionRegionDescriptor.COMPLETION_HEAD_OFFSET);
  }

  public RingConsumer completionConsumer() {
    return new RingConsumer(
        segment,
        completionRingOffset(requestRingBytes),
        completionRingBytes,
        SessionRegionDescriptor.COMPLETION_TAIL_OFFSET,
        SessionRegionDescriptor.COMPLETION_HEAD_OFFSET,
        CompletionDescriptor.HEADER_BYTES);
  }
}
