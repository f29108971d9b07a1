package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.LongQueue;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.policies.AdmissionPolicies;
import io.kvtier.policies.AdmissionPolicy;
import io.kvtier.policies.AdmissionPolicy.Occasion;

/**
 * When blocks of the first tier are copied to a lower tier. The admission policy decides when a
 * block is inserted, when it is used, and when it is evicted. Blocks that are admitted before their
 * eviction are written as soon as the pipeline has room.
 */
public final class Ingestion {
  /** The lower tier. */
  interface Target {
    /** Whether the tier is configured. */
    boolean isConfigured();

    /** The most blocks that the tier holds. */
    int blocksMax();

    /** Whether a block could be in the tier, and is not. */
    boolean lacks(int block);

    /** Whether another block would have to be evicted for a block. */
    boolean isFull(int block);

    /** Begins to copy a block of the first tier; false when that can't be started now. */
    boolean start(int block);

    /** Whether a copy that could not be started may be started soon. */
    boolean mayStartSoon();
  }

  private static final int BACKLOG_MAX = 1 << 16;

  private final Target target;
  private final Directory directory;
  private final ResidentTier first;
  private final LongQueue backlog = new LongQueue(BACKLOG_MAX);
  private AdmissionPolicy admission;
  private String admissionName;
  private boolean hearsInsertions;
  private boolean hearsUses;

  Ingestion(Target target, Directory directory, ResidentTier first, String admissionName) {
    this.target = target;
    this.directory = directory;
    this.first = first;
    this.admissionName = admissionName;
    admission = newAdmission(admissionName);
    listen();
  }

  private AdmissionPolicy newAdmission(String name) {
    return AdmissionPolicies.create(name, target.blocksMax());
  }

  private void listen() {
    hearsInsertions = target.isConfigured() && admission.listensTo(Occasion.INSERTED);
    hearsUses = target.isConfigured() && admission.listensTo(Occasion.USED);
  }

  /** The tier that blocks are copied to. */
  Target target() {
    return target;
  }

  public String admissionName() {
    return admissionName;
  }

  long policyBytes() {
    return admission.metadataBytes();
  }

  /**
   * Replaces the admission policy by a new one, which has seen nothing yet.
   *
   * @throws IllegalArgumentException when there is no such policy
   */
  public void swapAdmission(String name) {
    admission = newAdmission(name);
    admissionName = name;
    listen();
  }

  /** A block came into the first tier. */
  void inserted(int block) {
    if (hearsInsertions) {
      consider(block, Occasion.INSERTED, 0);
    }
  }

  /** A block in the first tier was used; {@code hits} counts its uses. */
  void used(int block, int hits) {
    if (hearsUses) {
      consider(block, Occasion.USED, hits);
    }
  }

  /** Writes a block soon, whether or not the admission policy would. */
  void take(int block) {
    if (target.isConfigured() && first.isResident(block) && target.lacks(block)) {
      // A block that finds no place in the backlog stays in the first tier until it is evicted.
      boolean ignored = backlog.offer(block);
    }
  }

  private void consider(int block, Occasion occasion, int hits) {
    if (target.lacks(block)
        && admission.admits(occasion, directory.fingerprint(block), hits, target.isFull(block))) {
      // A block that finds no place in the backlog is considered again at its next use, or at its
      // eviction.
      boolean ignored = backlog.offer(block);
    }
  }

  /** Whether a block that is evicted from the tiers above goes to the target. */
  boolean admitsEvicted(int block) {
    return admission.admits(
        Occasion.EVICTED,
        directory.fingerprint(block),
        directory.hits(block),
        target.isFull(block));
  }

  /** Writes the blocks that were admitted early, as far as the pipeline takes them. */
  void advance() {
    while (backlog.size() > 0) {
      int block = (int) backlog.peek();
      // The block may have gone, and its number may be another block's, which is then written for
      // nothing.
      if (directory.isUsed(block)
          && first.isResident(block)
          && target.lacks(block)
          && !target.start(block)
          && target.mayStartSoon()) {
        return;
      }
      var _ = backlog.poll();
    }
  }

  int waiting() {
    return backlog.size();
  }
}
