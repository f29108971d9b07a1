package io.kvtier.tiers.object;

/**
 * What bounds second tries: each first one pays in a part of one, so that a store in trouble gets
 * few calls more than without them. For one thread.
 */
final class RetryBudget {
  private final double share;
  private final double max;
  private double saved;

  /**
   * A full budget.
   *
   * @param share how many second tries a first one pays
   * @param max how many can be saved
   */
  RetryBudget(double share, double max) {
    this.share = share;
    this.max = max;
    saved = max;
  }

  void onFirstTry() {
    saved = Math.min(max, saved + share);
  }

  boolean take() {
    if (saved < 1) {
      return false;
    }
    saved--;
    return true;
  }
}
