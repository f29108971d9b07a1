package io.kvtier.layout;

/** An axis of KV tensors and blocks. One letter names an axis in a text such as "CBNHD". */
public enum KvAxis {
  LAYER('L'),
  /**
   * Keys and values. The extent is 2, or 1 where each cell holds both, or where the model has only
   * one kind of data.
   */
  PLANE('C'),
  BLOCK('B'),
  TOKEN('N'),
  HEAD('H'),
  /** The elements of one token, head and plane. */
  DIM('D');

  private final char letter;

  KvAxis(char letter) {
    this.letter = letter;
  }

  /** The letter that names this axis. */
  public char letter() {
    return letter;
  }

  /**
   * Returns the axis that a letter names.
   *
   * @param axes the whole text that the letter comes from, for the message
   * @throws IllegalArgumentException when the letter names no axis
   */
  static KvAxis of(char letter, String axes) {
    for (KvAxis axis : values()) {
      if (axis.letter == letter) {
        return axis;
      }
    }
    throw new IllegalArgumentException(
        "axes '"
            + axes
            + "' have an unknown letter '"
            + letter
            + "': expected letters of LCBNHD (layer, k|v, block, token, head, element)");
  }
}
