package io.kvtier.tiers.ssd;

import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Where one block at a time is encoded, on its way to its slot. As large as the largest block so
 * far needs; confined to one thread.
 */
final class EncodeBuffer {
  private static final long PAGE_MASK = SharedMemory.PAGE_BYTES - 1;

  private final BlockCodec codec;
  private MemorySegment memory = MemorySegment.NULL;
  private int storedBytes;

  EncodeBuffer(BlockCodec codec) {
    this.codec = codec;
  }

  /**
   * Encodes a block's bytes.
   *
   * @return whether that leaves less to be written; else this holds nothing
   */
  boolean encode(Transfer transfer) {
    long bound = pages(codec.boundBytes(transfer.length));
    if (memory.byteSize() < bound) {
      memory = Arena.ofAuto().allocate(bound, SharedMemory.PAGE_BYTES);
    }
    storedBytes = codec.encode(transfer.bytes(), memory);
    if (storedBytes < 0 || pages(storedBytes) >= transfer.slotBytes) {
      storedBytes = 0;
      return false;
    }
    // What the memory held before is nobody's business on the disk.
    memory.asSlice(storedBytes, pages(storedBytes) - storedBytes).fill((byte) 0);
    return true;
  }

  byte codecId() {
    return codec.id();
  }

  /** How many bytes the codec made. */
  int storedBytes() {
    return storedBytes;
  }

  /** Them, padded to 4 KiB. */
  MemorySegment body() {
    return memory.asSlice(0, pages(storedBytes));
  }

  private static long pages(long bytes) {
    return (bytes + PAGE_MASK) & ~PAGE_MASK;
  }
}
