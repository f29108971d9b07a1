package io.kvtier.client;

import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.UnixSocket;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;

/**
 * The daemon's slabs as this session sees them: each is mapped when a completion first names it,
 * once for reading and once for writing.
 */
final class Slabs {
  private final UnixSocket socket;
  private final Arena arena;
  private final long slabBytes;
  private final AtomicReferenceArray<@Nullable MemorySegment> readable;
  private final AtomicReferenceArray<@Nullable MemorySegment> writable;

  /** Answers that were not there in time: they come before any other. */
  private int overdue;

  Slabs(UnixSocket socket, Arena arena, long slabBytes, int slabCount) throws IOException {
    if (slabBytes < 0 || slabCount < 0) {
      throw new IOException(
          "the daemon's welcome names " + slabCount + " slabs of " + slabBytes + " bytes");
    }
    this.socket = socket;
    this.arena = arena;
    this.slabBytes = slabBytes;
    this.readable = new AtomicReferenceArray<>(slabCount);
    this.writable = new AtomicReferenceArray<>(slabCount);
  }

  /**
   * A slab's mapping. Only while the session is in use.
   *
   * @throws IOException when the daemon does not grant it, or has gone
   */
  MemorySegment get(int slab, boolean forWriting) throws IOException {
    AtomicReferenceArray<@Nullable MemorySegment> mapped = forWriting ? writable : readable;
    if (slab < 0 || slab >= mapped.length()) {
      throw new IOException("slab " + Integer.toUnsignedLong(slab) + " of " + mapped.length());
    }
    MemorySegment known = mapped.get(slab);
    return known != null ? known : map(slab, forWriting, mapped);
  }

  /** The outcome of a block whose slab could not be had. */
  static Status status(Exception reason) {
    return reason instanceof Wires.Refused refused ? refused.status() : Status.UNAVAILABLE;
  }

  private synchronized MemorySegment map(
      int slab, boolean forWriting, AtomicReferenceArray<@Nullable MemorySegment> mapped)
      throws IOException {
    MemorySegment known = mapped.get(slab);
    if (known != null) {
      return known;
    }
    byte[] request = new byte[HandshakeDescriptor.MAP_SLAB_BYTES];
    MemorySegment fields = MemorySegment.ofArray(request);
    fields.set(ValueLayout.JAVA_LONG_UNALIGNED, 0, HandshakeDescriptor.MAP_SLAB_MAGIC);
    fields.set(ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.MAP_SLAB_INDEX_OFFSET, slab);
    fields.set(
        ValueLayout.JAVA_INT_UNALIGNED,
        HandshakeDescriptor.MAP_SLAB_WRITABLE_OFFSET,
        forWriting ? 1 : 0);
    socket.send(request);
    overdue++;
    while (true) {
      UnixSocket.Message answer = socket.receive(HandshakeDescriptor.MESSAGE_BYTES_MAX);
      if (answer == null) {
        throw new IOException("the daemon did not answer for slab " + slab);
      }
      overdue--;
      try {
        if (overdue == 0 || answer.bytes().length == 0) {
          MemorySegment mapping = read(answer, slab, forWriting);
          mapped.set(slab, mapping);
          return mapping;
        }
      } finally {
        answer.descriptors().forEach(descriptor -> descriptor.close());
      }
    }
  }

  private MemorySegment read(UnixSocket.Message answer, int slab, boolean forWriting)
      throws IOException {
    MemorySegment fields = MemorySegment.ofArray(answer.bytes());
    if (fields.byteSize() < HandshakeDescriptor.MAP_SLAB_BYTES
        || fields.get(ValueLayout.JAVA_LONG_UNALIGNED, 0) != HandshakeDescriptor.MAP_SLAB_MAGIC) {
      throw new IOException(
          fields.byteSize() == 0
              ? "the daemon has gone"
              : "the daemon's answer for slab " + slab + " is none");
    }
    if (fields.get(ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.MAP_SLAB_INDEX_OFFSET)
        != slab) {
      throw new IOException("the daemon answers for another slab than " + slab);
    }
    Status status =
        Status.of(
            Short.toUnsignedInt(
                fields.get(
                    ValueLayout.JAVA_SHORT_UNALIGNED, HandshakeDescriptor.MAP_SLAB_STATUS_OFFSET)));
    if (status != Status.OK || answer.descriptors().size() != 1) {
      throw new Wires.Refused(
          status == Status.OK ? Status.INTERNAL : status, "slab " + slab + ": " + status.meaning());
    }
    MemorySegment mapping =
        SharedMemory.mapPopulated(answer.descriptors().getFirst(), slabBytes, forWriting, arena);
    return forWriting ? mapping : mapping.asReadOnly();
  }
}
