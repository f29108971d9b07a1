package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;

/** Least recently used first. Eight bytes a block. */
public final class LruPolicy extends QueuePolicy {
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
    super(blocksMax);
  }

  @Override
  public void onHit(int block) {
    chains.requireTracked(block);
    chains.move(QUEUE, QUEUE, block);
  }

  @Override
  public void onPassed(int block) {
    onHit(block);
  }
}
