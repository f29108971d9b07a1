package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;

/**
 * SIEVE: one queue in order of insertion and a hand that walks it from the oldest end to the newest
 * and round again. A hit marks a block; the hand clears the marks that it passes and takes the
 * first block without one. Nine bytes a block.
 *
 * <p>Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024, Algorithm 1.
 */
public final class SievePolicy extends ChainedPolicy {
  /** Makes it by name. */
  public static final class Provider implements EvictionPolicyProvider {
    @Override
    public String name() {
      return "sieve";
    }

    @Override
    public EvictionPolicy create(PolicySetup setup) {
      return new SievePolicy(setup.blocksMax());
    }
  }

  private final boolean[] visited;

  /** Where the next search begins; {@link #NONE} for the oldest end. */
  private int hand = NONE;

  /**
   * An empty queue.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   */
  public SievePolicy(int blocksMax) {
    super(blocksMax, 1);
    visited = new boolean[blocksMax];
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    chains.requireUntracked(block);
    chains.append(0, block);
    visited[block] = false;
  }

  @Override
  public void onHit(int block) {
    chains.requireTracked(block);
    visited[block] = true;
  }

  @Override
  public void onRemove(int block, Removal why) {
    chains.requireTracked(block);
    if (hand == block) {
      hand = chains.newer(block);
    }
    chains.remove(0, block);
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    int block = hand;
    int refusals = 0;
    // Once round clears the marks, so a second round finds what there is to be found.
    for (long steps = 2L * size(); steps > 0; steps--) {
      if (block == NONE) {
        block = chains.oldest(0);
      }
      if (!filter.accepts(block)) {
        if (++refusals >= looksMax) {
          return NONE;
        }
      } else if (visited[block]) {
        visited[block] = false;
      } else {
        hand = block;
        return block;
      }
      block = chains.newer(block);
    }
    return NONE;
  }

  @Override
  public void forEach(BlockVisitor visitor) {
    if (hand == NONE) {
      chains.forEach(0, visitor);
      return;
    }
    for (int block = hand; block != NONE; ) {
      int next = chains.newer(block);
      visitor.visit(block);
      block = next;
    }
    for (int block = chains.oldest(0); block != hand; ) {
      int next = chains.newer(block);
      visitor.visit(block);
      block = next;
    }
  }

  @Override
  public long metadataBytes() {
    return super.metadataBytes() + visited.length;
  }
}
