package io.kvtier.daemon.index;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.VictimFilter;
import java.util.Arrays;
import java.util.stream.IntStream;

/**
 * The directory's records, of which each tenant has its share: one that has used up its own forgets
 * the coldest of its blocks, and nobody else's. Confined to the index.
 */
final class Records {
  /** So many a tenant forgets at a time when it has more than its share. */
  private static final int TRIMMED_AT_ONCE = 16;

  /** How long a tenant is left alone of which nothing could go. */
  private static final long TRIM_AGAIN_NS = 100_000_000;

  private final BlockStore store;
  private final Directory directory;
  private final int[] max;
  private final long[] notBeforeNs;
  private final VictimFilter anyOnHost;
  private boolean isTrimming;

  /**
   * The records of a directory.
   *
   * @param max the most that each tenant may have
   */
  Records(BlockStore store, Directory directory, int[] max) {
    this.store = store;
    this.directory = directory;
    this.max = max;
    notBeforeNs = new long[max.length];
    Arrays.fill(notBeforeNs, Long.MIN_VALUE);
    anyOnHost = store.host()::isEvictable;
  }

  /** The most that each tenant may have. */
  static int[] shares(Directory directory, Tenants tenants) {
    return IntStream.range(0, tenants.count())
        .map(tenant -> tenants.shareOf(directory.blocksMax(), tenant))
        .toArray();
  }

  /** The most that a tenant may have. */
  int max(int tenant) {
    return max[tenant];
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
    boolean isFull = directory.recordsOfTenant(tenant) >= max[tenant];
    int block = isFull ? Directory.NONE : directory.insertSought(namespace.id(), group, keyBytes);
    if (block == Directory.NONE && isWanted && forgetOne(tenant)) {
      block = directory.insertSought(namespace.id(), group, keyBytes);
    }
    return block;
  }

  /**
   * Takes back some of what tenants have beyond their shares, as they may after a change of those:
   * others could have no records for it.
   */
  void trim(long nowNs) {
    isTrimming = false;
    for (int tenant = 0; max.length > 1 && tenant < max.length; tenant++) {
      // What becomes an object first takes its record with it when it has.
      int over = directory.recordsOfTenant(tenant) - max[tenant] - store.mover().departing(tenant);
      if (over > 0 && nowNs >= notBeforeNs[tenant]) {
        int left = Math.min(over, TRIMMED_AT_ONCE);
        while (left > 0 && forgetsOne(tenant)) {
          left--;
        }
        if (left == 0) {
          isTrimming |= over > TRIMMED_AT_ONCE;
        } else if (store.mover().departing(tenant) == 0) {
          notBeforeNs[tenant] = nowNs + TRIM_AGAIN_NS;
        }
      }
    }
  }

  /** Forgets a block, or has it written to an object, so that it can be forgotten. */
  private boolean forgetsOne(int tenant) {
    int before = store.mover().departing(tenant);
    return forgetOne(tenant) || store.mover().departing(tenant) > before;
  }

  /** Whether there is more to take back, and nothing in the way of it. */
  boolean isTrimming() {
    return isTrimming;
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
    if (!store.ssd().isResident(block)) {
      return store.evictLastCopy(block);
    }
    Drops.Reason reason = store.objectMoves().reasonAgainst(block);
    if (reason == null) {
      // Started, or to be started when another is done, or what stands in the way has gone.
      boolean ignored = store.objectMoves().startUpload(block, true);
      return false;
    }
    store.drops().count(block, reason);
    store.dropHostCopy(block);
    store.dropSsdCopy(block);
    return true;
  }
}
