package io.kvtier.policies;

/** Spreads the bits of a word, so that any of them may serve as a hash. */
public final class BitMixer {
  private BitMixer() {}

  /**
   * A bijection in which every bit of the word changes each bit of the answer half the time; 0
   * stays 0. The finalizer of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom
   * number generators", OOPSLA 2014.
   */
  public static long mix(long word) {
    long z = (word ^ word >>> 30) * 0xBF58476D1CE4E5B9L;
    z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
    return z ^ z >>> 31;
  }
}
