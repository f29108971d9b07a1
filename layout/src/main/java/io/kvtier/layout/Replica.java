package io.kvtier.layout;

/**
 * One of several ranks that have equal bytes of each block: of a model with one latent head, or
 * with fewer heads than ranks. All of them load blocks; for each block, one of them stores it.
 *
 * @param number the rank's number among them, from 0
 * @param count how many ranks there are
 */
public record Replica(int number, int count) {
  /** The replica of a rank whose bytes no other rank has. */
  public static final Replica ONLY = new Replica(0, 1);

  public Replica {
    if (number < 0 || number >= count) {
      throw new IllegalArgumentException(
          "replica " + number + " of " + count + ": expected a number from 0 to the count");
    }
  }

  /**
   * Whether this rank stores a block.
   *
   * @param choice a number that follows from the block's key
   */
  public boolean stores(long choice) {
    return count == 1 || Long.remainderUnsigned(choice, count) == number;
  }
}
