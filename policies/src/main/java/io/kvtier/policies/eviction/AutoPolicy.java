package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;
import io.kvtier.policies.WhatIf;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Follows the best of its members. Each member runs in a {@link ShadowCache} that sees a sample of
 * the sequences; where another than the one in charge had more prefix hits there of late, by a
 * margin and beyond chance, it takes over, and the blocks move to it a few with every operation,
 * those first that would have left first. Where the tier is so small that the shadows see all of
 * it, what leaves first is what the leading shadow does not hold: the tier becomes what it would be
 * had that member been in charge from the beginning, its memory of what is gone included. Shadows
 * of other sizes under the policy in charge tell what the tier would hit if it were smaller or
 * larger.
 *
 * <p>Twenty-one bytes a block beyond the policy in charge (and the one before it, until its blocks
 * have moved), {@link Surplus} in a small tier, and the shadows, whose size does not depend on the
 * tier's. A change of policy allocates; nothing else does.
 */
public final class AutoPolicy implements EvictionPolicy {
  /** Makes it by name. Options: as in the constructor; {@code wear} is worn by every member. */
  public static final class Provider implements EvictionPolicyProvider {
    @Override
    public String name() {
      return "auto";
    }

    @Override
    public EvictionPolicy create(PolicySetup setup) {
      String wear = setup.text("wear", "lineage");
      List<String> members = new ArrayList<>();
      for (String member : setup.text("members", "arc+lru+s3fifo+sieve+lfu").split("\\+", -1)) {
        members.add(wear.equals("none") ? member : wear + "/" + member);
      }
      return new AutoPolicy(
          setup.blocksMax(),
          setup.capacityBlocks(),
          members,
          setup.count("shadow", 65536, 16, 1 << 24),
          new Contest(
              setup.number("margin", 0.05, 0, 1),
              setup.number("memory", 0.996, 0, 1),
              setup.number("window", 0.05, 0.01, 10),
              setup.number("certainty", 2, 0, 10)));
    }
  }

  /**
   * When another member takes over.
   *
   * @param margin by how many hits, for each block of a shadow, a member must be ahead
   * @param memory the share of the past's score that is kept when a window's is added
   * @param window the references, for each block of a shadow, between two comparisons
   * @param certainty by how many standard errors a member must be ahead; requests are the sample
   */
  public record Contest(double margin, double memory, double window, double certainty) {}

  private static final VictimFilter ANY = block -> true;
  private static final double[] FACTORS = {0.5, 2, 10};
  private static final int MOVES_PER_OPERATION = 16;

  /** A figure to be shown needs a larger sample than a choice. */
  private static final int WHAT_IF_BLOCKS = 1 << 16;

  /** So many hits more are enough for any tier. */
  private static final int EVIDENCE_MAX = 256;

  private final int blocksMax;
  private final int capacityBlocks;
  private final int shadowBlocks;
  private final double margin;
  private final double memory;
  private final double window;
  private final double certainty;
  private final long[] fingerprints;
  private final long[] parents;
  private final int[] depths;
  private final boolean[] isLeftBehind;
  private final RequestAssembler assembler = new RequestAssembler(this::onRequest);
  private final ShadowCache[] members;
  private final double[] scores;
  private final long[] hitsBefore;

  /** What each member hit of the last request. */
  private final long[] requestHits;

  /** The squared differences of two members' hits of a request, summed, at i * members + j. */
  private final double[] squares;

  private final ShadowCache[] whatIfs = new ShadowCache[FACTORS.length];
  private long referencesBefore;
  private int inCharge;
  private EvictionPolicy current;

  /** Empty when all its blocks have moved. */
  private EvictionPolicy previous;

  /** What the tier holds and the leader's shadow does not; null where that sees a sample only. */
  private final @Nullable Surplus surplus;

  private int shadowedBlocks;
  private int switches;

  /**
   * A tier without blocks, under the first member.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   * @param capacityBlocks the most blocks that will be resident at once
   * @param members the specifications to choose from
   * @param shadowBlocks the size of a shadow
   */
  public AutoPolicy(
      int blocksMax, int capacityBlocks, List<String> members, int shadowBlocks, Contest contest) {
    this.blocksMax = blocksMax;
    this.capacityBlocks = capacityBlocks;
    this.shadowBlocks = shadowBlocks;
    this.margin = contest.margin;
    this.memory = contest.memory;
    this.window = contest.window;
    this.certainty = contest.certainty;
    fingerprints = new long[blocksMax];
    parents = new long[blocksMax];
    depths = new int[blocksMax];
    isLeftBehind = new boolean[blocksMax];
    this.members = new ShadowCache[members.size()];
    for (int i = 0; i < members.size(); i++) {
      this.members[i] = shadow(members.get(i), 1, shadowBlocks);
    }
    scores = new double[members.size()];
    hitsBefore = new long[members.size()];
    requestHits = new long[members.size()];
    squares = new double[members.size() * members.size()];
    current = EvictionPolicies.create(members.getFirst(), blocksMax, capacityBlocks);
    previous = new FifoPolicy(1);
    surplus = capacityBlocks <= shadowBlocks ? new Surplus(fingerprints) : null;
    if (surplus != null) {
      this.members[inCharge].tell(surplus);
    }
    for (int i = 0; i < FACTORS.length; i++) {
      whatIfs[i] = shadow(inCharge(), FACTORS[i], WHAT_IF_BLOCKS);
    }
    standFor(capacityBlocks);
  }

  private ShadowCache shadow(String specification, double factor, int blocksMax) {
    double blocks = Math.max(1, factor * capacityBlocks);
    return new ShadowCache(specification, (int) Math.min(blocksMax, blocks));
  }

  /** The shadows' samples follow the number of blocks that the tier really holds. */
  private void standFor(int blocks) {
    shadowedBlocks = blocks;
    for (ShadowCache member : members) {
      member.standFor(blocks);
    }
    for (int i = 0; i < FACTORS.length; i++) {
      whatIfs[i].standFor(FACTORS[i] * blocks);
    }
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    current.onInsert(block, bytes, fingerprint, depth, parent);
    fingerprints[block] = fingerprint;
    depths[block] = depth;
    parents[block] = parent;
    isLeftBehind[block] = false;
    if (surplus != null) {
      surplus.onInsert(block);
    }
    touched(block);
  }

  @Override
  public void onHandedOver() {
    assembler.flush();
    forgetCounts();
    Arrays.fill(scores, 0);
    Arrays.fill(squares, 0);
  }

  /** All shadows count from now on: figures of different times can't be held side by side. */
  private void forgetCounts() {
    for (ShadowCache member : members) {
      member.forgetCounts();
    }
    for (ShadowCache whatIf : whatIfs) {
      whatIf.forgetCounts();
    }
    referencesBefore = 0;
    Arrays.fill(hitsBefore, 0);
  }

  @Override
  public void onParentMissing(int block) {
    (isLeftBehind[block] ? previous : current).onParentMissing(block);
  }

  @Override
  public void onImportance(int block, int importance) {
    (isLeftBehind[block] ? previous : current).onImportance(block, importance);
  }

  @Override
  public void onHit(int block) {
    if (isLeftBehind[block]) {
      bringAlong(block);
    }
    current.onHit(block);
    touched(block);
  }

  @Override
  public void onPassed(int block) {
    (isLeftBehind[block] ? previous : current).onPassed(block);
    if (surplus != null) {
      surplus.onPassed(block);
    }
  }

  @Override
  public void onRemove(int block, Removal why) {
    (isLeftBehind[block] ? previous : current).onRemove(block, why);
    isLeftBehind[block] = false;
    if (surplus != null) {
      surplus.onRemove(block);
    }
  }

  private void touched(int block) {
    for (int i = 0; i < MOVES_PER_OPERATION && previous.size() > 0; i++) {
      bringAlong(previous.victim(ANY, 1));
    }
    assembler.touch(fingerprints[block], depths[block], parents[block]);
    if (surplus != null) {
      // The shadows hear of it at the end of its request.
      surplus.spare(block);
    }
  }

  private void bringAlong(int block) {
    previous.onRemove(block, Removal.DELETED);
    isLeftBehind[block] = false;
    current.onInsert(block, 1, fingerprints[block], depths[block], parents[block]);
  }

  private void onRequest(RequestAssembler request) {
    long sequence = request.isFragment() ? 0 : request.sequence();
    for (int i = 0; i < members.length; i++) {
      long before = members[i].prefixHits();
      members[i].offer(request, sequence);
      requestHits[i] = members[i].prefixHits() - before;
    }
    compareRequest();
    for (ShadowCache whatIf : whatIfs) {
      whatIf.offer(request, sequence);
    }
    if (members[0].references() - referencesBefore
        >= window * Math.min(shadowBlocks, shadowedBlocks)) {
      choose();
    }
  }

  private void compareRequest() {
    for (int i = 0; i < members.length; i++) {
      for (int j = 0; j < members.length; j++) {
        double apart = requestHits[i] - requestHits[j];
        squares[i * members.length + j] += apart * apart;
      }
    }
  }

  /** At the end of a window. */
  private void choose() {
    referencesBefore = members[0].references();
    int best = inCharge;
    for (int i = 0; i < members.length; i++) {
      scores[i] = memory * scores[i] + members[i].prefixHits() - hitsBefore[i];
      hitsBefore[i] = members[i].prefixHits();
      if (scores[i] > scores[best]) {
        best = i;
      }
    }
    double enough = Math.min(EVIDENCE_MAX, margin * Math.min(shadowBlocks, shadowedBlocks));
    double chance = Math.sqrt(squares[best * members.length + inCharge]);
    for (int i = 0; i < squares.length; i++) {
      // Not by its square, as of independent requests: those of one sequence are not.
      squares[i] *= memory;
    }
    double ahead = scores[best] - scores[inCharge];
    if (previous.size() == 0 && ahead > Math.max(enough, certainty * chance)) {
      handOver(best);
    }
  }

  private void handOver(int successor) {
    switches++;
    if (surplus != null) {
      members[inCharge].tellNobody();
      members[successor].tell(surplus);
      surplus.compare(members[successor], current);
    }
    inCharge = successor;
    previous = current;
    previous.forEach(block -> isLeftBehind[block] = true);
    current = EvictionPolicies.create(inCharge(), blocksMax, capacityBlocks);
    for (ShadowCache whatIf : whatIfs) {
      whatIf.swapPolicy(inCharge());
    }
    forgetCounts();
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    if (Math.abs(size() - shadowedBlocks) > shadowedBlocks / 16) {
      standFor(Math.max(1, size()));
    }
    int looks = looksMax;
    if (surplus != null) {
      int victim = surplus.victim(filter, looksMax);
      looks -= Math.min(looks, surplus.size());
      if (victim != NONE || looks == 0) {
        return victim;
      }
    }
    int victim = current.victim(filter, looks);
    return victim == NONE && previous.size() > 0 ? previous.victim(filter, looks) : victim;
  }

  /** The specification of the policy in charge. */
  public String inCharge() {
    return members[inCharge].specification();
  }

  /** How often another policy took over. */
  public int switches() {
    return switches;
  }

  /** What was hit by the members, and by tiers of other sizes under the policy in charge. */
  @Override
  public List<WhatIf> whatIf() {
    List<WhatIf> answers = new ArrayList<>();
    for (ShadowCache member : members) {
      answers.add(answer(member, 1));
    }
    for (int i = 0; i < FACTORS.length; i++) {
      answers.add(answer(whatIfs[i], FACTORS[i]));
    }
    return answers;
  }

  private static WhatIf answer(ShadowCache shadow, double factor) {
    return new WhatIf(
        shadow.specification(),
        factor,
        shadow.offered(),
        shadow.references(),
        shadow.blockHits(),
        shadow.prefixHits());
  }

  @Override
  public int size() {
    return current.size() + previous.size();
  }

  @Override
  public void forEach(BlockVisitor visitor) {
    if (surplus == null) {
      previous.forEach(visitor);
      current.forEach(visitor);
      return;
    }
    Surplus first = surplus;
    first.forEach(visitor);
    BlockVisitor others =
        block -> {
          if (!first.has(block)) {
            visitor.visit(block);
          }
        };
    previous.forEach(others);
    current.forEach(others);
  }

  @Override
  public long metadataBytes() {
    long bytes = current.metadataBytes() + previous.metadataBytes() + assembler.bytes();
    if (surplus != null) {
      bytes += surplus.bytes();
    }
    for (ShadowCache member : members) {
      bytes += member.bytes();
    }
    for (ShadowCache whatIf : whatIfs) {
      bytes += whatIf.bytes();
    }
    return bytes + 21L * blocksMax + 8L * squares.length;
  }

  @Override
  public void checkInvariants() {
    current.checkInvariants();
    previous.checkInvariants();
    if (surplus != null) {
      surplus.checkInvariants(members[inCharge]);
    }
  }
}
