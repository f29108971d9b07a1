package io.kvtier.daemon.index.transfer;

import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.space.ResidentTier;

/** Counts of blocks that are on their way out of the first tier, or of this node. */
public final class Departures {
  private final IndexCore core;
  private final ResidentTier first;
  private final int[] evictions;
  private final int[] stores;
  private final int[] departing;

  Departures(IndexCore core, ResidentTier first) {
    this.core = core;
    this.first = first;
    evictions = new int[first.slots().classesMax()];
    stores = new int[first.slots().classesMax()];
    departing = new int[core.namespaces().tenants().count()];
  }

  /**
   * Counts a store of a first copy that begins, or is over.
   *
   * @param evict whether the first slot is freed afterwards
   */
  void store(int block, boolean evict, int more) {
    int sizeClass = first.sizeClass(block);
    stores[sizeClass] += more;
    evictions[sizeClass] += evict ? more : 0;
  }

  /** Counts blocks of a tenant that are written to objects in order to leave this node. */
  void depart(int tenant, int more) {
    departing[tenant] += more;
  }

  /**
   * Counts a block that leaves this node after its object is confirmed: the question begins, or is
   * over.
   *
   * @param isFirst whether the block's first slot is free afterwards
   */
  public void confirming(int block, boolean isFirst, int more) {
    departing[core.namespaces().of(core.directory(), block).tenant()] += more;
    if (isFirst) {
      evictions[first.sizeClass(block)] += more;
    }
  }

  /** First slots of a size class that stores under way will free. */
  public int evictions(int sizeClass) {
    return evictions[sizeClass];
  }

  /** First copies of a size class that are being stored in a lower tier, for any reason. */
  public int stores(int sizeClass) {
    return stores[sizeClass];
  }

  /** Blocks of a tenant that leave this node when their objects are written or confirmed. */
  public int departing(int tenant) {
    return departing[tenant];
  }
}
