package io.kvtier.protocol;

/** Numbers with their nouns, for messages to people. */
public final class Counted {
  private Counted() {}

  /** {@code 1, "block"} is 1 block, and {@code 2, "block"} is 2 blocks. */
  public static String of(long count, String noun) {
    return count + " " + noun + (count == 1 ? "" : "s");
  }
}
