package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.PolicyListener;
import io.kvtier.policies.WhatIf;
import java.util.List;

/** Tells a listener of puts, evictions and hot blocks, and counts each block's uses up to 255. */
public final class ListenedPolicy implements EvictionPolicy {
  private static final int USES_MAX = 255;

  private final EvictionPolicy inner;
  private final int hotUses;
  private final PolicyListener listener;
  private final byte[] uses;

  /**
   * A wrapper around a policy that tracks nothing yet.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   * @param hotUses after how many uses a block is hot, 1 to 255
   */
  public ListenedPolicy(EvictionPolicy inner, int blocksMax, int hotUses, PolicyListener listener) {
    if (hotUses < 1 || hotUses > USES_MAX) {
      throw new IllegalArgumentException("hot after " + hotUses + " uses; 1 to 255 can be told");
    }
    this.inner = inner;
    this.hotUses = hotUses;
    this.listener = listener;
    uses = new byte[blocksMax];
  }

  /** How often a resident block was used since its insertion, up to 255. */
  public int uses(int block) {
    return Byte.toUnsignedInt(uses[block]);
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    inner.onInsert(block, bytes, fingerprint, depth, parent);
    uses[block] = 0;
    listener.onPut(block);
  }

  @Override
  public void onParentMissing(int block) {
    inner.onParentMissing(block);
  }

  @Override
  public void onHit(int block) {
    inner.onHit(block);
    if (uses(block) < USES_MAX && ++uses[block] == (byte) hotUses) {
      listener.onHot(block);
    }
  }

  @Override
  public void onPassed(int block) {
    inner.onPassed(block);
  }

  @Override
  public void onRemove(int block, Removal why) {
    inner.onRemove(block, why);
    if (why == Removal.EVICTED) {
      listener.onEvict(block);
    }
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    return inner.victim(filter, looksMax);
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
  public void onHandedOver() {
    inner.onHandedOver();
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
