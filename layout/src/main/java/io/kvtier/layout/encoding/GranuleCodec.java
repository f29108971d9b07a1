package io.kvtier.layout.encoding;

import static io.kvtier.layout.encoding.EncodedGranuleDescriptor.BASES_OFFSET;
import static io.kvtier.layout.encoding.EncodedGranuleDescriptor.CHECKSUM_OFFSET;
import static io.kvtier.layout.encoding.EncodedGranuleDescriptor.CODE_ESCAPE;
import static io.kvtier.layout.encoding.EncodedGranuleDescriptor.CODE_ZERO;
import static io.kvtier.layout.encoding.EncodedGranuleDescriptor.COUNT_OFFSET;
import static io.kvtier.layout.encoding.EncodedGranuleDescriptor.TILE_ELEMENTS;
import static io.kvtier.layout.encoding.EncodedGranuleDescriptor.WINDOW;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.zip.CRC32C;

/**
 * Encodes and decodes blocks in plain Java, by way of a copy of each granule: other processes may
 * write to the memory meanwhile. Not safe for several threads.
 */
public final class GranuleCodec {
  private static final ValueLayout.OfShort ELEMENT =
      ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final ValueLayout.OfInt WORD =
      ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

  private final BlockEncoding encoding;
  private final int elements;
  private final int tiles;
  private final int codes;
  private final int signs;
  private final byte[] raw;
  private final byte[] encoded;
  private final MemorySegment rawMemory;
  private final MemorySegment encodedMemory;

  /** A codec for blocks of one shape. */
  public GranuleCodec(BlockEncoding encoding) {
    this.encoding = encoding;
    elements = encoding.granuleElements();
    tiles = EncodedGranuleDescriptor.tiles(elements);
    codes = EncodedGranuleDescriptor.codesOffset(elements);
    signs = EncodedGranuleDescriptor.signsOffset(elements);
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
   * @return false when a granule has too many escapes: the block must be stored raw
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
    encodedMemory.asSlice(0, codes).fill((byte) 0);
    int escapesMax = EncodedGranuleDescriptor.escapesMax(elements);
    int escapes = 0;
    for (int tile = 0; tile < tiles; tile++) {
      int begin = tile * TILE_ELEMENTS;
      int end = Math.min(begin + TILE_ELEMENTS, elements);
      int base = largestExponent(begin, end);
      encoded[BASES_OFFSET + tile] = (byte) base;
      for (int i = begin; i < end; i++) {
        int element = element(i);
        int exponent = exponent(element);
        int code = exponent == 0 ? CODE_ZERO : Math.min(base - exponent, CODE_ESCAPE);
        if (exponent != 0 && code >= WINDOW) {
          code = CODE_ESCAPE;
          if (escapes == escapesMax) {
            return false;
          }
          encoded[BASES_OFFSET + tiles + escapes++] = (byte) exponent;
        }
        int at = codes + i / 2;
        encoded[at] = (byte) (i % 2 == 0 ? code : encoded[at] | (code << 4));
        encoded[signs + i] = (byte) (((element >>> 8) & 0x80) | (element & 0x7f));
      }
    }
    encoded[COUNT_OFFSET] = (byte) escapes;
    encodedMemory.set(WORD, CHECKSUM_OFFSET, checksum());
    return true;
  }

  private boolean decodeGranule() {
    int count = encoded[COUNT_OFFSET] & 0xff;
    if (count > EncodedGranuleDescriptor.escapesMax(elements)) {
      return false;
    }
    int escapes = 0;
    for (int i = 0; i < elements; i++) {
      int code = (encoded[codes + i / 2] >>> (i % 2 * 4)) & 15;
      int exponent = code < WINDOW ? (encoded[BASES_OFFSET + i / TILE_ELEMENTS] - code) & 0xff : 0;
      if (code == CODE_ESCAPE) {
        if (escapes == count) {
          return false;
        }
        exponent = encoded[BASES_OFFSET + tiles + escapes++] & 0xff;
      }
      int sign = encoded[signs + i];
      rawMemory.set(
          ELEMENT, 2L * i, (short) (((sign & 0x80) << 8) | (exponent << 7) | (sign & 0x7f)));
    }
    return escapes == count && encodedMemory.get(WORD, CHECKSUM_OFFSET) == checksum();
  }

  private int largestExponent(int begin, int end) {
    int largest = 0;
    for (int i = begin; i < end; i++) {
      largest = Math.max(largest, exponent(element(i)));
    }
    return largest;
  }

  private static int exponent(int element) {
    return (element >>> 7) & 0xff;
  }

  private int element(int i) {
    return rawMemory.get(ELEMENT, 2L * i) & 0xffff;
  }

  private int checksum() {
    CRC32C crc = new CRC32C();
    crc.update(raw);
    return (int) crc.getValue();
  }
}
