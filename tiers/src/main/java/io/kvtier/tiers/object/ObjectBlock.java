package io.kvtier.tiers.object;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.codec.CodecException;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * One block as an object of its own, on its way there or back. Its bytes are put from their host
 * slot, and got into it; where a codec makes them fewer, from a buffer that is kept for the next
 * block. Not safe for several threads.
 */
final class ObjectBlock {
  private static final int ONLY = 0;
  private static final int HEADER_BYTES = ObjectHeaderDescriptor.headerBytes(1);

  /** The codec of bytes that are stored as they are. */
  static final byte NOT_ENCODED = 0;

  private final ObjectHeader header;
  private MemorySegment scratch = MemorySegment.NULL;
  private List<MemorySegment> parts = List.of();

  /**
   * For one block at a time.
   *
   * @param arena keeps the header
   */
  ObjectBlock(Arena arena) {
    header = new ObjectHeader(arena.allocate(HEADER_BYTES, Long.BYTES), 1);
  }

  /**
   * Checks that a host slot still holds the bytes that were accepted, and makes an object of them.
   *
   * @return OK, or CORRUPT: nothing may be written then
   */
  Status seal(Transfer transfer, BlockCodec codec) {
    MemorySegment bytes = transfer.bytes();
    if (Checksums.of(bytes) != transfer.checksum) {
      return Status.CORRUPT;
    }
    MemorySegment stored = bytes;
    byte codecId = NOT_ENCODED;
    if (codec.id() != NOT_ENCODED) {
      MemorySegment target = scratch(codec.boundBytes(transfer.length));
      int encoded = codec.encode(bytes, target);
      if (encoded >= 0) {
        stored = target.asSlice(0, encoded);
        codecId = codec.id();
      }
    }
    header.begin(transfer.namespaceHigh, transfer.namespaceLow);
    header.enter(ONLY, transfer, codecId, (int) stored.byteSize(), HEADER_BYTES);
    header.seal();
    parts = List.of(header.memory(), stored);
    return Status.OK;
  }

  /** Whether what was read says that it has to be decoded. It may be damaged, and lie. */
  boolean isEncoded(long received) {
    return received >= HEADER_BYTES && header.codec(ONLY) != NOT_ENCODED;
  }

  /** Where an object goes that is to be {@link #open}ed for this transfer: its slot. */
  void expect(Transfer transfer) {
    expect(transfer.bytes());
  }

  /** The same into other memory, as long as the block. */
  void expect(MemorySegment bytes) {
    parts = List.of(header.memory(), bytes);
  }

  /** The object: what to put, or what to fill. */
  List<MemorySegment> parts() {
    return parts;
  }

  /**
   * Checks that what was read is the block that was asked for, and decodes it where it is. What the
   * header tells of it is in the transfer then: its checksum, generation, parent and depth.
   *
   * @param received how many bytes of the parts were filled
   * @return OK, CORRUPT, or VERSION_MISMATCH; the slot holds anything then
   */
  Status open(Transfer transfer, long received) {
    if (received < HEADER_BYTES) {
      return Status.CORRUPT;
    }
    Status status = header.check(transfer.namespaceHigh, transfer.namespaceLow);
    if (status != Status.OK) {
      return status;
    }
    int stored = header.storedLength(ONLY);
    if (!header.isOf(ONLY, transfer)
        || header.begin(ONLY) != HEADER_BYTES
        || received != HEADER_BYTES + (long) stored) {
      return Status.CORRUPT;
    }
    MemorySegment bytes = transfer.bytes();
    if (header.codec(ONLY) != NOT_ENCODED) {
      MemorySegment encoded = scratch(stored);
      encoded.copyFrom(bytes.asSlice(0, stored));
      try {
        BlockCodecs.byId(header.codec(ONLY)).decode(encoded, bytes);
      } catch (CodecException e) {
        return Status.CORRUPT;
      }
    } else if (stored != transfer.length) {
      return Status.CORRUPT;
    }
    int checksum = header.checksum(ONLY);
    if (Checksums.of(bytes) != checksum) {
      return Status.CORRUPT;
    }
    transfer.checksum = checksum;
    transfer.generation = header.generation(ONLY);
    transfer.parent = header.parent(ONLY);
    transfer.depth = header.depth(ONLY);
    return Status.OK;
  }

  private MemorySegment scratch(long bytes) {
    if (scratch.byteSize() < bytes) {
      scratch = Arena.ofAuto().allocate(bytes, Long.BYTES);
    }
    return scratch.asSlice(0, bytes);
  }
}
