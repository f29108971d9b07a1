package io.kvtier.daemon.index;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.VictimFilter;

/**
 * The directory's records, of which each tenant has its share: one that has used up its own forgets
 * the coldest of its blocks, and nobody else's. Confined to the index.
 */
final class Records {
  /** So many a tenant forgets in a round when it has more than its share. */
  private static final int TRIMMED_PER_ROUND = 16;

  private final BlockStore store;
  private final Directory directory;
  private final Tenants tenants;
  private final VictimFilter anyOnHost;

  Records(BlockStore store, Directory directory, Tenants tenants) {
    this.store = store;
    this.directory = directory;
    this.tenants = tenants;
    anyOnHost = store.host()::isEvictable;
  }

  private int max(int tenant) {
    return tenants.shareOf(directory.blocksMax(), tenant);
  }

  /**
   * Adds a record for the block whose key was sought last, and not found. Where there can be no
   * more, of all or of its tenant, one of the tenant's own goes.
   *
   * @param isWanted whether another may go for it
   * @return its id, or {@link Directory#NONE}
   */
  int insertSought(Namespaces.Namespace namespace, int group, int keyBytes, boolean isWanted) {
    int tenant = namespace.tenant();
    boolean isFull = directory.recordsOfTenant(tenant) >= max(tenant);
    int block = isFull ? Directory.NONE : directory.insertSought(namespace.id(), group, keyBytes);
    if (block == Directory.NONE && isWanted && forgetOne(tenant)) {
      block = directory.insertSought(namespace.id(), group, keyBytes);
    }
    return block;
  }

  /**
   * Takes back what tenants have beyond their shares, as they may after a change of those: others
   * could have no records for it.
   */
  void trim() {
    for (int tenant = 0; tenants.count() > 1 && tenant < tenants.count(); tenant++) {
      int left = Math.min(directory.recordsOfTenant(tenant) - max(tenant), TRIMMED_PER_ROUND);
      while (left > 0 && forgetOne(tenant)) {
        left--;
      }
    }
  }

  /**
   * Makes room in the directory by forgetting the block of a tenant that would leave the lowest
   * tier next. Where the lowest is empty, as there are fewer records than slots, it is the host
   * tier's: written to SSD first, it would need its record all the same.
   *
   * @return false when nothing can go, or not yet
   */
  private boolean forgetOne(int tenant) {
    int onSsd = store.hasSsd(tenant) ? store.ssd().victimOnlyHere(tenant) : EvictionPolicy.NONE;
    if (onSsd != EvictionPolicy.NONE) {
      return store.evictFromSsd(onSsd);
    }
    int victim = store.host().victim(tenant, anyOnHost);
    return victim != EvictionPolicy.NONE && forgetOnHost(victim);
  }

  private boolean forgetOnHost(int block) {
    if (store.objectMoves().wantsEvicted(block)) {
      // Started, or to be started when another is done, or what stands in the way has gone.
      boolean ignored = store.objectMoves().startUpload(block, true);
      return false;
    }
    boolean isBelow = store.ssd().isResident(block);
    store.dropHostCopy(block);
    if (isBelow) {
      store.dropSsdCopy(block);
    }
    return true;
  }
}
