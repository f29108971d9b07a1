package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;

/** What the policies over {@link BlockChains} have in common. */
abstract class ChainedPolicy implements EvictionPolicy {
  final BlockChains chains;
  private final int chainCount;

  ChainedPolicy(int blocksMax, int chainCount) {
    this.chains = new BlockChains(blocksMax, chainCount);
    this.chainCount = chainCount;
  }

  /** The first block of a list, from its oldest end, that the filter accepts. */
  final int firstAccepted(int chain, VictimFilter filter, int looksMax) {
    int block = chains.oldest(chain);
    for (int looks = 0; block != NONE && looks < looksMax; looks++) {
      if (filter.accepts(block)) {
        return block;
      }
      block = chains.newer(block);
    }
    return NONE;
  }

  @Override
  public int size() {
    return chains.size();
  }

  @Override
  public void forEach(BlockVisitor visitor) {
    for (int chain = 0; chain < chainCount; chain++) {
      chains.forEach(chain, visitor);
    }
  }

  @Override
  public long metadataBytes() {
    return chains.bytes();
  }

  @Override
  public void checkInvariants() {
    chains.checkInvariants();
  }
}
