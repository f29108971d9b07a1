package io.kvtier.tiers.gpu;

/**
 * Some neighbours out of many, such as the layers 4 to 7: from {@code from} to before {@code to}.
 */
public record Span(int from, int to) {
  public Span {
    if (from < 0 || to < from) {
      throw new IllegalArgumentException(
          "span from " + from + " to " + to + ": expected 0 <= from <= to");
    }
  }

  /** All of so many. */
  public static Span all(int count) {
    return new Span(0, count);
  }

  /** How many there are. */
  public int count() {
    return to - from;
  }

  void requireWithin(int count, String what) {
    if (to > count) {
      throw new IllegalArgumentException(
          what + " " + from + " to " + to + " are not all here: there are " + count);
    }
  }
}
