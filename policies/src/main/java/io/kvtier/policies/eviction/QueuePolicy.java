package io.kvtier.policies.eviction;

/** One list of blocks: what comes joins its newest end, and what leaves is nearest its oldest. */
abstract class QueuePolicy extends ChainedPolicy {
  static final int QUEUE = 0;

  QueuePolicy(int blocksMax) {
    super(blocksMax, 1);
  }

  @Override
  public final void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    chains.requireUntracked(block);
    chains.append(QUEUE, block);
  }

  @Override
  public final void onRemove(int block, Removal why) {
    chains.requireTracked(block);
    chains.remove(QUEUE, block);
  }

  @Override
  public final int victim(VictimFilter filter, int looksMax) {
    return firstAccepted(QUEUE, filter, looksMax);
  }
}
