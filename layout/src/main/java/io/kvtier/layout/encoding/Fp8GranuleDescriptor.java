package io.kvtier.layout.encoding;

/**
 * The layout of a granule in the encoding {@code fp8}, with loss: its elements in e4m3 (a sign, 4
 * bits of exponent, 3 of mantissa), scaled by a power of two for each tile. A granule and a block
 * are those of {@link ExactGranuleDescriptor}. Little-endian.
 *
 * <p>A granule has n elements and t tiles of 512 elements; the last tile can be shorter.
 *
 * <pre>
 *      0  u32 CRC32C of the decoded granule, 2n bytes
 *      4  u16 × t  error of each tile: 65536 × sum of |element - decoded element| ÷ sum of
 *                  |element|, rounded down, at most 65535; 0 if all elements are
 *   4+2t  u8 × t  base of each tile, from 18 to 254; then zero
 *      h  u8 × n  code of each element: sign, exponent, mantissa
 *
 *  h = n/64, rounded up to a multiple of 16: the bytes before the codes
 *
 *  base      the exponent that bf16 has for a code with the exponent 15: that of the tile's largest
 *            element, or one more if this element is nearer to the next power of two than to 1.75
 *            times its own. So no element is above the largest code that is used, which is 1.75.
 *  exponent  1 to 15  the element's exponent in bf16 is base - 15 + exponent
 *            0        the element is mantissa ÷ 8 times the smallest value of exponent 1
 * </pre>
 *
 * <p>Elements are rounded to the nearest code, and to an even one between two. Zeros keep their
 * signs, and subnormal elements become zeros. A granule with an infinite element, one that is not a
 * number, or one that would be rounded to 2^128, does not fit.
 *
 * <p>A decoded element is exactly a value of bf16, so all decoders give equal bytes. A granule that
 * was decoded is encoded to the bases and codes that it had, with errors of zero.
 *
 * <p>A granule of 16 tokens with heads of 128 elements has 2048 elements. It takes 4096 bytes raw
 * and 2080 bytes encoded.
 */
public final class Fp8GranuleDescriptor {
  public static final int ERRORS_OFFSET = 4;

  /** The number in the field of an error that stands for a relative error of 1. */
  public static final int ERROR_ONE = 65536;

  public static final int ERROR_BYTES = Short.BYTES;

  /** The smallest base. With a smaller one, decoded elements would be subnormal. */
  public static final int BASE_MIN = 18;

  /** The largest base. With a larger one, decoded elements would be infinite. */
  public static final int BASE_MAX = 254;

  /** The largest mantissa of bf16 that is rounded to 1.75 or less. */
  public static final int MANTISSA_MAX = 0x68;

  private Fp8GranuleDescriptor() {}

  /** The offset of the bases. */
  public static int basesOffset(int elements) {
    return ERRORS_OFFSET + ERROR_BYTES * GranuleShape.tiles(elements);
  }

  /** The bytes of an encoded granule. */
  public static int bytes(int elements) {
    return GranuleShape.codesOffset(elements) + elements;
  }
}
