package io.kvtier.tiers.object;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Buffers;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Whether an object is the block that its name says, for somebody who knows no more than the name.
 * One object at a time; not safe for several threads.
 */
public final class ObjectCheck {
  /** No block is larger; what claims to be is not read. */
  public static final long BYTES_MAX = 1L << 30;

  private static final int ONLY = 0;
  private static final int HEADER_BYTES = ObjectHeaderDescriptor.headerBytes(1);

  private final Transfer transfer = new Transfer(0);
  private final ObjectBlock block;
  private final ObjectHeader header;
  private MemorySegment memory = MemorySegment.NULL;

  /**
   * Of blocks as a node with this cipher reads them.
   *
   * @param cipher null for none
   */
  public ObjectCheck(@Nullable ObjectCipher cipher) {
    block = new ObjectBlock(Arena.ofAuto(), cipher, new Buffers());
    block.expect(memory);
    header = new ObjectHeader(block.parts().getFirst(), 1);
  }

  /**
   * Where to read an object, from its begin; one byte more than it is long.
   *
   * @param object with the name of a block and at most {@link #BYTES_MAX} bytes
   */
  public List<MemorySegment> expect(StoredObject object) {
    if (!ObjectNames.readBlock(object.name(), transfer) || object.bytes() > BYTES_MAX) {
      throw new IllegalArgumentException(object + " is no block");
    }
    long bytes = Math.max(0, object.bytes() - HEADER_BYTES) + 1;
    reserve(bytes);
    block.expect(memory.asSlice(0, bytes));
    return block.parts();
  }

  /**
   * Looks at what was read.
   *
   * @return OK, CORRUPT, VERSION_MISMATCH for what another version may read, or what else keeps a
   *     node from reading it
   */
  public Status check(long received) {
    if (received < HEADER_BYTES) {
      return Status.CORRUPT;
    }
    Status status = header.check(transfer.namespaceHigh, transfer.namespaceLow);
    if (status != Status.OK) {
      return status;
    }
    // Its checksum holds, so the header does not lie about the length.
    int length = header.length(ONLY);
    if (length <= 0 || length > BYTES_MAX || header.storedLength(ONLY) > length) {
      return Status.CORRUPT;
    }
    reserve(length);
    transfer.slab = memory;
    transfer.length = length;
    return block.open(transfer, received);
  }

  /** Keeps what was read where it has to grow: an encoded block is opened in a larger place. */
  private void reserve(long bytes) {
    if (memory.byteSize() < bytes) {
      MemorySegment larger = Arena.ofAuto().allocate(bytes, Long.BYTES);
      MemorySegment.copy(memory, 0, larger, 0, memory.byteSize());
      memory = larger;
    }
  }
}
