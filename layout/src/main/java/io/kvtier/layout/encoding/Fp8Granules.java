package io.kvtier.layout.encoding;

import static io.kvtier.layout.encoding.Fp8GranuleDescriptor.BASE_MAX;
import static io.kvtier.layout.encoding.Fp8GranuleDescriptor.BASE_MIN;
import static io.kvtier.layout.encoding.Fp8GranuleDescriptor.ERRORS_OFFSET;
import static io.kvtier.layout.encoding.Fp8GranuleDescriptor.ERROR_BYTES;
import static io.kvtier.layout.encoding.Fp8GranuleDescriptor.ERROR_ONE;
import static io.kvtier.layout.encoding.Fp8GranuleDescriptor.MANTISSA_MAX;
import static io.kvtier.layout.encoding.GranuleBytes.element;
import static io.kvtier.layout.encoding.GranuleShape.TILE_ELEMENTS;

/** The granules of {@link Fp8GranuleDescriptor}. */
final class Fp8Granules implements GranuleCoder {
  private static final int EXPONENT_MAX = 15;

  private final int elements;
  private final int tiles;
  private final int bases;
  private final int codes;

  Fp8Granules(int elements) {
    this.elements = elements;
    tiles = GranuleShape.tiles(elements);
    bases = Fp8GranuleDescriptor.basesOffset(elements);
    codes = GranuleShape.codesOffset(elements);
  }

  @Override
  public boolean encode(byte[] raw, byte[] encoded) {
    for (int tile = 0; tile < tiles; tile++) {
      int begin = tile * TILE_ELEMENTS;
      int end = Math.min(begin + TILE_ELEMENTS, elements);
      int most = largestMagnitude(raw, begin, end);
      int base = (most >>> 7) + ((most & 0x7f) > MANTISSA_MAX ? 1 : 0);
      if (base > BASE_MAX) {
        return false;
      }
      base = Math.max(base, BASE_MIN);
      encoded[bases + tile] = (byte) base;
      long sum = 0;
      long difference = 0;
      for (int i = begin; i < end; i++) {
        int element = element(raw, i);
        int sign = (element >>> 8) & 0x80;
        if ((element & 0x7f80) == 0) {
          encoded[codes + i] = (byte) sign;
          continue;
        }
        int exponent = exponent(element, base);
        int code = code(exponent, element & 0x7f);
        encoded[codes + i] = (byte) (sign | code);
        long value = value(exponent, element & 0x7f);
        sum += value;
        difference += Math.abs(value - value(code));
      }
      GranuleBytes.setHalfWord(encoded, ERRORS_OFFSET + ERROR_BYTES * tile, error(sum, difference));
    }
    return true;
  }

  @Override
  public boolean decode(byte[] encoded, byte[] raw) {
    for (int i = 0; i < elements; i++) {
      int base = encoded[bases + i / TILE_ELEMENTS] & 0xff;
      if (base < BASE_MIN || base > BASE_MAX) {
        return false;
      }
      int code = encoded[codes + i];
      GranuleBytes.setElement(raw, i, ((code & 0x80) << 8) | magnitude(code & 0x7f, base));
    }
    return true;
  }

  private static int largestMagnitude(byte[] raw, int begin, int end) {
    int most = 0;
    for (int i = begin; i < end; i++) {
      most = Math.max(most, element(raw, i) & 0x7fff);
    }
    return most;
  }

  /** The exponent of an element in e4m3, which has codes from 1 to 15 only. */
  private static int exponent(int element, int base) {
    return ((element >>> 7) & 0xff) - base + EXPONENT_MAX;
  }

  private static int code(int exponent, int mantissa) {
    if (exponent >= 1) {
      return rounded(exponent << 7 | mantissa, 4);
    }
    int shift = 5 - exponent;
    return shift > 8 ? 0 : rounded(0x80 | mantissa, shift);
  }

  /** A number without its lowest bits, rounded to the nearest, and to an even one between two. */
  private static int rounded(int number, int bits) {
    return (number + (1 << (bits - 1)) - 1 + (number >>> bits & 1)) >>> bits;
  }

  /** The value of an element, in units of 1/128 of the smallest one with an exponent of 1. */
  private static long value(int exponent, int mantissa) {
    int whole = 0x80 | mantissa;
    if (exponent >= 1) {
      return (long) whole << (exponent - 1);
    }
    return exponent <= -7 ? 0 : whole >>> (1 - exponent);
  }

  /** The value of a code, in the same units. */
  private static long value(int code) {
    int exponent = code >>> 3;
    int mantissa = code & 7;
    return exponent >= 1 ? (8L | mantissa) << 4 << (exponent - 1) : (long) mantissa << 4;
  }

  private static int error(long sum, long difference) {
    return sum == 0 ? 0 : (int) Math.min(ERROR_ONE - 1, ERROR_ONE * difference / sum);
  }

  /** The bits of a decoded element without its sign. */
  private static int magnitude(int code, int base) {
    int exponent = code >>> 3;
    int mantissa = code & 7;
    if (exponent >= 1) {
      return (base - EXPONENT_MAX + exponent) << 7 | mantissa << 4;
    }
    if (mantissa == 0) {
      return 0;
    }
    // A normal number in bf16: its highest bit is not stored.
    int bits = 31 - Integer.numberOfLeadingZeros(mantissa);
    return (base - 17 + bits) << 7 | (mantissa << (7 - bits) & 0x7f);
  }
}
