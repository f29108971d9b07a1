package io.kvtier.tiers.ssd;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.codec.CodecException;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.transfer.Buffers;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * A block in an SSD slot: a header with the block's name and checksums, and the bytes. Stores check
 * the bytes just before, and loads check the name and the bytes.
 */
public final class StoredBlock {
  // The kinds of failures that operators are told of.
  private static final String NOT_READ = "a block can't be read";
  private static final String NOT_WRITTEN = "a block can't be written";
  private static final String DAMAGED = "a block is damaged";

  private StoredBlock() {}

  /**
   * Checks that a host slot still holds the bytes that were accepted, and makes their header.
   *
   * @param header {@link SlotHeaderDescriptor#HEADER_BYTES} of memory
   * @return OK, or CORRUPT: nothing may be written then
   */
  public static Status seal(Transfer transfer, MemorySegment header) {
    if (Checksums.of(transfer.bytes()) != transfer.checksum) {
      return Status.CORRUPT;
    }
    transfer.measureErrors();
    fill(transfer, header);
    close(header);
    transfer.writtenBytes = transfer.length;
    return Status.OK;
  }

  /**
   * Checks a host slot, makes the header, and encodes the bytes if that makes them fewer. The body
   * of the buffer must be written then, in place of the host slot.
   *
   * @return the outcome, and whether the bytes were encoded
   */
  static Sealed seal(Transfer transfer, MemorySegment header, EncodeBuffer buffer) {
    if (Checksums.of(transfer.bytes()) != transfer.checksum) {
      return Sealed.CORRUPT;
    }
    transfer.measureErrors();
    fill(transfer, header);
    boolean encoded = buffer.encode(transfer);
    if (encoded) {
      Words.putByte(header, SlotHeaderDescriptor.CODEC_OFFSET, buffer.codecId());
      Words.putInt(header, SlotHeaderDescriptor.STORED_BYTES_OFFSET, buffer.storedBytes());
    }
    close(header);
    transfer.writtenBytes = encoded ? buffer.storedBytes() : transfer.length;
    return encoded ? Sealed.ENCODED : Sealed.PLAIN;
  }

  /** The outcome of sealing. */
  enum Sealed {
    /** The bytes are not those that were accepted. */
    CORRUPT,
    /** The bytes are not encoded. */
    PLAIN,
    /** The bytes were encoded. */
    ENCODED
  }

  private static void fill(Transfer transfer, MemorySegment header) {
    header.fill((byte) 0);
    Words.putLong(header, SlotHeaderDescriptor.MAGIC_OFFSET, SlotHeaderDescriptor.MAGIC);
    Words.putInt(header, SlotHeaderDescriptor.VERSION_OFFSET, SlotHeaderDescriptor.VERSION);
    Words.putLong(header, SlotHeaderDescriptor.GENERATION_OFFSET, transfer.generation);
    Words.putLong(header, SlotHeaderDescriptor.NAMESPACE_OFFSET, transfer.namespaceHigh);
    Words.putLong(header, SlotHeaderDescriptor.NAMESPACE_OFFSET + 8L, transfer.namespaceLow);
    Words.putShort(header, SlotHeaderDescriptor.GROUP_OFFSET, transfer.group);
    Words.putByte(header, SlotHeaderDescriptor.KEY_BYTES_OFFSET, transfer.keyBytes);
    Words.putInt(header, SlotHeaderDescriptor.LENGTH_OFFSET, transfer.length);
    MemorySegment.copy(
        transfer.key,
        0,
        header,
        ValueLayout.JAVA_BYTE,
        SlotHeaderDescriptor.KEY_OFFSET,
        transfer.key.length);
    Words.putInt(header, SlotHeaderDescriptor.CHECKSUM_OFFSET, transfer.checksum);
    Words.putInt(header, SlotHeaderDescriptor.DEPTH_OFFSET, transfer.depth);
    Words.putLong(header, SlotHeaderDescriptor.PARENT_OFFSET, transfer.parent);
    Words.putInt(header, SlotHeaderDescriptor.STORED_BYTES_OFFSET, transfer.length);
  }

  private static void close(MemorySegment header) {
    Words.putInt(header, SlotHeaderDescriptor.HEADER_CHECKSUM_OFFSET, headerChecksum(header));
  }

  /**
   * Checks that header and bytes are those of the block that was asked for. Bytes that are encoded
   * are decoded where they stand.
   *
   * @param buffers hold encoded bytes while they are decoded
   * @return OK or CORRUPT
   */
  public static Status check(Transfer transfer, MemorySegment header, Buffers buffers) {
    boolean intact =
        Words.getLong(header, SlotHeaderDescriptor.MAGIC_OFFSET) == SlotHeaderDescriptor.MAGIC
            && Words.getInt(header, SlotHeaderDescriptor.VERSION_OFFSET)
                == SlotHeaderDescriptor.VERSION
            && Words.getInt(header, SlotHeaderDescriptor.HEADER_CHECKSUM_OFFSET)
                == headerChecksum(header);
    return intact
            && isNamed(transfer, header)
            && decode(transfer, header, buffers)
            && Checksums.of(transfer.bytes()) == transfer.checksum
        ? Status.OK
        : Status.CORRUPT;
  }

  /**
   * Checks header and bytes that were read into memory that no client can write. If bytes in a slab
   * do not verify, the copy on the device may still be sound: a client may have written to the slab
   * meanwhile. Sound bytes are copied to the slab. Readers verify them if others can write there.
   *
   * @param aside as long as the host slot
   * @return OK or CORRUPT: the copy on the device is damaged
   */
  static Status checkAside(
      Transfer transfer, MemorySegment header, MemorySegment aside, Buffers buffers) {
    MemorySegment slab = transfer.slab;
    long slabOffset = transfer.slabOffset;
    transfer.slab = aside;
    transfer.slabOffset = 0;
    Status status = check(transfer, header, buffers);
    transfer.slab = slab;
    transfer.slabOffset = slabOffset;
    if (status == Status.OK) {
      MemorySegment.copy(aside, 0, slab, slabOffset, transfer.length);
    }
    return status;
  }

  /** Ends a transfer that the device did not carry out, and tells of it. */
  static void failed(Transfer transfer, String words, TroubleLog troubles) {
    String why = FileErrors.withCure(words);
    transfer.status = Status.IO_ERROR;
    transfer.cause = why;
    troubles.tell(transfer.kind == Transfer.Kind.STORE ? NOT_WRITTEN : NOT_READ, why);
  }

  /** Tells of a block that was found to be {@link Status#CORRUPT}. */
  static void tellDamaged(Transfer transfer, TroubleLog troubles) {
    troubles.tell(
        DAMAGED,
        "what stands in region "
            + transfer.region
            + ", at "
            + transfer.offset
            + ", is not what was written there; it is dropped");
  }

  /** Decodes the bytes with the codec that the header names. */
  private static boolean decode(Transfer transfer, MemorySegment header, Buffers buffers) {
    byte codec = (byte) Words.getByte(header, SlotHeaderDescriptor.CODEC_OFFSET);
    int storedBytes = Words.getInt(header, SlotHeaderDescriptor.STORED_BYTES_OFFSET);
    if (codec == 0) {
      return storedBytes == transfer.length;
    }
    if (storedBytes <= 0 || storedBytes >= transfer.length) {
      return false;
    }
    MemorySegment buffer = buffers.take(storedBytes);
    MemorySegment encoded = buffer.asSlice(0, storedBytes);
    MemorySegment.copy(transfer.slab, transfer.slabOffset, encoded, 0, storedBytes);
    try {
      BlockCodecs.byId(codec).decode(encoded, transfer.bytes());
      return true;
    } catch (CodecException e) {
      return false;
    } finally {
      buffers.give(buffer);
    }
  }

  private static boolean isNamed(Transfer transfer, MemorySegment header) {
    return Words.getLong(header, SlotHeaderDescriptor.NAMESPACE_OFFSET) == transfer.namespaceHigh
        && Words.getLong(header, SlotHeaderDescriptor.NAMESPACE_OFFSET + 8L)
            == transfer.namespaceLow
        && Words.getShort(header, SlotHeaderDescriptor.GROUP_OFFSET) == transfer.group
        && Words.getByte(header, SlotHeaderDescriptor.KEY_BYTES_OFFSET) == transfer.keyBytes
        && Words.getInt(header, SlotHeaderDescriptor.LENGTH_OFFSET) == transfer.length
        && Words.getInt(header, SlotHeaderDescriptor.CHECKSUM_OFFSET) == transfer.checksum
        && header
                .asSlice(SlotHeaderDescriptor.KEY_OFFSET, transfer.key.length)
                .mismatch(MemorySegment.ofArray(transfer.key))
            == -1;
  }

  private static int headerChecksum(MemorySegment header) {
    return Checksums.of(
        header.asSlice(
            SlotHeaderDescriptor.CHECKED_BEGIN,
            SlotHeaderDescriptor.CHECKED_END - SlotHeaderDescriptor.CHECKED_BEGIN));
  }
}
