package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;

/**
 * ARC: blocks that were used once and blocks that were used more often, each least recently used
 * first, and the ghosts of both. A ghost that comes back moves the border between the two lists in
 * favour of the one that it had left. Seventeen bytes a block, twenty-five to thirty-three a ghost,
 * as many ghosts as blocks.
 *
 * <p>Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003, Figure 4.
 * There the border moves before the eviction that a miss makes necessary; here the room is made
 * before the policy hears whose it is, so the border moves right after.
 */
public final class ArcPolicy extends ChainedPolicy {
  /** Makes it by name. */
  public static final class Provider implements EvictionPolicyProvider {
    @Override
    public String name() {
      return "arc";
    }

    @Override
    public EvictionPolicy create(PolicySetup setup) {
      return new ArcPolicy(setup.blocksMax(), setup.capacityBlocks());
    }
  }

  /** The paper's T1 and B1. */
  private static final int ONCE = 0;

  /** The paper's T2 and B2. */
  private static final int OFTEN = 1;

  private final long[] fingerprints;
  private final byte[] lists;
  private final Ghosts ghosts;

  /** The paper's p: how long the list of blocks used once may be. */
  private double onceTarget;

  /**
   * Empty lists.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   * @param capacityBlocks the most blocks that will be resident at once
   */
  public ArcPolicy(int blocksMax, int capacityBlocks) {
    super(blocksMax, 2);
    fingerprints = new long[blocksMax];
    lists = new byte[blocksMax];
    ghosts = new Ghosts(capacityBlocks, 2);
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    chains.requireUntracked(block);
    int ghost = ghosts.queueOf(fingerprint);
    int list = ghost == Ghosts.NONE ? ONCE : OFTEN;
    if (ghost != Ghosts.NONE) {
      double once = ghosts.size(ONCE);
      double often = ghosts.size(OFTEN);
      onceTarget =
          ghost == ONCE
              ? Math.min(size() + 1.0, onceTarget + Math.max(1, often / once))
              : Math.max(0, onceTarget - Math.max(1, once / often));
      ghosts.remove(fingerprint);
    }
    fingerprints[block] = fingerprint;
    lists[block] = (byte) list;
    chains.append(list, block);
  }

  @Override
  public void onHit(int block) {
    chains.requireTracked(block);
    chains.move(lists[block], OFTEN, block);
    lists[block] = OFTEN;
  }

  @Override
  public void onPassed(int block) {
    chains.requireTracked(block);
    chains.move(lists[block], lists[block], block);
  }

  @Override
  public void onRemove(int block, Removal why) {
    chains.requireTracked(block);
    int resident = size();
    int list = lists[block];
    chains.remove(list, block);
    if (why == Removal.EVICTED) {
      ghosts.add(list, fingerprints[block]);
      // With the block that room was made for, a list and its ghosts are no longer than the cache.
      ghosts.trim(ONCE, resident - chains.size(ONCE) - 1);
      ghosts.trim(OFTEN, resident - ghosts.size(ONCE));
    }
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    int first = chains.size(ONCE) > onceTarget ? ONCE : OFTEN;
    int victim = firstAccepted(first, filter, looksMax);
    int looked = chains.size(first);
    return victim != NONE || looked >= looksMax
        ? victim
        : firstAccepted(1 - first, filter, looksMax - looked);
  }

  @Override
  public long metadataBytes() {
    return super.metadataBytes() + 9L * lists.length + ghosts.bytes();
  }

  @Override
  public void checkInvariants() {
    super.checkInvariants();
    ghosts.checkInvariants();
  }
}
