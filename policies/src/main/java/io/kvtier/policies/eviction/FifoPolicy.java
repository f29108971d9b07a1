package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;

/** First in, first out. Eight bytes a block; a hit costs nothing. */
public final class FifoPolicy extends QueuePolicy {
  /** Makes it by name. */
  public static final class Provider implements EvictionPolicyProvider {
    @Override
    public String name() {
      return "fifo";
    }

    @Override
    public EvictionPolicy create(PolicySetup setup) {
      return new FifoPolicy(setup.blocksMax());
    }
  }

  /**
   * An empty queue.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   */
  public FifoPolicy(int blocksMax) {
    super(blocksMax);
  }

  @Override
  public void onHit(int block) {
    chains.requireTracked(block);
  }
}
