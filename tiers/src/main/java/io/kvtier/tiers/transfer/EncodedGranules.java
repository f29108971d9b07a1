package io.kvtier.tiers.transfer;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.linux.BlockCoder;
import java.lang.foreign.MemorySegment;
import java.util.BitSet;

/**
 * Parts of a raw block that came in their encoded form, to a slot of their own.
 *
 * @param encoding how the namespace's blocks are encoded
 * @param block the bytes of this slot, {@link BlockEncoding#encodedBytes}; only the bytes of the
 *     granules have a meaning
 * @param granules the numbers of the granules
 */
public record EncodedGranules(BlockEncoding encoding, MemorySegment block, BitSet granules) {
  /**
   * Decodes the granules to their places in the raw block.
   *
   * @param raw {@link BlockEncoding#rawBytes} of memory
   * @return false when a granule is damaged: then the raw block has no meaning
   */
  public boolean decode(MemorySegment raw) {
    int encodedBytes = encoding.encodedGranuleBytes();
    int rawBytes = encoding.rawGranuleBytes();
    for (int from = granules.nextSetBit(0); from >= 0; from = granules.nextSetBit(from)) {
      int to = granules.nextClearBit(from);
      long checksum =
          BlockCoder.OF_THIS_MACHINE.decode(
              encoding.ofGranules(to - from),
              block.asSlice((long) from * encodedBytes),
              raw.asSlice((long) from * rawBytes));
      if (checksum == BlockCoder.NONE) {
        return false;
      }
      from = to;
    }
    return true;
  }
}
