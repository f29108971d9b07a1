package io.kvtier.layout.encoding;

/**
 * The common shape of encoded granules of all kinds: the number of elements, the tiles of the
 * elements, the checksum in front, and the offset of the elements' codes.
 */
public final class GranuleShape {
  public static final int TILE_ELEMENTS = 512;

  /** The elements of a granule: a multiple of this number, within the two bounds. */
  public static final int ELEMENTS_MULTIPLE = 128;

  public static final int ELEMENTS_MIN = 512;
  public static final int ELEMENTS_MAX = 16384;

  /** The bytes of a raw element. */
  public static final int ELEMENT_BYTES = Short.BYTES;

  /** The offset of the CRC32C of the decoded bytes. */
  public static final int CHECKSUM_OFFSET = 0;

  private static final int HEADER_MULTIPLE = 16;

  private GranuleShape() {}

  /** Whether a granule can have that many elements. */
  public static boolean isPossible(int elements) {
    return elements >= ELEMENTS_MIN
        && elements <= ELEMENTS_MAX
        && elements % ELEMENTS_MULTIPLE == 0;
  }

  public static int tiles(int elements) {
    return (elements + TILE_ELEMENTS - 1) / TILE_ELEMENTS;
  }

  /** The offset of the codes. */
  public static int codesOffset(int elements) {
    return (elements / 64 + HEADER_MULTIPLE - 1) / HEADER_MULTIPLE * HEADER_MULTIPLE;
  }
}
