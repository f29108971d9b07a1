package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.protocol.TierId;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The resident tiers in their order. Clients read and write the first. A block that leaves a tier
 * goes to the next tier that takes it. A block that a client wants comes back to the first.
 * Confined to the index.
 */
public final class TierStack {
  private final List<ResidentTier> tiers;
  private final ResidentTier[] order;
  private final ResidentTier first;

  /** A stack of at least one tier, each with the number of its place. */
  public TierStack(List<ResidentTier> tiers) {
    this.tiers = List.copyOf(tiers);
    order = tiers.toArray(ResidentTier[]::new);
    first = order[0];
  }

  /** Has each tier recount its evictable copies at each change of a copy. */
  public void watch(CopyTable copies) {
    boolean isAlone = true;
    for (ResidentTier tier : tiers) {
      // A tier without space never has a copy.
      isAlone &= tier == first || !tier.isConfigured();
    }
    copies.watch(isAlone ? first::recount : this::recount);
  }

  private void recount(int block) {
    for (ResidentTier tier : order) {
      tier.recount(block);
    }
  }

  /** All tiers, in their order. */
  public List<ResidentTier> all() {
    return tiers;
  }

  public int count() {
    return order.length;
  }

  public ResidentTier at(int number) {
    return order[number];
  }

  /** The tier that clients read and write. */
  public ResidentTier first() {
    return first;
  }

  /** The tiers below the first, in their order. */
  public List<ResidentTier> lower() {
    return tiers.subList(1, tiers.size());
  }

  /** The tier with a name; null when there is none. */
  public @Nullable ResidentTier named(String name) {
    for (ResidentTier tier : tiers) {
      if (tier.traits().name().equals(name)) {
        return tier;
      }
    }
    return null;
  }

  /**
   * The highest tier that clients know by an id.
   *
   * @throws IllegalArgumentException when there is none
   */
  public ResidentTier withId(TierId id) {
    for (ResidentTier tier : order) {
      if (tier.traits().id() == id) {
        return tier;
      }
    }
    throw new IllegalArgumentException("no resident tier is called " + id);
  }

  /** Whether a block is resident in any tier. */
  public boolean isResident(int block) {
    return first.isResident(block) || storedIn(block) != null;
  }

  /** The highest tier below the first that has a block; null when none has. */
  public @Nullable ResidentTier storedIn(int block) {
    for (int below = 1; below < order.length; below++) {
      if (order[below].isResident(block)) {
        return order[below];
      }
    }
    return null;
  }

  /** Whether a lower tier, other than one of them, has a block. */
  public boolean isStoredBesides(int number, int block) {
    for (int other = 1; other < order.length; other++) {
      if (other != number && order[other].isResident(block)) {
        return true;
      }
    }
    return false;
  }

  /** The highest lower tier that could take a block; null when none could. */
  public @Nullable ResidentTier taker(int block) {
    for (int below = 1; below < order.length; below++) {
      if (order[below].takes(block)) {
        return order[below];
      }
    }
    return null;
  }
}
