package io.kvtier.tiers.transfer;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.linux.BlockCoder;
import java.lang.foreign.MemorySegment;
import java.util.function.IntPredicate;

/**
 * Parts of a raw block that came in their encoded form, to a slot of their own.
 *
 * @param encoding how the namespace's blocks are encoded
 * @param block the bytes of this slot, {@link BlockEncoding#encodedBytes}; only the bytes of the
 *     granules have a meaning
 * @param granules whether the granule of a number is one of them; used by the thread that decodes
 */
public record EncodedGranules(BlockEncoding encoding, MemorySegment block, IntPredicate granules) {
  /**
   * Decodes the granules to their places in the raw block.
   *
   * @param raw {@link BlockEncoding#rawBytes} of memory
   * @return false when a granule is damaged: then the raw block has no meaning
   */
  public boolean decode(MemorySegment raw) {
    int encodedBytes = encoding.encodedGranuleBytes();
    int rawBytes = encoding.rawGranuleBytes();
    int from = 0;
    while (from < encoding.granules()) {
      if (!granules.test(from)) {
        from++;
        continue;
      }
      int to = from + 1;
      while (to < encoding.granules() && granules.test(to)) {
        to++;
      }
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
