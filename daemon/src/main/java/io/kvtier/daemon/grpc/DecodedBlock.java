package io.kvtier.daemon.grpc;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.linux.BlockCoder;
import io.kvtier.tiers.transfer.Checksums;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * A block that was decoded for a client: remote clients get raw bytes.
 *
 * @param bytes the raw bytes, in memory of their own
 * @param checksum the CRC32C of the raw bytes
 */
record DecodedBlock(MemorySegment bytes, int checksum) {
  /**
   * Decodes a block.
   *
   * @param slot the encoded bytes
   * @param checksum the CRC32C that the encoded bytes must have
   * @return null when the block is damaged
   */
  static @Nullable DecodedBlock of(BlockEncoding encoding, MemorySegment slot, int checksum) {
    MemorySegment bytes = MemorySegment.ofArray(new byte[(int) encoding.rawBytes()]);
    long found = BlockCoder.OF_THIS_MACHINE.decode(encoding, slot, bytes);
    return found == BlockCoder.NONE || (int) found != checksum
        ? null
        : new DecodedBlock(bytes, Checksums.of(bytes));
  }
}
