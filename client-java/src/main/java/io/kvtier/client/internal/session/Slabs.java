package io.kvtier.client.internal.session;

import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;

/**
 * The daemon's slabs as this session sees them: each is mapped when a completion first names it,
 * once for reading and once for writing.
 */
public final class Slabs {
  private final SocketQuestions questions;
  private final Arena arena;
  private final long slabBytes;
  private final AtomicReferenceArray<@Nullable MemorySegment> readable;
  private final AtomicReferenceArray<@Nullable MemorySegment> writable;

  Slabs(SocketQuestions questions, Arena arena, long slabBytes, int slabCount) throws IOException {
    if (slabBytes < 0 || slabCount < 0) {
      throw new IOException(
          "the daemon's welcome names " + slabCount + " slabs of " + slabBytes + " bytes");
    }
    this.questions = questions;
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
  public MemorySegment get(int slab, boolean forWriting) throws IOException {
    AtomicReferenceArray<@Nullable MemorySegment> mapped = forWriting ? writable : readable;
    if (slab < 0 || slab >= mapped.length()) {
      throw new IOException("slab " + Integer.toUnsignedLong(slab) + " of " + mapped.length());
    }
    MemorySegment known = mapped.get(slab);
    return known != null ? known : map(slab, forWriting, mapped);
  }

  /** The outcome of a block whose slab could not be mapped. */
  public static Status status(Exception reason) {
    return reason instanceof Handshake.Refused refused ? refused.status() : Status.UNAVAILABLE;
  }

  private synchronized MemorySegment map(
      int slab, boolean forWriting, AtomicReferenceArray<@Nullable MemorySegment> mapped)
      throws IOException {
    MemorySegment known = mapped.get(slab);
    if (known != null) {
      return known;
    }
    SocketQuestions.Answer answer =
        questions.ask(
            HandshakeDescriptor.MAP_SLAB_MAGIC,
            slab,
            forWriting ? 1 : 0,
            SocketQuestions.NO_DESCRIPTOR,
            "slab " + slab);
    try {
      Status status = answer.status();
      if (status != Status.OK || answer.descriptors().size() != 1) {
        throw new Handshake.Refused(
            status == Status.OK ? Status.INTERNAL : status,
            "slab " + slab + ": " + status.meaning());
      }
      MemorySegment mapping =
          SharedMemory.mapPopulated(answer.descriptors().getFirst(), slabBytes, forWriting, arena);
      MemorySegment seen = forWriting ? mapping : mapping.asReadOnly();
      mapped.set(slab, seen);
      return seen;
    } finally {
      answer.descriptors().forEach(Descriptor::close);
    }
  }
}
