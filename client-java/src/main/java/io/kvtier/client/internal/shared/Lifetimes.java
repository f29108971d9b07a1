package io.kvtier.client.internal.shared;

import java.time.Duration;

/** Checks lifetimes of retentions. */
public final class Lifetimes {
  private Lifetimes() {}

  /**
   * A lifetime in nanoseconds; one that is too long for a number is the longest number, which the
   * daemon refuses with its limit.
   *
   * @throws IllegalArgumentException if it is negative
   */
  public static long nanoseconds(Duration lifetime) {
    if (lifetime.isNegative()) {
      throw new IllegalArgumentException("a lifetime is not negative: " + lifetime);
    }
    try {
      return lifetime.toNanos();
    } catch (ArithmeticException e) {
      return Long.MAX_VALUE;
    }
  }
}
