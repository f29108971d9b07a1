package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.FrequencySketch;
import io.kvtier.policies.PolicySetup;

/**
 * W-TinyLFU: a small window, least recently used first, and a segmented main space behind it. What
 * falls out of the window stays only where it was used more often of late than the block that would
 * leave the main space for it. Seventeen bytes a block, eight to sixteen for the sketch of
 * frequencies.
 *
 * <p>Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM ToS
 * 2017, section 4. A block that fell out of the window is judged when the next victim is asked for.
 */
public final class TinyLfuPolicy extends ChainedPolicy {
  /** Makes it by name. Options: window, protected (shares), as in the constructor. */
  public static final class Provider implements EvictionPolicyProvider {
    @Override
    public String name() {
      return "tinylfu";
    }

    @Override
    public EvictionPolicy create(PolicySetup setup) {
      return new TinyLfuPolicy(
          setup.blocksMax(),
          setup.capacityBlocks(),
          setup.number("window", 0.01, 0, 1),
          setup.number("protected", 0.8, 0, 1));
    }
  }

  private static final int WINDOW = 0;
  private static final int PROBATION = 1;
  private static final int PROTECTED = 2;

  private final double windowShare;
  private final double protectedShare;
  private final long[] fingerprints;
  private final byte[] segments;
  private final FrequencySketch sketch;

  /** The last block that fell out of the window, until it is judged or used. */
  private int candidate = NONE;

  /**
   * Empty segments.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   * @param capacityBlocks the most blocks that will be resident at once
   * @param windowShare the window's share of what is resident
   * @param protectedShare the protected segment's share of the rest
   */
  public TinyLfuPolicy(
      int blocksMax, int capacityBlocks, double windowShare, double protectedShare) {
    super(blocksMax, 3);
    this.windowShare = windowShare;
    this.protectedShare = protectedShare;
    fingerprints = new long[blocksMax];
    segments = new byte[blocksMax];
    sketch = new FrequencySketch(capacityBlocks);
  }

  private int windowFor(int resident) {
    return Math.max(1, (int) (windowShare * resident));
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    chains.requireUntracked(block);
    sketch.add(fingerprint);
    fingerprints[block] = fingerprint;
    segments[block] = WINDOW;
    chains.append(WINDOW, block);
    while (chains.size(WINDOW) > windowFor(size())) {
      candidate = chains.oldest(WINDOW);
      move(candidate, PROBATION);
    }
  }

  private void move(int block, int segment) {
    chains.move(segments[block], segment, block);
    segments[block] = (byte) segment;
  }

  @Override
  public void onHit(int block) {
    chains.requireTracked(block);
    sketch.add(fingerprints[block]);
    if (segments[block] == WINDOW) {
      move(block, WINDOW);
      return;
    }
    if (block == candidate) {
      candidate = NONE;
    }
    move(block, PROTECTED);
    if (chains.size(PROTECTED) > (int) (protectedShare * (size() - windowFor(size())))) {
      move(chains.oldest(PROTECTED), PROBATION);
    }
  }

  @Override
  public void onPassed(int block) {
    chains.requireTracked(block);
    move(block, segments[block]);
  }

  @Override
  public void onRemove(int block, Removal why) {
    chains.requireTracked(block);
    chains.remove(segments[block], block);
    if (block == candidate || why == Removal.EVICTED) {
      candidate = NONE;
    }
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    int looks = looksMax;
    for (int segment : SEARCHED) {
      int victim = firstAccepted(segment, filter, looks);
      if (victim != NONE) {
        return segment == PROBATION ? judge(victim, filter) : victim;
      }
      looks -= chains.size(segment);
      if (looks <= 0) {
        return NONE;
      }
    }
    return NONE;
  }

  private static final int[] SEARCHED = {PROBATION, PROTECTED, WINDOW};

  /** The one of the two that was used less often of late; where both were the same, the new one. */
  private int judge(int victim, VictimFilter filter) {
    boolean isJudged = candidate != NONE && candidate != victim && filter.accepts(candidate);
    return isJudged && sketch.count(fingerprints[candidate]) <= sketch.count(fingerprints[victim])
        ? candidate
        : victim;
  }

  @Override
  public void forEach(BlockVisitor visitor) {
    for (int segment : SEARCHED) {
      chains.forEach(segment, visitor);
    }
  }

  @Override
  public long metadataBytes() {
    return super.metadataBytes() + 9L * segments.length + sketch.bytes();
  }

  @Override
  public void checkInvariants() {
    super.checkInvariants();
    if (candidate != NONE && segments[candidate] != PROBATION) {
      throw new IllegalStateException("candidate " + candidate + " is not on probation");
    }
  }
}
