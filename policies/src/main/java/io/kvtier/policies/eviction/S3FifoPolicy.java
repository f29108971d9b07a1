package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;

/**
 * S3-FIFO: a small queue that new blocks must survive, a main queue for those that were used more
 * than once there, and ghosts of those that were not: who comes back while its ghost is there goes
 * to the main queue at once. Each block counts its uses up to three; the main queue gives a used
 * block another round for one of them. Seventeen bytes a block, thirty-two and a half a ghost.
 *
 * <p>Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, Algorithm 1. The
 * sizes are shares of what is resident when a victim is asked for, so that they follow a tier that
 * is given more or less memory. Where a promotion overfills the main queue, its victim is the one
 * that is answered: the algorithm as printed would evict a second block for the same need.
 */
public final class S3FifoPolicy extends ChainedPolicy {
  /** Makes it by name. Options: small, ghost (shares), promote (uses), as in the constructor. */
  public static final class Provider implements EvictionPolicyProvider {
    @Override
    public String name() {
      return "s3fifo";
    }

    @Override
    public EvictionPolicy create(PolicySetup setup) {
      return new S3FifoPolicy(
          setup.blocksMax(),
          setup.capacityBlocks(),
          setup.number("small", 0.1, 0.001, 0.9),
          setup.number("ghost", 1, 0, 4),
          setup.count("promote", 2, 1, 3));
    }
  }

  private static final int SMALL = 0;
  private static final int MAIN = 1;
  private static final int USES_MAX = 3;
  private static final int IN_MAIN = 4;

  private final double smallShare;
  private final double ghostShare;
  private final int promoteUses;
  private final long[] fingerprints;

  /** Uses in the low two bits, then {@link #IN_MAIN}. */
  private final byte[] states;

  private final AgedGhosts ghosts;

  /**
   * Empty queues.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   * @param capacityBlocks the most blocks that will be resident at once
   * @param smallShare the small queue's share of what is resident
   * @param ghostShare how many ghosts there are for each place in the main queue
   * @param promoteUses how many uses take a block from the small queue to the main one
   */
  public S3FifoPolicy(
      int blocksMax, int capacityBlocks, double smallShare, double ghostShare, int promoteUses) {
    super(blocksMax, 2);
    this.smallShare = smallShare;
    this.ghostShare = ghostShare;
    this.promoteUses = promoteUses;
    fingerprints = new long[blocksMax];
    states = new byte[blocksMax];
    ghosts = new AgedGhosts(ghostsFor(capacityBlocks));
  }

  private int smallFor(int resident) {
    return Math.max(1, (int) (smallShare * resident));
  }

  private int ghostsFor(int resident) {
    return (int) (ghostShare * (resident - smallFor(resident)));
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    chains.requireUntracked(block);
    fingerprints[block] = fingerprint;
    if (ghosts.remove(fingerprint)) {
      chains.append(MAIN, block);
      states[block] = IN_MAIN;
    } else {
      chains.append(SMALL, block);
      states[block] = 0;
    }
  }

  @Override
  public void onHit(int block) {
    chains.requireTracked(block);
    if ((states[block] & USES_MAX) < USES_MAX) {
      states[block]++;
    }
  }

  @Override
  public void onRemove(int block, Removal why) {
    chains.requireTracked(block);
    if ((states[block] & IN_MAIN) != 0) {
      chains.remove(MAIN, block);
      return;
    }
    if (why == Removal.EVICTED) {
      ghosts.add(fingerprints[block], ghostsFor(size()));
    }
    chains.remove(SMALL, block);
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    int small = smallFor(size());
    if (chains.size(SMALL) < small) {
      int victim = victimOfMain(filter, looksMax);
      return victim == NONE ? firstAccepted(SMALL, filter, looksMax) : victim;
    }
    int looks = 0;
    int block = chains.oldest(SMALL);
    while (block != NONE) {
      int next = chains.newer(block);
      if (!filter.accepts(block)) {
        if (++looks >= looksMax) {
          return NONE;
        }
      } else if (states[block] < promoteUses) {
        return block;
      } else {
        chains.move(SMALL, MAIN, block);
        states[block] = IN_MAIN;
        if (chains.size(MAIN) > size() - small) {
          // Never none: the block that was just promoted is accepted.
          return victimOfMain(filter, Integer.MAX_VALUE);
        }
      }
      block = next;
    }
    return victimOfMain(filter, looksMax - looks);
  }

  private int victimOfMain(VictimFilter filter, int looksMax) {
    int looks = 0;
    int block = chains.oldest(MAIN);
    while (block != NONE) {
      int next = chains.newer(block);
      if (!filter.accepts(block)) {
        if (++looks >= looksMax) {
          return NONE;
        }
      } else if (states[block] == IN_MAIN) {
        return block;
      } else {
        states[block]--;
        chains.move(MAIN, MAIN, block);
        if (next == NONE) {
          next = block;
        }
      }
      block = next;
    }
    return NONE;
  }

  @Override
  public long metadataBytes() {
    return super.metadataBytes() + 9L * states.length + ghosts.bytes();
  }

  @Override
  public void checkInvariants() {
    super.checkInvariants();
    ghosts.checkInvariants();
    for (int chain = SMALL; chain <= MAIN; chain++) {
      for (int b = chains.oldest(chain); b != NONE; b = chains.newer(b)) {
        if ((states[b] & IN_MAIN) != 0 != (chain == MAIN)) {
          throw new IllegalStateException("block " + b + " is in the wrong queue");
        }
      }
    }
  }
}
