package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.RetentionTable;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.protocol.Counted;
import io.kvtier.tiers.files.ByteSize;
import org.jspecify.annotations.Nullable;

/**
 * How much each tenant may retain: a share of its part of the first tier, and of its records.
 * Retained blocks therefore always fit into the first tier, whatever becomes of the tiers below,
 * and leave space and records for other blocks. Confined to the index.
 */
public final class RetentionQuota {
  private final RetentionTable retentions;
  private final ResidentTier first;
  private final int[] recordsMax;
  private final double share;

  /**
   * The quotas of all tenants.
   *
   * @param recordsMax the most records of each tenant
   * @param share the share that a tenant may retain, 0 to 1
   */
  RetentionQuota(Directory directory, ResidentTier first, int[] recordsMax, double share) {
    retentions = directory.retentions();
    this.first = first;
    this.recordsMax = recordsMax;
    this.share = share;
  }

  /** The most bytes that a tenant may retain. */
  public long bytesMax(int tenant) {
    return (long)
        (share * first.slots().regionsOfPart(tenant) * (double) first.slots().regionBytes());
  }

  /** The most blocks that a tenant may retain. */
  public int blocksMax(int tenant) {
    return (int) (share * recordsMax[tenant]);
  }

  /**
   * Why a tenant may not retain so many more blocks, with the numbers; null if it may.
   *
   * @param blockBytes the length of each of them
   */
  public @Nullable String whyNot(int tenant, int blocks, long blockBytes) {
    long bytes = blocks * blockBytes;
    if (retentions.bytesOf(tenant) + bytes > bytesMax(tenant)) {
      return refusal(
          blocks,
          ByteSize.words(bytes),
          ByteSize.words(retentions.bytesOf(tenant)),
          ByteSize.words(bytesMax(tenant)));
    }
    if (retentions.blocksOf(tenant) + blocks > blocksMax(tenant)) {
      return refusal(
          blocks,
          Counted.of(blocks, "record"),
          Integer.toString(retentions.blocksOf(tenant)),
          Integer.toString(blocksMax(tenant)));
    }
    return null;
  }

  private static String refusal(int blocks, String asked, String kept, String quota) {
    return "retaining "
        + Counted.of(blocks, "more block")
        + " takes "
        + asked
        + ", and "
        + kept
        + " of the quota of "
        + quota
        + " are in use (limits.retained): retain less, or for a shorter time";
  }
}
