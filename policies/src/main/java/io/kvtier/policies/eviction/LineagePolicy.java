package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicyProvider;
import io.kvtier.policies.PolicySetup;
import io.kvtier.policies.WhatIf;
import java.util.List;

/**
 * Lets the tail of a sequence leave before its head, whatever the order of the policy that it
 * wraps. A block is of use only behind its parent: so the wrapped policy names a victim, and what
 * leaves is a last block of the sequences that run through the victim, of the branch that was used
 * least recently. Blocks that lost their parent all the same, or came when it had gone, leave
 * before all others, until they are used or the parent comes back. A parent that was never seen is
 * not missed.
 *
 * <p>Parents are what clients say, so nothing here trusts them to form a tree: every step toward
 * the tail must go deeper. Beyond the wrapped policy, forty-four to sixty bytes a block.
 */
public final class LineagePolicy implements EvictionPolicy {
  /** Makes it by name, around the policy behind the slash. */
  public static final class Provider implements EvictionPolicyProvider {
    @Override
    public String name() {
      return "lineage";
    }

    @Override
    public EvictionPolicy create(PolicySetup setup) {
      return new LineagePolicy(setup.inner("lru"), setup.blocksMax());
    }
  }

  private final EvictionPolicy inner;
  private final long[] fingerprints;
  private final long[] parents;
  private final int[] depths;

  /** The children of one parent, in a ring from the least to the most recently used. */
  private final int[] nextSibling;

  private final int[] previousSibling;
  private final FingerprintTable blocks;

  /** The least recently used child of a parent, by the parent's key. */
  private final FingerprintTable families;

  private final BlockChains orphans;

  /** What the wrapped policy named last, and what was answered for it. */
  private int lastNamed = NONE;

  private int lastAnswer = NONE;

  /** The parent of the last answer that left: where the search behind the same name goes on. */
  private int resume = NONE;

  /**
   * A wrapper around a policy that tracks nothing yet.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   */
  public LineagePolicy(EvictionPolicy inner, int blocksMax) {
    this.inner = inner;
    fingerprints = new long[blocksMax];
    parents = new long[blocksMax];
    depths = new int[blocksMax];
    nextSibling = new int[blocksMax];
    previousSibling = new int[blocksMax];
    blocks = new FingerprintTable(fingerprints);
    families = new FingerprintTable(parents);
    orphans = new BlockChains(blocksMax, 1);
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    inner.onInsert(block, bytes, fingerprint, depth, parent);
    fingerprints[block] = fingerprint;
    parents[block] = parent;
    depths[block] = depth;
    blocks.put(block);
    if (parent != NO_PARENT) {
      joinFamily(block);
    }
    int eldest = families.get(fingerprint);
    if (eldest != NONE) {
      int child = eldest;
      do {
        adopt(child);
        child = nextSibling[child];
      } while (child != eldest);
    }
  }

  private void adopt(int block) {
    if (orphans.isTracked(block)) {
      orphans.remove(0, block);
    }
  }

  /** As the most recently used child. */
  private void joinFamily(int block) {
    int eldest = families.get(parents[block]);
    if (eldest == NONE) {
      nextSibling[block] = block;
      previousSibling[block] = block;
      families.put(block);
    } else {
      int last = previousSibling[eldest];
      nextSibling[last] = block;
      previousSibling[block] = last;
      nextSibling[block] = eldest;
      previousSibling[eldest] = block;
    }
  }

  private void leaveFamily(int block) {
    int next = nextSibling[block];
    if (next == block) {
      families.remove(block);
      return;
    }
    if (families.get(parents[block]) == block) {
      families.put(next);
    }
    nextSibling[previousSibling[block]] = next;
    previousSibling[next] = previousSibling[block];
  }

  @Override
  public void onParentMissing(int block) {
    long parent = parents[block];
    if (parent != NO_PARENT && blocks.get(parent) == NONE && !orphans.isTracked(block)) {
      orphans.append(0, block);
    }
  }

  @Override
  public void onImportance(int block, int importance) {
    inner.onImportance(block, importance);
  }

  @Override
  public void onHit(int block) {
    inner.onHit(block);
    adopt(block);
    if (parents[block] != NO_PARENT && nextSibling[block] != block) {
      leaveFamily(block);
      joinFamily(block);
    }
  }

  @Override
  public void onPassed(int block) {
    inner.onPassed(block);
    if (orphans.isTracked(block)) {
      orphans.move(0, 0, block);
    }
  }

  @Override
  public void onRemove(int block, Removal why) {
    inner.onRemove(block, why);
    adopt(block);
    if (block == lastNamed) {
      lastNamed = NONE;
    } else if (block == lastAnswer) {
      resume = blocks.get(parents[block]);
    } else if (block == resume) {
      resume = NONE;
    }
    if (parents[block] != NO_PARENT) {
      leaveFamily(block);
    }
    blocks.remove(block);
    int eldest = families.get(fingerprints[block]);
    if (eldest != NONE) {
      int child = eldest;
      do {
        if (!orphans.isTracked(child)) {
          orphans.append(0, child);
        }
        child = nextSibling[child];
      } while (child != eldest);
    }
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    int looks = 0;
    for (int orphan = orphans.oldest(0); orphan != NONE; orphan = orphans.newer(orphan)) {
      int victim = lastAccepted(orphan, orphan, filter);
      if (victim != NONE) {
        return victim;
      }
      if (++looks >= looksMax) {
        return NONE;
      }
    }
    int named = inner.victim(filter, looksMax - looks);
    if (named == NONE) {
      return NONE;
    }
    int from = named == lastNamed && resume != NONE ? resume : named;
    int last = lastAccepted(named, from, filter);
    lastNamed = named;
    lastAnswer = last == NONE ? named : last;
    resume = NONE;
    return lastAnswer;
  }

  /**
   * The last block of the least recently used branch behind {@code from}, or the nearest before it
   * down to {@code top} that the filter accepts.
   */
  private int lastAccepted(int top, int from, VictimFilter filter) {
    int block = from;
    int child = families.get(fingerprints[block]);
    while (child != NONE && depths[child] > depths[block]) {
      block = child;
      child = families.get(fingerprints[block]);
    }
    while (!filter.accepts(block)) {
      int parent = block == top ? NONE : blocks.get(parents[block]);
      if (parent == NONE || depths[parent] >= depths[block]) {
        return NONE;
      }
      block = parent;
    }
    return block;
  }

  @Override
  public int size() {
    return inner.size();
  }

  @Override
  public void forEach(BlockVisitor visitor) {
    orphans.forEach(0, visitor);
    inner.forEach(block -> {
      if (!orphans.isTracked(block)) {
        visitor.visit(block);
      }
    });
  }

  @Override
  public void onHandedOver() {
    inner.onHandedOver();
  }

  @Override
  public List<WhatIf> whatIf() {
    return inner.whatIf();
  }

  @Override
  public long metadataBytes() {
    return inner.metadataBytes()
        + 28L * fingerprints.length
        + blocks.bytes()
        + families.bytes()
        + orphans.bytes();
  }

  @Override
  public void checkInvariants() {
    inner.checkInvariants();
    orphans.checkInvariants();
    int[] counts = new int[2];
    inner.forEach(block -> {
      counts[0]++;
      if (blocks.get(fingerprints[block]) != block) {
        throw new IllegalStateException("block " + block + " is not found by its key");
      }
      long parent = parents[block];
      if (parent != NO_PARENT) {
        if (orphans.isTracked(block) && blocks.get(parent) != NONE) {
          throw new IllegalStateException("block " + block + " is no orphan");
        }
        if (previousSibling[nextSibling[block]] != block || parents[nextSibling[block]] != parent) {
          throw new IllegalStateException("the family of block " + block + " is broken");
        }
        counts[1] += families.get(parent) == block ? 1 : 0;
      }
    });
    if (counts[0] != blocks.count() || counts[1] != families.count()) {
      throw new IllegalStateException(
          counts[0]
              + " blocks in "
              + counts[1]
              + " families, in the tables "
              + blocks.count()
              + " in "
              + families.count());
    }
  }
}
