package io.kvtier.layout.encoding;

import java.util.Arrays;
import java.util.Optional;
import java.util.stream.Collectors;

/** The kinds of encodings of blocks. */
public enum EncodingKind {
  /** Without loss, in about 0.76 of the bytes: {@link ExactGranuleDescriptor}. */
  EXACT("exact", 1, false),

  /** With loss, in about 0.51 of the bytes: {@link Fp8GranuleDescriptor}. */
  FP8("fp8", 2, true);

  private final String id;
  private final int number;
  private final boolean isLossy;

  EncodingKind(String id, int number, boolean isLossy) {
    this.id = id;
    this.number = number;
    this.isLossy = isLossy;
  }

  /** The kind that a namespace's property names. */
  static Optional<EncodingKind> of(String id) {
    return Arrays.stream(values()).filter(kind -> kind.id.equals(id)).findFirst();
  }

  /** The names of all kinds, for messages. */
  static String ids() {
    return Arrays.stream(values()).map(EncodingKind::id).collect(Collectors.joining(" or "));
  }

  /**
   * The name in a namespace's property, and the version of the layout: another layout has another
   * name. Blocks of a name that the daemon does not know are dropped at its start.
   */
  public String id() {
    return id;
  }

  /** The number of the kind in the native library, as {@code _encoding.h} has it. */
  public int number() {
    return number;
  }

  /** Whether decoded elements can differ from those that were encoded. */
  public boolean isLossy() {
    return isLossy;
  }

  /**
   * The bytes of an encoded granule.
   *
   * @param elements a number that is {@link GranuleShape#isPossible}
   */
  public int granuleBytes(int elements) {
    return switch (this) {
      case EXACT -> ExactGranuleDescriptor.bytes(elements);
      case FP8 -> Fp8GranuleDescriptor.bytes(elements);
    };
  }

  /** A coder of granules of so many elements, in plain Java. */
  GranuleCoder coder(int elements) {
    return switch (this) {
      case EXACT -> new ExactGranules(elements);
      case FP8 -> new Fp8Granules(elements);
    };
  }
}
