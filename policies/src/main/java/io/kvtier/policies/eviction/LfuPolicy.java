package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;

/**
 * Least frequently used first, where a use counts less the longer ago it was: half as much after
 * each half-life. Blocks of about the same worth leave in the order of their last uses. Sixteen
 * bytes a block.
 *
 * <p>A block's worth is the sum over its uses of 2^(time of use / half-life). All worths decay
 * alike, so their order changes only with a use, and only the used block moves. The logarithm of
 * the worth is kept, and blocks are listed by its quarters; those worth less than a use twelve
 * half-lives ago are listed together.
 */
public final class LfuPolicy extends ChainedPolicy {
  /** Makes it by name. Option: halflife (in uses for each resident block). */
  public static final class Provider implements EvictionPolicyProvider {
    @Override
    public String name() {
      return "lfu";
    }

    @Override
    public EvictionPolicy create(PolicySetup setup) {
      return new LfuPolicy(setup.blocksMax(), setup.number("halflife", 2, 0.001, 1e6));
    }
  }

  private static final int LISTS = 128;
  private static final int LISTS_PER_DOUBLING = 4;
  private static final int LISTS_OF_THE_PAST = 12 * LISTS_PER_DOUBLING;

  /** No block is worth more than a million uses now. */
  private static final int DOUBLINGS_MAX = 19;

  private final double halfLifeUses;

  /** The base-2 logarithm of each block's worth. */
  private final double[] worths;

  /** The time, in half-lives. */
  private double now = LISTS_OF_THE_PAST;

  /** The lowest list that is in use; list {@code n} is chain {@code n % LISTS}. */
  private long lowest;

  /**
   * Empty lists.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   * @param halfLifeUses how many uses for each resident block make a half-life
   */
  public LfuPolicy(int blocksMax, double halfLifeUses) {
    super(blocksMax, LISTS);
    this.halfLifeUses = halfLifeUses;
    worths = new double[blocksMax];
    lowest = listAt(now) - LISTS_OF_THE_PAST;
  }

  private static long listAt(double worth) {
    return (long) Math.floor(worth * LISTS_PER_DOUBLING);
  }

  private int chainOf(int block) {
    return (int) (Math.max(lowest, listAt(worths[block])) % LISTS);
  }

  /** Time passes with every use; a list that is too long ago joins the next. */
  private void tick() {
    now += 1 / (halfLifeUses * Math.max(1, size()));
    while (lowest < listAt(now) - LISTS_OF_THE_PAST) {
      chains.prepend((int) (lowest % LISTS), (int) ((lowest + 1) % LISTS));
      lowest++;
    }
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    chains.requireUntracked(block);
    tick();
    worths[block] = now;
    chains.append(chainOf(block), block);
  }

  @Override
  public void onHit(int block) {
    chains.requireTracked(block);
    int chain = chainOf(block);
    chains.remove(chain, block);
    tick();
    double before = Math.exp((worths[block] - now) * Math.log(2));
    worths[block] = now + Math.min(DOUBLINGS_MAX, Math.log1p(before) / Math.log(2));
    chains.append(chainOf(block), block);
  }

  @Override
  public void onPassed(int block) {
    chains.requireTracked(block);
    int chain = chainOf(block);
    chains.move(chain, chain, block);
  }

  @Override
  public void onRemove(int block, Removal why) {
    chains.requireTracked(block);
    chains.remove(chainOf(block), block);
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    int looks = looksMax;
    for (int i = 0; i < LISTS; i++) {
      int chain = (int) ((lowest + i) % LISTS);
      if (chains.size(chain) > 0) {
        int victim = firstAccepted(chain, filter, looks);
        looks -= chains.size(chain);
        if (victim != NONE || looks <= 0) {
          return victim;
        }
      }
    }
    return NONE;
  }

  @Override
  public void forEach(BlockVisitor visitor) {
    for (int i = 0; i < LISTS; i++) {
      chains.forEach((int) ((lowest + i) % LISTS), visitor);
    }
  }

  @Override
  public long metadataBytes() {
    return super.metadataBytes() + 8L * worths.length;
  }

  @Override
  public void checkInvariants() {
    super.checkInvariants();
    for (int chain = 0; chain < LISTS; chain++) {
      for (int block = chains.oldest(chain); block != NONE; block = chains.newer(block)) {
        if (chainOf(block) != chain) {
          throw new IllegalStateException("block " + block + " is in the wrong list");
        }
      }
    }
  }
}
