package io.kvtier.tiers.gpu;

/** An axis of KV tensors and blocks, by the letter that stands for it in an order of axes. */
public enum KvAxis {
  LAYER('L'),
  /** Keys and values: 2, or 1 where one tensor has both in its cells, or there is only one kind. */
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

  /** The letter that stands for it. */
  public char letter() {
    return letter;
  }

  /**
   * The axis of a letter.
   *
   * @throws IllegalArgumentException when it stands for none
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
