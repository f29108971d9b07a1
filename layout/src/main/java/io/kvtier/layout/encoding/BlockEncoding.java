package io.kvtier.layout.encoding;

import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * How the blocks of a namespace are encoded: a block is granules, and each is encoded to a fixed
 * place.
 *
 * @param kind the encoding of a granule
 * @param granuleElements the elements of a granule
 * @param granules the granules of a block
 */
public record BlockEncoding(EncodingKind kind, int granuleElements, int granules) {
  /** The property of a namespace that asks for an encoding. */
  public static final String PROPERTY = "encoding";

  private static final String EXPECTED =
      "expected '"
          + EncodingKind.ids()
          + " bf16 GRANULE_BYTES', such as '"
          + EncodingKind.EXACT.id()
          + " bf16 4096'";

  /** An encoding of blocks. */
  public BlockEncoding {
    if (!GranuleShape.isPossible(granuleElements) || granules < 1) {
      throw new IllegalArgumentException(
          "a block of " + granules + " granules of " + granuleElements + " elements");
    }
  }

  /**
   * The encoding that a namespace's properties ask for; null when they ask for none.
   *
   * @throws IllegalArgumentException as {@link #of(String, long)}
   */
  public static @Nullable BlockEncoding of(Map<String, String> properties, long blockBytes) {
    String value = properties.get(PROPERTY);
    return value == null ? null : of(value, blockBytes);
  }

  /**
   * The encoding that a namespace's property asks for.
   *
   * @param blockBytes the raw bytes of a block
   * @throws IllegalArgumentException when there is no such encoding, or blocks of this size can't
   *     have it; the message says what was expected
   */
  public static BlockEncoding of(String value, long blockBytes) {
    String[] words = value.split(" ", -1);
    String stated = PROPERTY + " is '" + value + "'";
    EncodingKind kind = EncodingKind.of(words[0]).orElse(null);
    if (words.length != 3 || kind == null || !words[2].matches("[0-9]{1,9}")) {
      throw new IllegalArgumentException(stated + "; " + EXPECTED);
    }
    if (!words[1].equals("bf16")) {
      throw new IllegalArgumentException(
          stated + ": elements of type " + words[1] + " can't be encoded; " + EXPECTED);
    }
    int granuleBytes = Integer.parseInt(words[2]);
    int elements = granuleBytes / GranuleShape.ELEMENT_BYTES;
    if (granuleBytes % GranuleShape.ELEMENT_BYTES != 0 || !GranuleShape.isPossible(elements)) {
      throw new IllegalArgumentException(
          stated
              + ": granules of "
              + granuleBytes
              + " bytes; expected a multiple of "
              + GranuleShape.ELEMENT_BYTES * GranuleShape.ELEMENTS_MULTIPLE
              + ", from "
              + GranuleShape.ELEMENT_BYTES * GranuleShape.ELEMENTS_MIN
              + " to "
              + GranuleShape.ELEMENT_BYTES * GranuleShape.ELEMENTS_MAX);
    }
    if (blockBytes % granuleBytes != 0) {
      throw new IllegalArgumentException(
          stated
              + ": a block of "
              + blockBytes
              + " bytes is not a whole number of granules of "
              + granuleBytes
              + " bytes");
    }
    return new BlockEncoding(kind, elements, (int) (blockBytes / granuleBytes));
  }

  /** The encoding of some granules of a block, as if they were a block. */
  public BlockEncoding ofGranules(int count) {
    return new BlockEncoding(kind, granuleElements, count);
  }

  /** The bytes of an encoded granule. */
  public int encodedGranuleBytes() {
    return kind.granuleBytes(granuleElements);
  }

  /** The bytes of an encoded block: fewer than those of a raw block. */
  public long encodedBytes() {
    return (long) granules * encodedGranuleBytes();
  }

  /** The bytes of a raw granule. */
  public int rawGranuleBytes() {
    return granuleElements * GranuleShape.ELEMENT_BYTES;
  }

  /** The bytes of a raw block. */
  public long rawBytes() {
    return (long) granules * rawGranuleBytes();
  }
}
