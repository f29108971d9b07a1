package io.kvtier.policies;

/**
 * The order in which the blocks of one tier leave it. Confined to the index. Blocks are named by
 * their small integer ids in the directory, from 0 to the capacity given at construction; an id may
 * come again for another block after its removal. No call allocates.
 */
public interface EvictionPolicy {
  /** What {@link #victim} answers when it found none. */
  int NONE = -1;

  /** Which blocks the mechanism could evict now: not pinned, not leased, in a place that helps. */
  @FunctionalInterface
  interface VictimFilter {
    boolean accepts(int block);
  }

  /**
   * A block became resident.
   *
   * @param block its id, not tracked yet
   * @param bytes its weight
   * @param fingerprint 64 well-mixed bits of its key
   * @param depth its place in its sequence, from 0
   * @param parent the id of the block before it, or {@link #NONE} when unknown
   */
  void onInsert(int block, int bytes, long fingerprint, int depth, int parent);

  /** A resident block was used. */
  void onHit(int block);

  /** A resident block left, for whatever reason. */
  void onRemove(int block);

  /**
   * The next block to leave among those that the mechanism accepts. It stays tracked until {@link
   * #onRemove}.
   *
   * @param looksMax the most candidates to look at
   * @return its id, or {@link #NONE}
   */
  int victim(VictimFilter filter, int looksMax);

  /** How many blocks are tracked. */
  int size();

  /** All memory of the policy, in bytes: fixed at construction. */
  long metadataBytes();

  /** Checks the structure, for tests. */
  void checkInvariants();
}
