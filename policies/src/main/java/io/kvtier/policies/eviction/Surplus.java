package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.BlockVisitor;
import io.kvtier.policies.EvictionPolicy.VictimFilter;

/**
 * The blocks of a tier that a shadow of the whole tier does not hold, those first that it dropped
 * first. A tier that evicts these before all others comes to hold what the shadow holds, whatever
 * policy filled it. Twelve to twenty bytes a block.
 */
final class Surplus implements ShadowCache.Listener {
  private static final int LIST = 0;

  private final long[] fingerprints;
  private final FingerprintTable residents;
  private final BlockChains blocks;

  /**
   * No blocks, of a tier without blocks.
   *
   * @param fingerprints of the tier's blocks; their owner's
   */
  Surplus(long[] fingerprints) {
    this.fingerprints = fingerprints;
    residents = new FingerprintTable(fingerprints);
    blocks = new BlockChains(fingerprints.length, 1);
  }

  /** A block came into the tier; the shadow will hear of it. */
  void onInsert(int block) {
    residents.put(block);
  }

  /** A block left the tier. */
  void onRemove(int block) {
    spare(block);
    residents.remove(block);
  }

  /** A block is used, or the shadow has it: it is none of these. */
  void spare(int block) {
    if (blocks.isTracked(block)) {
      blocks.remove(LIST, block);
    }
  }

  /** It could not leave when it was its turn. */
  void onPassed(int block) {
    if (blocks.isTracked(block)) {
      blocks.move(LIST, LIST, block);
    }
  }

  private void add(int block) {
    if (!blocks.isTracked(block)) {
      blocks.append(LIST, block);
    }
  }

  @Override
  public void onArrival(long key) {
    int block = residents.get(key);
    if (block != EvictionPolicy.NONE) {
      spare(block);
    }
  }

  @Override
  public void onDeparture(long key) {
    int block = residents.get(key);
    if (block != EvictionPolicy.NONE) {
      add(block);
    }
  }

  /** Another shadow is the measure from now on; the tier's blocks are shown in their order. */
  void compare(ShadowCache shadow, EvictionPolicy tier) {
    tier.forEach(block -> {
      if (shadow.holds(fingerprints[block])) {
        spare(block);
      } else {
        add(block);
      }
    });
  }

  boolean has(int block) {
    return blocks.isTracked(block);
  }

  int size() {
    return blocks.size();
  }

  /** The first that the filter accepts among so many. */
  int victim(VictimFilter filter, int looksMax) {
    int block = blocks.oldest(LIST);
    for (int looks = 0; block != EvictionPolicy.NONE && looks < looksMax; looks++) {
      if (filter.accepts(block)) {
        return block;
      }
      block = blocks.newer(block);
    }
    return EvictionPolicy.NONE;
  }

  void forEach(BlockVisitor visitor) {
    blocks.forEach(LIST, visitor);
  }

  long bytes() {
    return residents.bytes() + blocks.bytes();
  }

  /** Checks the list, for tests. */
  void checkInvariants(ShadowCache shadow) {
    blocks.checkInvariants();
    blocks.forEach(
        LIST,
        block -> {
          if (shadow.holds(fingerprints[block])) {
            throw new IllegalStateException("block " + block + " is in the shadow");
          }
          if (residents.get(fingerprints[block]) != block) {
            throw new IllegalStateException("block " + block + " is not found by its key");
          }
        });
  }
}
