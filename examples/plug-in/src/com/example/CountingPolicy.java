package com.example;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;
import io.kvtier.policies.WhatIf;
import java.util.List;

/**
 * Counts what happens to the blocks of a tier, and leaves the order to the policy that it wraps:
 * {@code counting:hot=3/lineage/lru}. A line in the log tells the counts now and then.
 */
public final class CountingPolicy implements EvictionPolicy {
  private static final System.Logger LOG = System.getLogger("com.example.CountingPolicy");

  /** Makes the policy. */
  public static final class Provider implements EvictionPolicyProvider {
    @Override
    public String name() {
      return "counting";
    }

    @Override
    public EvictionPolicy create(PolicySetup setup) {
      return new CountingPolicy(
          setup.inner("lineage/lru"),
          setup.blocksMax(),
          setup.count("hot", 2, 1, 100),
          setup.count("every", 100_000, 1, 1_000_000_000));
    }
  }

  private final EvictionPolicy inner;
  private final int hotUses;
  private final int every;
  private final byte[] uses;
  private long puts;
  private long evictions;
  private long hot;

  private CountingPolicy(EvictionPolicy inner, int blocksMax, int hotUses, int every) {
    this.inner = inner;
    this.hotUses = hotUses;
    this.every = every;
    uses = new byte[blocksMax];
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    inner.onInsert(block, bytes, fingerprint, depth, parent);
    uses[block] = 0;
    if (++puts % every == 0) {
      LOG.log(
          System.Logger.Level.INFO,
          "counting: " + puts + " put, " + hot + " hot, " + evictions + " evicted");
    }
  }

  @Override
  public void onHit(int block) {
    inner.onHit(block);
    if (uses[block] < hotUses && ++uses[block] == hotUses) {
      hot++;
    }
  }

  @Override
  public void onRemove(int block, Removal why) {
    inner.onRemove(block, why);
    evictions += why == Removal.EVICTED ? 1 : 0;
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    return inner.victim(filter, looksMax);
  }

  @Override
  public void onHandedOver() {
    inner.onHandedOver();
  }

  @Override
  public void onParentMissing(int block) {
    inner.onParentMissing(block);
  }

  @Override
  public void onPassed(int block) {
    inner.onPassed(block);
  }

  @Override
  public int size() {
    return inner.size();
  }

  @Override
  public void forEach(BlockVisitor visitor) {
    inner.forEach(visitor);
  }

  @Override
  public List<WhatIf> whatIf() {
    return inner.whatIf();
  }

  @Override
  public long metadataBytes() {
    return inner.metadataBytes() + uses.length;
  }

  @Override
  public void checkInvariants() {
    inner.checkInvariants();
  }
}
