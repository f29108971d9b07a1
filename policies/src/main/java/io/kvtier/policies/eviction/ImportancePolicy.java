package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.WhatIf;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Wraps a policy, and lets blocks of low importance leave before all others. More important blocks
 * get further chances: when the policy names one, the block stays once (importance 2) or three
 * times (3), and that counts as two uses of it. A use by a client gives it all of its chances back.
 *
 * <p>The chances are a preference, not a promise: a search passes a limited number of blocks, and
 * then takes what the policy names. With {@code fifo}, which does not know uses, only low
 * importance has an effect.
 *
 * <p>Ten bytes a block, taken when the first block comes whose importance is not {@link #NORMAL}.
 * Until then a call costs one comparison more than a call of the wrapped policy.
 */
public final class ImportancePolicy implements EvictionPolicy {
  /** How many blocks one round of a search passes at most. */
  private static final int PASSED_MAX = 64;

  /** How many rounds a search has before it takes whatever the wrapped policy names. */
  private static final int ROUNDS_MAX = 4;

  /** By importance: how often a block is passed. */
  private static final byte[] CHANCES = {0, 0, 1, 3};

  /**
   * The importance of blocks, and the chances that they have left; made for the first block that is
   * not of normal importance.
   */
  private static final class Ranks {
    /** By block: its importance, changed so that 0 is normal. */
    private final byte[] importance;

    /** By block: how often it will be passed. */
    private final byte[] chances;

    private final BlockChains low;
    private final int[] passed = new int[PASSED_MAX];

    Ranks(int blocksMax) {
      importance = new byte[blocksMax];
      chances = new byte[blocksMax];
      low = new BlockChains(blocksMax, 1);
    }

    int of(int block) {
      return importance[block] ^ NORMAL;
    }

    void set(int block, int level) {
      if (low.isTracked(block)) {
        low.remove(0, block);
      }
      importance[block] = (byte) (level ^ NORMAL);
      chances[block] = CHANCES[level];
      if (level < NORMAL) {
        low.append(0, block);
      }
    }

    void used(int block) {
      if (importance[block] != 0) {
        chances[block] = CHANCES[of(block)];
        touch(block);
      }
    }

    void touch(int block) {
      if (low.isTracked(block)) {
        low.move(0, 0, block);
      }
    }
  }

  private final EvictionPolicy inner;
  private final int blocksMax;
  private final VictimFilter unlessPassed = this::acceptsUnlessPassed;
  private @Nullable Ranks ranks;
  private VictimFilter asked = _ -> false;
  private int passedCount;

  /**
   * A wrapper around a policy that tracks nothing yet.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   */
  public ImportancePolicy(EvictionPolicy inner, int blocksMax) {
    this.inner = inner;
    this.blocksMax = blocksMax;
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    inner.onInsert(block, bytes, fingerprint, depth, parent);
  }

  @Override
  public void onImportance(int block, int importance) {
    inner.onImportance(block, importance);
    Ranks known = ranks;
    if (known == null) {
      known = ranks = new Ranks(blocksMax);
    }
    known.set(block, importance);
  }

  @Override
  public void onHandedOver() {
    inner.onHandedOver();
  }

  @Override
  public void onParentMissing(int block) {
    inner.onParentMissing(block);
  }

  @Override
  public void onHit(int block) {
    inner.onHit(block);
    Ranks known = ranks;
    if (known != null) {
      known.used(block);
    }
  }

  @Override
  public void onPassed(int block) {
    inner.onPassed(block);
    Ranks known = ranks;
    if (known != null) {
      known.touch(block);
    }
  }

  @Override
  public void onRemove(int block, Removal why) {
    inner.onRemove(block, why);
    Ranks known = ranks;
    if (known != null) {
      known.set(block, NORMAL);
    }
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    Ranks known = ranks;
    if (known == null) {
      return inner.victim(filter, looksMax);
    }
    int looks = 0;
    for (int block = known.low.oldest(0); block != NONE; block = known.low.newer(block)) {
      if (filter.accepts(block)) {
        return block;
      }
      if (++looks >= looksMax) {
        return NONE;
      }
    }
    asked = filter;
    for (int round = 0; round < ROUNDS_MAX; round++) {
      passedCount = 0;
      int victim = inner.victim(unlessPassed, looksMax - looks);
      for (int i = 0; i < passedCount; i++) {
        // Two uses: with one, s3fifo would name the block again at once.
        inner.onHit(known.passed[i]);
        inner.onHit(known.passed[i]);
      }
      if (victim != NONE || passedCount == 0) {
        return victim;
      }
    }
    return inner.victim(filter, looksMax - looks);
  }

  private boolean acceptsUnlessPassed(int block) {
    Ranks known = ranks;
    if (!asked.accepts(block)) {
      return false;
    }
    if (known == null || known.chances[block] == 0 || passedCount == PASSED_MAX) {
      return true;
    }
    known.chances[block]--;
    known.passed[passedCount++] = block;
    return false;
  }

  @Override
  public int size() {
    return inner.size();
  }

  @Override
  public void forEach(BlockVisitor visitor) {
    Ranks known = ranks;
    if (known == null) {
      inner.forEach(visitor);
      return;
    }
    known.low.forEach(0, visitor);
    inner.forEach(block -> {
      if (!known.low.isTracked(block)) {
        visitor.visit(block);
      }
    });
  }

  @Override
  public List<WhatIf> whatIf() {
    return inner.whatIf();
  }

  @Override
  public long metadataBytes() {
    Ranks known = ranks;
    return inner.metadataBytes() + (known == null ? 0 : 2L * blocksMax + known.low.bytes());
  }

  @Override
  public void checkInvariants() {
    inner.checkInvariants();
    Ranks known = ranks;
    if (known == null) {
      return;
    }
    known.low.checkInvariants();
    int[] low = new int[1];
    inner.forEach(block -> {
      low[0] += known.of(block) < NORMAL ? 1 : 0;
      if (known.low.isTracked(block) != known.of(block) < NORMAL
          || known.chances[block] > CHANCES[known.of(block)]) {
        throw new IllegalStateException(
            "block " + block + " of importance " + known.of(block) + " is in the wrong list");
      }
    });
    if (low[0] != known.low.size()) {
      throw new IllegalStateException(
          known.low.size() + " blocks are of low importance, of which " + low[0] + " are here");
    }
  }
}
