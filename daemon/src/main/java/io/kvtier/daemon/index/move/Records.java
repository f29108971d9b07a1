package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.daemon.index.transfer.Mover;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.VictimFilter;
import java.util.Arrays;
import java.util.stream.IntStream;

/**
 * The directory's records, which tenants share. A tenant that has used up its share forgets the
 * coldest of its own blocks. Confined to the index.
 */
public final class Records {
  /** How many blocks a tenant with more than its share forgets at a time. */
  private static final int TRIMMED_AT_ONCE = 16;

  /** How long a tenant is left alone after none of its blocks could be forgotten. */
  private static final long TRIM_AGAIN_NS = 100_000_000;

  private final Directory directory;
  private final Copies copies;
  private final Evictions evictions;
  private final Uploads uploads;
  private final Mover mover;
  private final TierStack stack;
  private final ResidentTier first;
  private final Drops drops;
  private final int[] max;
  private final long[] notBeforeNs;
  private final VictimFilter anyInFirst;
  private boolean isTrimming;

  /**
   * The records of a directory.
   *
   * @param max the most that each tenant may have
   */
  Records(MoveParts parts, Evictions evictions, Uploads uploads, int[] max) {
    directory = parts.core().directory();
    copies = parts.copies();
    mover = parts.mover();
    stack = parts.stack();
    first = stack.first();
    drops = parts.drops();
    this.evictions = evictions;
    this.uploads = uploads;
    this.max = max;
    notBeforeNs = new long[max.length];
    Arrays.fill(notBeforeNs, Long.MIN_VALUE);
    anyInFirst =
        block -> first.isEvictable(block) && !directory.has(Directory.FLAG_RETAINED, block);
  }

  /** The most that each tenant may have. */
  static int[] shares(Directory directory, Tenants tenants) {
    return IntStream.range(0, tenants.count())
        .map(tenant -> tenants.shareOf(directory.blocksMax(), tenant))
        .toArray();
  }

  /** The most that a tenant may have. */
  public int max(int tenant) {
    return max[tenant];
  }

  /**
   * Adds a record for the block whose key was sought last, and not found. If the directory is full,
   * or the tenant's share is used up, the tenant forgets one of its own blocks.
   *
   * @param isWanted whether another block may be forgotten for it
   * @return its id, or {@link Directory#NONE}
   */
  public int insertSought(
      Namespaces.Namespace namespace, int group, int keyBytes, boolean isWanted) {
    int tenant = namespace.tenant();
    boolean isFull = directory.recordsOfTenant(tenant) >= max[tenant];
    int block = isFull ? Directory.NONE : directory.insertSought(namespace.id(), group, keyBytes);
    if (block == Directory.NONE && isWanted && forgetOne(tenant)) {
      block = directory.insertSought(namespace.id(), group, keyBytes);
    }
    return block;
  }

  /**
   * Takes back some of the records that tenants have beyond their shares, so that other tenants get
   * theirs. A change of the shares can leave a tenant with too many.
   */
  public void trim(long nowNs) {
    isTrimming = false;
    for (int tenant = 0; max.length > 1 && tenant < max.length; tenant++) {
      // A block that is being written to an object gives up its record afterwards.
      int over =
          directory.recordsOfTenant(tenant) - max[tenant] - mover.departures().departing(tenant);
      if (over > 0 && nowNs >= notBeforeNs[tenant]) {
        int left = Math.min(over, TRIMMED_AT_ONCE);
        while (left > 0 && forgetsOne(tenant)) {
          left--;
        }
        if (left == 0) {
          isTrimming |= over > TRIMMED_AT_ONCE;
        } else if (mover.departures().departing(tenant) == 0) {
          notBeforeNs[tenant] = nowNs + TRIM_AGAIN_NS;
        }
      }
    }
  }

  /** Forgets a block, or has it written to an object, so that it can be forgotten. */
  private boolean forgetsOne(int tenant) {
    int before = mover.departures().departing(tenant);
    return forgetOne(tenant) || mover.departures().departing(tenant) > before;
  }

  /** Whether a tenant has further records beyond its share that can be taken back at once. */
  public boolean isTrimming() {
    return isTrimming;
  }

  /**
   * Frees a record by forgetting the block of a tenant that would leave the lowest tier next. Where
   * no block can leave that tier, the next tier above is searched. The block is not written further
   * down first, because it would still need its record there.
   *
   * @return false when nothing can go, or not yet
   */
  private boolean forgetOne(int tenant) {
    for (int number = stack.count() - 1; number > 0; number--) {
      ResidentTier tier = stack.at(number);
      int victim = tier.hasSpaceFor(tenant) ? tier.victims().onlyHere(tenant) : EvictionPolicy.NONE;
      if (victim != EvictionPolicy.NONE) {
        return evictions.evictLastCopy(victim, tier);
      }
    }
    int victim = first.victims().next(tenant, anyInFirst);
    return victim != EvictionPolicy.NONE && forgetFirst(victim);
  }

  private boolean forgetFirst(int block) {
    if (stack.storedIn(block) == null) {
      return evictions.evictLastCopy(block, first);
    }
    Drops.Reason reason = uploads.reasonAgainst(block);
    if (reason == null) {
      // The write has begun, or begins when another write or a deletion is over.
      boolean ignored = uploads.startUpload(block, true);
      return false;
    }
    drops.count(block, reason);
    copies.drop(block, first);
    copies.dropLower(block);
    return true;
  }
}
