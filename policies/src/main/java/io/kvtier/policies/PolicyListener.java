package io.kvtier.policies;

/**
 * Hears what happens to the blocks of a tier. Called from within the policy: must not call back.
 */
public interface PolicyListener {
  /** A block became resident. */
  default void onPut(int block) {}

  /** A block left to make room. */
  default void onEvict(int block) {}

  /** A block was used as often as the threshold says: once in each of its stays. */
  default void onHot(int block) {}
}
