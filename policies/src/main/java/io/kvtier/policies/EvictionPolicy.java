package io.kvtier.policies;

import java.util.List;

/**
 * The order in which the blocks of one tier leave it. Confined to the index. It decides and never
 * acts: it is told what happens, and asked for victims.
 *
 * <p>Blocks are named by small integer ids, from 0 to {@link PolicySetup#blocksMax}; an id may come
 * again for another block after its removal. Keys are named by fingerprints: 64 well-mixed bits, by
 * which a policy remembers a block that is gone. All memory is taken at construction, and no call
 * allocates, unless the policy says otherwise.
 */
public interface EvictionPolicy {
  /** What {@link #victim} answers when it found none. */
  int NONE = -1;

  /** The parent of the first block of a sequence, and of a block whose parent nobody knows. */
  long NO_PARENT = 0;

  /** The importance of a block of which nobody has said anything. */
  int NORMAL = 1;

  /** The highest importance; the lowest is 0. */
  int HIGHEST = 3;

  /** Which blocks the mechanism could evict now: not pinned, not leased, in a place that helps. */
  @FunctionalInterface
  interface VictimFilter {
    boolean accepts(int block);
  }

  /** Takes blocks one by one. */
  @FunctionalInterface
  interface BlockVisitor {
    void visit(int block);
  }

  /** Why a block left. */
  enum Removal {
    /** To make room: the policy may remember its key, to know it when it comes back. */
    EVICTED,
    /**
     * For a reason that says nothing of its worth: deleted, unreadable, moved to another policy.
     */
    DELETED
  }

  /**
   * A block became resident.
   *
   * @param block its id, not tracked yet
   * @param bytes its weight
   * @param fingerprint of its key
   * @param depth its place in its sequence, from 0
   * @param parent the fingerprint of the block before it in its sequence, or {@link #NO_PARENT}
   */
  void onInsert(int block, int bytes, long fingerprint, int depth, long parent);

  /**
   * A client has said how important a resident block is: 0 (it can leave first) to {@link
   * #HIGHEST}. Called right after {@link #onInsert} for blocks that are not {@link #NORMAL}, and
   * when the importance of a block changes. A policy need not do anything: the daemon wraps each
   * policy so that blocks of importance 0 leave first, and more important ones get further chances.
   */
  default void onImportance(int block, int importance) {}

  /**
   * What was inserted until now was handed over, by another policy or an earlier process: nobody
   * used it here. What comes from now on are uses.
   */
  default void onHandedOver() {}

  /**
   * The block before a resident one in its sequence is known to be missing where the block is: a
   * search for a run ends there. A policy that keeps the heads of sequences lets the block leave
   * first, until it is used or its parent comes.
   */
  default void onParentMissing(int block) {}

  /** A resident block was used. */
  void onHit(int block);

  /**
   * A search refused a resident block because it is held, or stands in the tier above as well,
   * where it is used: nobody used it here, and it is not counted. A policy that takes victims from
   * lists in the order of their uses may put it at the newest end of its list, so that the next
   * search does not meet it again.
   */
  default void onPassed(int block) {}

  /** A resident block left. */
  void onRemove(int block, Removal why);

  /**
   * The next block to leave among those that the mechanism accepts. It stays tracked until {@link
   * #onRemove}. The search may age the accepted blocks that it passes (clear their marks, move them
   * up); a refused block is left as it is.
   *
   * @param looksMax how many refusals end the search
   * @return its id, or {@link #NONE}
   */
  int victim(VictimFilter filter, int looksMax);

  /** How many blocks are tracked. */
  int size();

  /**
   * Shows every tracked block once, from the first to leave to the last, as far as the order is
   * known beforehand. A policy that takes over is told of the blocks in this order.
   */
  void forEach(BlockVisitor visitor);

  /** What other policies and sizes would have hit; empty where the policy watches none. */
  default List<WhatIf> whatIf() {
    return List.of();
  }

  /** All memory of the policy, of what it remembers of blocks that are gone too, in bytes. */
  long metadataBytes();

  /** Checks the structure, for tests. */
  void checkInvariants();
}
