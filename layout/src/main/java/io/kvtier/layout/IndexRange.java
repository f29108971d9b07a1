package io.kvtier.layout;

/**
 * A range of layers or heads, by their numbers.
 *
 * @param from the first number
 * @param to the number after the last one
 */
public record IndexRange(int from, int to) {
  public IndexRange {
    if (from < 0 || to < from) {
      throw new IllegalArgumentException(
          "range from " + from + " to " + to + ": expected 0 <= from <= to");
    }
  }

  /** The range of all numbers below a count. */
  public static IndexRange all(int count) {
    return new IndexRange(0, count);
  }

  /** How many numbers the range has. */
  public int count() {
    return to - from;
  }

  /**
   * Checks that the range lies below a count.
   *
   * @param what the noun for the message, such as "layers"
   * @throws IllegalArgumentException when the range ends above the count
   */
  public void requireWithin(int count, String what) {
    if (to > count) {
      throw new IllegalArgumentException(
          what + " " + from + " to " + to + " are not all here: there are " + count);
    }
  }
}
