package io.kvtier.layout.encoding;

import static io.kvtier.layout.encoding.GranuleShape.CHECKSUM_OFFSET;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * Encodes and decodes blocks in plain Java, by way of a copy of each granule: other processes may
 * write to the memory meanwhile. Not safe for several threads.
 */
public final class GranuleCodec {
  private final BlockEncoding encoding;
  private final GranuleCoder coder;
  private final int codes;
  private final byte[] raw;
  private final byte[] encoded;
  private final MemorySegment rawMemory;
  private final MemorySegment encodedMemory;

  /** A codec for blocks of one shape. */
  public GranuleCodec(BlockEncoding encoding) {
    this.encoding = encoding;
    coder = encoding.kind().coder(encoding.granuleElements());
    codes = GranuleShape.codesOffset(encoding.granuleElements());
    raw = new byte[encoding.rawGranuleBytes()];
    encoded = new byte[encoding.encodedGranuleBytes()];
    rawMemory = MemorySegment.ofArray(raw);
    encodedMemory = MemorySegment.ofArray(encoded);
  }

  /**
   * Encodes a block.
   *
   * @param block {@link BlockEncoding#rawBytes} of memory
   * @param target {@link BlockEncoding#encodedBytes} of memory
   * @return false when a granule does not fit: the block must be stored raw
   */
  public boolean encode(MemorySegment block, MemorySegment target) {
    for (int granule = 0; granule < encoding.granules(); granule++) {
      MemorySegment.copy(block, (long) granule * raw.length, rawMemory, 0, raw.length);
      if (!encodeGranule()) {
        return false;
      }
      MemorySegment.copy(encodedMemory, 0, target, (long) granule * encoded.length, encoded.length);
    }
    return true;
  }

  /**
   * Decodes a block, and checks the checksum of each granule.
   *
   * @param block {@link BlockEncoding#encodedBytes} of memory
   * @param target {@link BlockEncoding#rawBytes} of memory
   * @return false when the block is damaged: the target has no meaning then
   */
  public boolean decode(MemorySegment block, MemorySegment target) {
    for (int granule = 0; granule < encoding.granules(); granule++) {
      MemorySegment.copy(block, (long) granule * encoded.length, encodedMemory, 0, encoded.length);
      if (!decodeGranule()) {
        return false;
      }
      MemorySegment.copy(rawMemory, 0, target, (long) granule * raw.length, raw.length);
    }
    return true;
  }

  private boolean encodeGranule() {
    Arrays.fill(encoded, 0, codes, (byte) 0);
    if (!coder.encode(raw, encoded)) {
      return false;
    }
    if (encoding.kind().isLossy()) {
      coder.decode(encoded, raw);
    }
    GranuleBytes.setWord(encoded, CHECKSUM_OFFSET, GranuleBytes.crc32c(raw));
    return true;
  }

  private boolean decodeGranule() {
    return coder.decode(encoded, raw)
        && GranuleBytes.word(encoded, CHECKSUM_OFFSET) == GranuleBytes.crc32c(raw);
  }
}
