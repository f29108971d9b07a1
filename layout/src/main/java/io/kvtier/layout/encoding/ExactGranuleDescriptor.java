package io.kvtier.layout.encoding;

/**
 * The layout of a granule in the encoding {@code exact}, without loss. A granule is a run of bf16
 * elements of a block in its canonical order: one head of one layer of K or V. An encoded block is
 * its encoded granules, one behind the other, without a header. Little-endian.
 *
 * <p>A granule has n elements and t tiles of 512 elements; the last tile can be shorter.
 *
 * <pre>
 *      0  u32 CRC32C of the raw granule, 2n bytes
 *      4  u8  count of escapes
 *      5  u8 × t  largest exponent of each tile
 *    5+t  u8 × count  exponents of the escapes, in the order of their elements; then zero
 *      h  u4 × n  code of each element; the earlier of two elements is in the low half of a byte
 *  h+n/2  u8 × n  sign and mantissa of each element: the sign is the highest bit
 *
 *  h = n/64, rounded up to a multiple of 16: the bytes before the codes
 *
 *  code  0 to 13  the exponent is that much below the largest exponent of the tile
 *        14       the exponent is 0: the element is zero or subnormal
 *        15       an escape: the exponent stands in the list
 * </pre>
 *
 * <p>A granule of 16 tokens with heads of 128 elements has 2048 elements. It takes 4096 bytes raw
 * and 3104 bytes encoded, with space for 23 escapes.
 */
public final class ExactGranuleDescriptor {
  /** How many exponents have a code of their own. */
  public static final int WINDOW = 14;

  public static final int CODE_ZERO = 14;
  public static final int CODE_ESCAPE = 15;

  public static final int COUNT_OFFSET = 4;
  public static final int BASES_OFFSET = 5;

  private ExactGranuleDescriptor() {}

  /** Where the signs and mantissas begin. */
  public static int signsOffset(int elements) {
    return GranuleShape.codesOffset(elements) + elements / 2;
  }

  /** The most escapes of a granule. */
  public static int escapesMax(int elements) {
    return GranuleShape.codesOffset(elements) - BASES_OFFSET - GranuleShape.tiles(elements);
  }

  /** The bytes of an encoded granule. */
  public static int bytes(int elements) {
    return signsOffset(elements) + elements;
  }
}
