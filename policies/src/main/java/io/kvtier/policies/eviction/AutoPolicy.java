package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;
import io.kvtier.policies.WhatIf;
import java.util.ArrayList;
import java.util.List;

/**
 * Follows the best of its members. Each member runs in a {@link ShadowCache} that sees a sample of
 * the sequences; where another than the one in charge had more prefix hits there of late, by a
 * margin, it takes over, and the blocks move to it a few with every operation, those first that
 * would have left first. Shadows of other sizes under the policy in charge tell what the tier would
 * hit if it were smaller or larger.
 *
 * <p>Twenty-one bytes a block beyond the policy in charge (and the one before it, until its blocks
 * have moved), and the shadows, whose size does not depend on the tier's. A change of policy
 * allocates; nothing else does.
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
          setup.count("shadow", 8192, 16, 1 << 24),
          setup.number("margin", 0.05, 0, 1),
          setup.number("memory", 0.98, 0, 1),
          setup.number("window", 0.25, 0.01, 10));
    }
  }

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
  private final long[] fingerprints;
  private final long[] parents;
  private final int[] depths;
  private final boolean[] isLeftBehind;
  private final RequestAssembler assembler = new RequestAssembler(this::onRequest);
  private final ShadowCache[] members;
  private final double[] scores;
  private final long[] hitsBefore;
  private final ShadowCache[] whatIfs = new ShadowCache[FACTORS.length];
  private long referencesBefore;
  private int inCharge;
  private EvictionPolicy current;

  /** Empty when all its blocks have moved. */
  private EvictionPolicy previous;

  private int shadowedBlocks;
  private int switches;

  /**
   * A tier without blocks, under the first member.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   * @param capacityBlocks the most blocks that will be resident at once
   * @param members the specifications to choose from
   * @param shadowBlocks the size of a shadow
   * @param margin by how many hits, for each block of a shadow, a member must be ahead to take over
   * @param memory how much of the past's score is kept when a window's is added
   * @param window after how many references, for each block of a shadow, the members are compared
   */
  public AutoPolicy(
      int blocksMax,
      int capacityBlocks,
      List<String> members,
      int shadowBlocks,
      double margin,
      double memory,
      double window) {
    this.blocksMax = blocksMax;
    this.capacityBlocks = capacityBlocks;
    this.shadowBlocks = shadowBlocks;
    this.margin = margin;
    this.memory = memory;
    this.window = window;
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
    current = EvictionPolicies.create(members.getFirst(), blocksMax, capacityBlocks);
    previous = new FifoPolicy(1);
    askWhatIf();
    standFor(capacityBlocks);
  }

  private ShadowCache shadow(String specification, double factor, int blocksMax) {
    double blocks = Math.max(1, factor * capacityBlocks);
    return new ShadowCache(specification, (int) Math.min(blocksMax, blocks));
  }

  private void askWhatIf() {
    for (int i = 0; i < FACTORS.length; i++) {
      whatIfs[i] = shadow(members[inCharge].specification(), FACTORS[i], WHAT_IF_BLOCKS);
    }
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
    touched(block);
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
  public void onRemove(int block, Removal why) {
    (isLeftBehind[block] ? previous : current).onRemove(block, why);
    isLeftBehind[block] = false;
  }

  private void touched(int block) {
    for (int i = 0; i < MOVES_PER_OPERATION && previous.size() > 0; i++) {
      bringAlong(previous.victim(ANY, 1));
    }
    assembler.touch(fingerprints[block], depths[block], parents[block]);
  }

  private void bringAlong(int block) {
    previous.onRemove(block, Removal.DELETED);
    isLeftBehind[block] = false;
    current.onInsert(block, 1, fingerprints[block], depths[block], parents[block]);
  }

  private void onRequest(RequestAssembler request) {
    long sequence = request.isFragment() ? 0 : request.sequence();
    for (ShadowCache member : members) {
      member.offer(request, sequence);
    }
    for (ShadowCache whatIf : whatIfs) {
      whatIf.offer(request, sequence);
    }
    if (members[0].references() - referencesBefore
        >= window * Math.min(shadowBlocks, shadowedBlocks)) {
      choose();
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
    double evidence = Math.min(EVIDENCE_MAX, margin * Math.min(shadowBlocks, shadowedBlocks));
    if (previous.size() == 0 && scores[best] - scores[inCharge] > evidence) {
      handOver(best);
    }
  }

  private void handOver(int successor) {
    switches++;
    inCharge = successor;
    previous = current;
    previous.forEach(block -> isLeftBehind[block] = true);
    current = EvictionPolicies.create(inCharge(), blocksMax, capacityBlocks);
    askWhatIf();
    standFor(shadowedBlocks);
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    if (Math.abs(size() - shadowedBlocks) > shadowedBlocks / 16) {
      standFor(Math.max(1, size()));
    }
    int victim = current.victim(filter, looksMax);
    return victim == NONE && previous.size() > 0 ? previous.victim(filter, looksMax) : victim;
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
    previous.forEach(visitor);
    current.forEach(visitor);
  }

  @Override
  public long metadataBytes() {
    long bytes = current.metadataBytes() + previous.metadataBytes() + assembler.bytes();
    for (ShadowCache member : members) {
      bytes += member.bytes();
    }
    for (ShadowCache whatIf : whatIfs) {
      bytes += whatIf.bytes();
    }
    return bytes + 21L * blocksMax;
  }

  @Override
  public void checkInvariants() {
    current.checkInvariants();
    previous.checkInvariants();
  }
}
