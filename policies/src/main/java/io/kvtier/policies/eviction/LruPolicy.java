package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;

/** Least recently used first. Eight bytes a block. */
public final class LruPolicy extends ChainedPolicy {
  /** Makes it by name. */
  public static final class Provider implements EvictionPolicyProvider {
    @Override
    public String name() {
      return "lru";
    }

    @Override
    public EvictionPolicy create(PolicySetup setup) {
      return new LruPolicy(setup.blocksMax());
    }
  }

  /**
   * An empty list.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   */
  public LruPolicy(int blocksMax) {
    super(blocksMax, 1);
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    chains.requireUntracked(block);
    chains.append(0, block);
  }

  @Override
  public void onHit(int block) {
    chains.requireTracked(block);
    chains.move(0, 0, block);
  }

  @Override
  public void onRemove(int block, Removal why) {
    chains.requireTracked(block);
    chains.remove(0, block);
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    return firstAccepted(0, filter, looksMax);
  }
}
