package io.kvtier.layout.encoding;

import static io.kvtier.layout.encoding.ExactGranuleDescriptor.BASES_OFFSET;
import static io.kvtier.layout.encoding.ExactGranuleDescriptor.CODE_ESCAPE;
import static io.kvtier.layout.encoding.ExactGranuleDescriptor.CODE_ZERO;
import static io.kvtier.layout.encoding.ExactGranuleDescriptor.COUNT_OFFSET;
import static io.kvtier.layout.encoding.ExactGranuleDescriptor.WINDOW;
import static io.kvtier.layout.encoding.GranuleBytes.element;
import static io.kvtier.layout.encoding.GranuleShape.TILE_ELEMENTS;

/** The granules of {@link ExactGranuleDescriptor}. */
final class ExactGranules implements GranuleCoder {
  private final int elements;
  private final int tiles;
  private final int codes;
  private final int signs;

  ExactGranules(int elements) {
    this.elements = elements;
    tiles = GranuleShape.tiles(elements);
    codes = GranuleShape.codesOffset(elements);
    signs = ExactGranuleDescriptor.signsOffset(elements);
  }

  @Override
  public boolean encode(byte[] raw, byte[] encoded) {
    int escapesMax = ExactGranuleDescriptor.escapesMax(elements);
    int escapes = 0;
    for (int tile = 0; tile < tiles; tile++) {
      int begin = tile * TILE_ELEMENTS;
      int end = Math.min(begin + TILE_ELEMENTS, elements);
      int base = largestExponent(raw, begin, end);
      encoded[BASES_OFFSET + tile] = (byte) base;
      for (int i = begin; i < end; i++) {
        int element = element(raw, i);
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
    return true;
  }

  @Override
  public boolean decode(byte[] encoded, byte[] raw) {
    int count = encoded[COUNT_OFFSET] & 0xff;
    if (count > ExactGranuleDescriptor.escapesMax(elements)) {
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
      GranuleBytes.setElement(raw, i, ((sign & 0x80) << 8) | (exponent << 7) | (sign & 0x7f));
    }
    return escapes == count;
  }

  private static int largestExponent(byte[] raw, int begin, int end) {
    int largest = 0;
    for (int i = begin; i < end; i++) {
      largest = Math.max(largest, exponent(element(raw, i)));
    }
    return largest;
  }

  private static int exponent(int element) {
    return (element >>> 7) & 0xff;
  }
}
