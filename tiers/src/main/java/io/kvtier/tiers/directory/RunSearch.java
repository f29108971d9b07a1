package io.kvtier.tiers.directory;

import java.util.Arrays;

/**
 * Finds how many blocks from the first of a sequence are known to the directory, without asking for
 * all: their owners are as many as the blocks. Each round asks for a few blocks at equal distances,
 * and the next one only for blocks between the last that is there and the first that is not. A
 * block without an answer is passed over.
 */
public final class RunSearch {
  /** The most blocks that are asked for in a round. */
  public static final int PROBES = 16;

  private int low;
  private int high;
  private int[] asked = {};
  private final boolean[] isThere = new boolean[PROBES];
  private final boolean[] isAnswered = new boolean[PROBES];

  /** A search in a sequence of some blocks. */
  public RunSearch(int blocks) {
    high = blocks;
  }

  /** The places that are to be asked for next, in order; none if the search is over. */
  public int[] next() {
    int span = high - low;
    int count = Math.min(span, PROBES);
    asked = new int[count];
    for (int i = 0; i < count; i++) {
      asked[i] = low + (int) ((long) (i + 1) * span / count) - 1;
    }
    Arrays.fill(isAnswered, false);
    return asked.clone();
  }

  /** The answer for the place of a number in the last round. */
  public void answer(int number, boolean there) {
    isAnswered[number] = true;
    isThere[number] = there;
  }

  /** Takes the answers of the last round. */
  public void endRound() {
    for (int i = 0; i < asked.length; i++) {
      if (isAnswered[i] && !isThere[i]) {
        high = asked[i];
        return;
      }
      if (isAnswered[i] || i == asked.length - 1) {
        low = asked[i] + 1;
      }
    }
  }

  /** How many blocks from the first are there, once the search is over. */
  public int run() {
    return low;
  }
}
