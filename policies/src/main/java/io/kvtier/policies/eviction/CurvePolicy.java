package io.kvtier.policies.eviction;

import io.kvtier.policies.BitMixer;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.WhatIf;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Wraps a policy that simulates nothing, and tells what tiers of half, equal, double and ten times
 * the size would have found under LRU. It changes nothing of what the policy does.
 *
 * <p>It watches a sample of the blocks, chosen by their keys: at most one in 32, and about {@value
 * #SAMPLED_BLOCKS} of a full tier. A tier of a share of the blocks, for the same share of the keys,
 * finds the same share of hits (Waldspurger, Park, Garthwaite and Ahmad, "Efficient MRC
 * construction with SHARDS", FAST 2015). LRU tiers of all sizes hold the newest of one list of
 * keys, so one list, cut at each size, simulates them all (Mattson, Gecsei, Slutz and Traiger,
 * "Evaluation techniques for storage hierarchies", 1970).
 *
 * <p>A bit for each block, and up to four megabytes for the sample. Nothing allocates after the
 * start. A block that is not in the sample takes one look at its bit.
 */
public final class CurvePolicy implements EvictionPolicy {
  private static final int SAMPLED_BLOCKS = 8192;
  private static final double SHARE_MAX = 1.0 / 32;
  private static final double[] FACTORS = {0.5, 1, 2, 10};

  private final EvictionPolicy inner;

  /** By block: whether it is in the sample. */
  private final long[] isSampled;

  private final double share;

  /** A key is in the sample when its mixed bits are below this. */
  private final long limit;

  // Of each entry of the sample.
  private final long[] keys;
  private final byte[] levels;

  /** The mixed number of the block that holds the key, or a number of no block. */
  private final long[] blocks;

  private final FingerprintTable byKey;
  private final FingerprintTable byBlock;

  /** The entries of each level, in the order of their uses: level 0 has the newest ones. */
  private final BlockChains chains;

  /** How many entries a level has at most. */
  private final int[] places = new int[FACTORS.length];

  private final int[] free;
  private final long[] hits = new long[FACTORS.length];
  private final int capacityBlocks;
  private long offered;
  private long references;
  private int shadowedBlocks;

  /**
   * A wrapper around a policy that tracks nothing yet.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   * @param capacityBlocks the most blocks that will be resident at once
   */
  public CurvePolicy(EvictionPolicy inner, int blocksMax, int capacityBlocks) {
    this.inner = inner;
    this.capacityBlocks = capacityBlocks;
    isSampled = new long[blocksMax / Long.SIZE + 1];
    share = Math.min(SHARE_MAX, (double) SAMPLED_BLOCKS / capacityBlocks);
    limit = (long) (share * (1L << 32));
    int entries = sampledOf(FACTORS[FACTORS.length - 1], capacityBlocks) + 1;
    keys = new long[entries];
    blocks = new long[entries];
    levels = new byte[entries];
    byKey = new FingerprintTable(keys);
    byBlock = new FingerprintTable(blocks);
    chains = new BlockChains(entries, FACTORS.length);
    free = new int[entries];
    Arrays.setAll(free, i -> i);
    standFor(capacityBlocks);
  }

  /** How many blocks of a tier are in the sample when it is full. */
  private int sampledOf(double factor, int size) {
    return (int) Math.max(1, Math.round(share * factor * size));
  }

  /** The sizes follow the number of blocks that the tier really holds. */
  private void standFor(int size) {
    shadowedBlocks = Math.clamp(size, 1, capacityBlocks);
    int smaller = 0;
    for (int level = 0; level < places.length; level++) {
      int all = sampledOf(FACTORS[level], shadowedBlocks);
      places[level] = all - smaller;
      smaller = all;
    }
    makePlace();
  }

  /** What a level has too many goes to the next one, its oldest entries first. */
  private void makePlace() {
    for (int level = 0; level < places.length; level++) {
      while (chains.size(level) > places[level]) {
        int oldest = chains.oldest(level);
        if (level < places.length - 1) {
          chains.move(level, level + 1, oldest);
          levels[oldest]++;
        } else {
          forget(oldest);
        }
      }
    }
  }

  private void forget(int entry) {
    chains.remove(levels[entry], entry);
    byKey.remove(entry);
    byBlock.remove(entry);
    free[chains.size()] = entry;
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    inner.onInsert(block, bytes, fingerprint, depth, parent);
    offered++;
    // Another draw than the tables that keys go to by their own bits.
    if ((BitMixer.mix(fingerprint) & 0xffff_ffffL) >= limit) {
      return;
    }
    isSampled[block / Long.SIZE] |= 1L << block;
    int entry = byKey.get(fingerprint);
    if (entry == NONE) {
      references++;
      entry = free[chains.size()];
      keys[entry] = fingerprint;
      levels[entry] = 0;
      byKey.put(entry);
      chains.append(0, entry);
    } else {
      byBlock.remove(entry);
      use(entry);
    }
    blocks[entry] = numberOf(block);
    byBlock.put(entry);
    makePlace();
  }

  /** A number that no other block has; the table of blocks needs mixed bits. */
  private static long numberOf(int block) {
    return BitMixer.mix(block + 1L);
  }

  private void use(int entry) {
    references++;
    int level = levels[entry];
    for (int i = level; i < hits.length; i++) {
      hits[i]++;
    }
    chains.move(level, 0, entry);
    levels[entry] = 0;
  }

  @Override
  public void onImportance(int block, int importance) {
    inner.onImportance(block, importance);
  }

  @Override
  public void onHit(int block) {
    inner.onHit(block);
    offered++;
    if (isSampled(block)) {
      int entry = byBlock.get(numberOf(block));
      if (entry != NONE) {
        use(entry);
        makePlace();
      }
    }
  }

  private boolean isSampled(int block) {
    return (isSampled[block / Long.SIZE] & 1L << block) != 0;
  }

  @Override
  public void onRemove(int block, Removal why) {
    inner.onRemove(block, why);
    if (isSampled(block)) {
      isSampled[block / Long.SIZE] &= ~(1L << block);
      int entry = byBlock.get(numberOf(block));
      if (entry != NONE) {
        byBlock.remove(entry);
      }
    }
  }

  @Override
  public void onHandedOver() {
    inner.onHandedOver();
    offered = 0;
    references = 0;
    Arrays.fill(hits, 0);
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    // Victims are asked for when the tier is full: its size is known now.
    if (Math.abs(inner.size() - shadowedBlocks) > shadowedBlocks / 16) {
      standFor(inner.size());
    }
    return inner.victim(filter, looksMax);
  }

  @Override
  public void onParentMissing(int block) {
    inner.onParentMissing(block);
  }

  @Override
  public void onPassed(int block) {
    inner.onPassed(block);
  }

  @Override
  public int size() {
    return inner.size();
  }

  @Override
  public void forEach(BlockVisitor visitor) {
    inner.forEach(visitor);
  }

  /**
   * Blocks are sampled and not sequences, so prefix hits are not told apart from block hits.
   *
   * <p>A few keys that are used very often are in the sample or not by chance. What the sample has
   * too few or too many references for its share are theirs, and they are hits in a tier of any
   * size (SHARDS calls this the adjustment).
   */
  @Override
  public List<WhatIf> whatIf() {
    long expected = Math.round(offered * share);
    List<WhatIf> answers = new ArrayList<>();
    for (int i = 0; i < FACTORS.length; i++) {
      long found = Math.clamp(hits[i] + expected - references, 0, expected);
      answers.add(new WhatIf("lru", FACTORS[i], offered, expected, found, found));
    }
    return answers;
  }

  @Override
  public long metadataBytes() {
    return inner.metadataBytes()
        + 8L * isSampled.length
        + 21L * keys.length
        + byKey.bytes()
        + byBlock.bytes()
        + chains.bytes();
  }

  @Override
  public void checkInvariants() {
    inner.checkInvariants();
    chains.checkInvariants();
    if (byKey.count() != chains.size()) {
      throw new IllegalStateException(
          byKey.count() + " keys of the sample are found, expected " + chains.size());
    }
  }
}
