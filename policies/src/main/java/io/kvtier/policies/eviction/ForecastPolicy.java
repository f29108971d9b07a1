package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;

/**
 * Learns how likely a block is to be used again, from how often it was used and how long ago, and
 * lets that block leave first from which the fewest hits can be expected for the time it takes up
 * its place. So it keeps young blocks through the pause before a conversation's next turn where
 * turns come after pauses, and gives room to none where they don't come at all.
 *
 * <p>Blocks are grouped by {@link ReuseForecast}'s classes of uses and steps of age. Within a group
 * the oldest request goes first, and of a request its tail. A request is told by its blocks'
 * following each other, in either direction; its last block, which often is not full and then never
 * comes again, is a class of its own. Ghosts remember the uses of the blocks that left, and show
 * what the forecast would have missed.
 *
 * <p>Thirty bytes a block, nineteen to twenty-nine a ghost.
 */
public final class ForecastPolicy extends ChainedPolicy {
  /** Makes it by name. Option: ghost (share), as in the constructor. */
  public static final class Provider implements EvictionPolicyProvider {
    @Override
    public String name() {
      return "forecast";
    }

    @Override
    public EvictionPolicy create(PolicySetup setup) {
      return new ForecastPolicy(
          setup.blocksMax(), setup.capacityBlocks(), setup.number("ghost", 4, 0, 64));
    }
  }

  private static final int CLASSES = ReuseForecast.CLASSES;
  private static final int AGES = ReuseForecast.AGES;
  private static final int CHAINS = CLASSES * AGES;
  private static final int USES_MAX = Byte.MAX_VALUE;

  /** How many blocks at most grow older with one call. */
  private static final int AGEINGS_MAX = 8;

  private final ReuseForecast forecast;
  private final UseGhosts ghosts;
  private final long[] fingerprints;
  private final long[] parents;

  /** The epoch of each block's last use. */
  private final int[] epochs;

  private final byte[] uses;
  private final byte[] chainOf;

  /** Where the search for blocks that grew older goes on. */
  private int ageing;

  // The request under way.
  private int requestBlocks;
  private int first = NONE;
  private int last = NONE;
  private long lastFingerprint;
  private long lastParent;
  private boolean towardHead;

  /**
   * A policy that knows nothing of its blocks' habits yet.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   * @param capacityBlocks the most blocks that will be resident at once
   * @param ghostShare how many ghosts there are for each of those
   */
  public ForecastPolicy(int blocksMax, int capacityBlocks, double ghostShare) {
    super(blocksMax, CHAINS);
    forecast = new ReuseForecast(capacityBlocks);
    ghosts = new UseGhosts((int) (ghostShare * capacityBlocks));
    fingerprints = new long[blocksMax];
    parents = new long[blocksMax];
    epochs = new int[blocksMax];
    uses = new byte[blocksMax];
    chainOf = new byte[blocksMax];
  }

  private int ageOf(int block) {
    return chainOf[block] % AGES;
  }

  private int classOf(int block) {
    return chainOf[block] / AGES;
  }

  private static int chain(int reuseClass, int age) {
    return reuseClass * AGES + age;
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    chains.requireUntracked(block);
    tick();
    fingerprints[block] = fingerprint;
    parents[block] = parent;
    boolean follows = follows(block);
    int before = 0;
    int ghost = ghosts.find(fingerprint);
    if (ghost != NONE) {
      forecast.onReuse(ghosts.reuseClass(ghost), ghosts.epoch(ghost));
      before = ghosts.uses(ghost);
      ghosts.remove(ghost);
    }
    use(block, before, follows);
  }

  @Override
  public void onHit(int block) {
    chains.requireTracked(block);
    tick();
    boolean follows = follows(block);
    forecast.onReuse(classOf(block), epochs[block]);
    chains.remove(chainOf[block], block);
    use(block, uses[block], follows);
  }

  /** Whether a block goes on with the request under way; where not, that one has ended. */
  private boolean follows(int block) {
    boolean isChild = parents[block] == lastFingerprint && parents[block] != NO_PARENT;
    boolean isParent = fingerprints[block] == lastParent && lastParent != NO_PARENT;
    if (requestBlocks > 0
        && (requestBlocks == 1 ? isChild || isParent : towardHead ? isParent : isChild)) {
      towardHead = isParent;
      return true;
    }
    int tail = towardHead ? first : last;
    if (tail != NONE && uses[tail] == 1) {
      forecast.reclass(classOf(tail), ReuseForecast.TAIL, epochs[tail]);
      int chain = chain(ReuseForecast.TAIL, ageOf(tail));
      chains.move(chainOf[tail], chain, tail);
      chainOf[tail] = (byte) chain;
    }
    requestBlocks = 0;
    towardHead = false;
    return false;
  }

  private void use(int block, int before, boolean follows) {
    uses[block] = (byte) Math.min(USES_MAX, before + 1);
    epochs[block] = forecast.epoch();
    int reuseClass = ReuseForecast.classOf(uses[block]);
    int chain = chain(reuseClass, 0);
    chainOf[block] = (byte) chain;
    // The tail of a request is to leave before its head.
    if (follows && !towardHead && last != NONE && last != block && chainOf[last] == chain) {
      chains.insertBefore(chain, block, last);
    } else {
      chains.append(chain, block);
    }
    forecast.watch(reuseClass);
    if (requestBlocks++ == 0) {
      first = block;
    }
    last = block;
    lastFingerprint = fingerprints[block];
    lastParent = parents[block];
  }

  /** Time passes; some blocks that have grown older change their group. */
  private void tick() {
    forecast.tick();
    for (int i = 0; i < AGEINGS_MAX; i++) {
      int block = chains.oldest(ageing);
      int age = block == NONE ? 0 : forecast.ageOf(epochs[block]);
      if (block != NONE && age > ageing % AGES) {
        int older = ageing - ageing % AGES + age;
        chains.move(ageing, older, block);
        chainOf[block] = (byte) older;
      } else {
        ageing = ageing == 0 ? CHAINS - 1 : ageing - 1;
      }
    }
  }

  @Override
  public void onRemove(int block, Removal why) {
    chains.requireTracked(block);
    if (why == Removal.EVICTED && ghosts.capacity() > 0) {
      int oldest = ghosts.oldest();
      if (oldest != NONE) {
        forecast.unwatch(ghosts.reuseClass(oldest), ghosts.epoch(oldest));
        ghosts.remove(oldest);
      }
      ghosts.add(fingerprints[block], classOf(block), uses[block], epochs[block]);
    } else {
      forecast.unwatch(classOf(block), epochs[block]);
    }
    chains.remove(chainOf[block], block);
    first = first == block ? NONE : first;
    last = last == block ? NONE : last;
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    int looks = looksMax;
    for (int rank = 0; rank < CHAINS && looks > 0; rank++) {
      int chain = forecast.leastWorth(rank);
      if (chains.size(chain) > 0) {
        int victim = firstAccepted(chain, filter, looks);
        if (victim != NONE) {
          return victim;
        }
        looks -= chains.size(chain);
      }
    }
    return NONE;
  }

  @Override
  public void forEach(BlockVisitor visitor) {
    for (int rank = 0; rank < CHAINS; rank++) {
      chains.forEach(forecast.leastWorth(rank), visitor);
    }
  }

  int ghosts() {
    return ghosts.size();
  }

  @Override
  public long metadataBytes() {
    return super.metadataBytes() + 22L * uses.length + forecast.bytes() + ghosts.bytes();
  }

  @Override
  public void checkInvariants() {
    super.checkInvariants();
    forecast.checkInvariants();
    ghosts.checkInvariants();
    for (int chain = 0; chain < CHAINS; chain++) {
      for (int block = chains.oldest(chain); block != NONE; block = chains.newer(block)) {
        if (chainOf[block] != chain) {
          throw new IllegalStateException("block " + block + " is in the wrong group");
        }
      }
    }
  }
}
