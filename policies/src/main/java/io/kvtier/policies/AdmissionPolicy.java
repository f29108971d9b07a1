package io.kvtier.policies;

/**
 * May a block enter this tier, coming from the tier above? Confined to the index. A refusal costs
 * nothing while the block is in the tier above; at its eviction from there it is the block's end,
 * so the policies that are here refuse then only where the tier is full: what was accepted is kept
 * while there is room.
 */
public interface AdmissionPolicy {
  /** What happened to the block in the tier above. */
  enum Occasion {
    /** It was inserted there. */
    INSERTED,
    /** It was used there. */
    USED,
    /** It is about to leave. */
    EVICTED
  }

  /**
   * Whether the block may be copied down now. Asked once for each occasion, of a block that is not
   * in this tier yet.
   *
   * @param fingerprint of its key
   * @param uses how often it was used since it was inserted in the tier above
   * @param isTierFull whether another block would have to leave this tier for it
   */
  boolean admits(Occasion occasion, long fingerprint, int uses, boolean isTierFull);

  /**
   * Whether it is to be asked on such an occasion at all. Where not, it would admit nothing then,
   * and remember nothing of it. Never changes.
   */
  default boolean listensTo(Occasion occasion) {
    return true;
  }

  /** All memory of the policy, in bytes: fixed at construction. */
  long metadataBytes();
}
