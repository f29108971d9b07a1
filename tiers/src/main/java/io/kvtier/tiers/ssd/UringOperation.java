package io.kvtier.tiers.ssd;

import io.kvtier.protocol.linux.IoUring;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * One read or write of a header and a body under way in a ring, and how far it is: the kernel may
 * move less than was asked. Pooled; confined to the ring's thread.
 */
final class UringOperation {
  private static final int IOVEC_BYTES = 16;
  private static final int PARTS_MAX = 2;

  /** Of the array that tells the kernel the parts. */
  static final int VECTOR_BYTES = PARTS_MAX * IOVEC_BYTES;

  private final int tag;
  private final MemorySegment header;
  private final MemorySegment vector;
  private @Nullable Transfer transfer;
  private long bodyAddress;
  private long bodyBytes;
  private long done;
  private long startNs;
  private @Nullable EncodeBuffer encoded;
  private @Nullable MemorySegment aside;

  /**
   * An operation of nothing yet.
   *
   * @param tag that of its completions
   * @param header a page
   * @param vector {@link #VECTOR_BYTES}
   */
  UringOperation(int tag, MemorySegment header, MemorySegment vector) {
    this.tag = tag;
    this.header = header;
    this.vector = vector;
  }

  MemorySegment header() {
    return header;
  }

  Transfer transfer() {
    if (transfer == null) {
      throw new IllegalStateException("a completion of operation " + tag + ", which is free");
    }
    return transfer;
  }

  /** All that is to be moved. */
  long bytes() {
    return header.byteSize() + bodyBytes;
  }

  void begin(Transfer begun) {
    MemorySegment body = begun.slot();
    transfer = begun;
    bodyAddress = body.address();
    bodyBytes = body.byteSize();
    done = 0;
    aside = null;
    startNs = System.nanoTime();
  }

  /** Reads it all again, into memory that nobody else can write. */
  void beginAside(MemorySegment memory) {
    aside = memory;
    bodyAddress = memory.address();
    bodyBytes = memory.byteSize();
    done = 0;
  }

  /** Where it was read again; null where it is read for the first time. */
  @Nullable MemorySegment aside() {
    return aside;
  }

  /** Writes what a buffer holds, and keeps the buffer until {@link #takeBuffer}. */
  void encoded(EncodeBuffer buffer) {
    encoded = buffer;
    bodyAddress = buffer.body().address();
    bodyBytes = buffer.body().byteSize();
  }

  /** The buffer that was written from, if there was one; it is the caller's again. */
  @Nullable EncodeBuffer takeBuffer() {
    EncodeBuffer taken = encoded;
    encoded = null;
    return taken;
  }

  /** Notes bytes that were moved; whether some are left. */
  boolean advance(int moved) {
    done += moved;
    return done < bytes();
  }

  /** Enters what is left. */
  void enter(IoUring ring) {
    Transfer of = transfer();
    int parts = 0;
    if (done < header.byteSize()) {
      part(parts++, header.address() + done, header.byteSize() - done);
      part(parts++, bodyAddress, bodyBytes);
    } else {
      long moved = done - header.byteSize();
      part(parts++, bodyAddress + moved, bodyBytes - moved);
    }
    if (of.kind == Transfer.Kind.STORE) {
      ring.writeVector(of.region, vector, parts, of.offset + done, tag);
    } else {
      ring.readVector(of.region, vector, parts, of.offset + done, tag);
    }
  }

  private void part(int index, long address, long length) {
    Words.putLong(vector, (long) index * IOVEC_BYTES, address);
    Words.putLong(vector, (long) index * IOVEC_BYTES + Long.BYTES, length);
  }

  /** Lets go of the transfer, with the time that it took. */
  Transfer end() {
    Transfer ended = transfer();
    ended.elapsedNs = System.nanoTime() - startNs;
    transfer = null;
    return ended;
  }
}
