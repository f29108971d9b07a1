package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.TransferWatch;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;

/**
 * The end of copies: how they are dropped, and how slots and records are given back. Confined to
 * the index.
 *
 * <p>A block that the daemon works on, or that a request waits for, is in use. A block that was
 * deleted leaves the directory at once. Its slots are given back when the block is no longer in use
 * and no client holds it.
 */
final class Copies {
  private final Directory directory;
  private final CopyTable table;
  private final Namespaces namespaces;
  private final TierStack stack;
  private final ResidentTier first;
  private final Drops drops;
  private final Counters counters;
  private final TransferWatch transfers;
  private final BlockListener listener;

  Copies(
      IndexCore core,
      TierStack stack,
      Drops drops,
      TransferWatch transfers,
      BlockListener listener) {
    directory = core.directory();
    table = directory.copies();
    namespaces = core.namespaces();
    counters = core.counters();
    this.stack = stack;
    first = stack.first();
    this.drops = drops;
    this.transfers = transfers;
    this.listener = listener;
  }

  // ---- what follows from a block's namespace

  /** The tenant of a block. */
  int tenant(int block) {
    return namespaces.of(directory, block).tenant();
  }

  /** The bytes of a block, as it is stored. */
  int storedBytes(int block) {
    return namespaces.storedBytes(directory, block);
  }

  // ---- use

  /** Ends one use of a block. */
  void endUse(int block) {
    directory.addUses(block, -1);
    settle(block);
  }

  /** Gives the slots and the record of a block back when nothing needs them any more. */
  void settle(int block) {
    if (table.isInFirstAlone(block) || directory.uses(block) > 0) {
      return;
    }
    boolean isHeld = directory.holds(block) > 0;
    if (isHeld && !first.isResident(block)) {
      return;
    }
    // Copies of lower tiers go even if clients hold the block: clients read the copy of the first
    // tier.
    for (int tier = 0; tier < stack.count(); tier++) {
      if (table.state(tier, block) == CopyState.LEAVING) {
        stack.at(tier).free(block);
      }
    }
    if (table.isNowhere(block)) {
      if (directory.isLinked(block)) {
        directory.unlink(block);
      }
      directory.free(block);
      transfers.forgot(block);
    }
  }

  // ---- the end of blocks

  /** Takes a block out of the directory; its slots are given back when nothing needs them. */
  void remove(int block) {
    directory.addUses(block, 1);
    forget(block);
    for (int tier = 0; tier < stack.count(); tier++) {
      stack.at(tier).leave(block);
    }
    listener.onFirstSettled(block, Status.MISS);
    endUse(block);
  }

  private void forget(int block) {
    if (directory.isLinked(block)) {
      directory.unlink(block);
      listener.onForgotten(block);
    }
  }

  /**
   * A block that was to come to the first tier does not come. Requests that wait for it are
   * answered. The block leaves the directory, unless it still stands on a device that can't be read
   * now.
   */
  void missed(int block) {
    if (stack.storedIn(block) == null) {
      forget(block);
      // A block on its way from one lower tier to another would arrive there without a name.
      for (ResidentTier tier : stack.lower()) {
        tier.leave(block);
      }
    }
    listener.onFirstSettled(block, Status.MISS);
  }

  // ---- the end of copies

  /** Drops a copy that can leave its tier. */
  void drop(int block, ResidentTier tier) {
    tier.evict(block);
    counters.add(tier.traits().counts().evictions(), 1);
    settle(block);
  }

  /** Drops the copies of a block that can leave their lower tiers. */
  void dropLower(int block) {
    for (int tier = 1; tier < stack.count(); tier++) {
      // The record may have gone with the copy before.
      if (table.state(tier, block) == CopyState.RESIDENT && stack.at(tier).isEvictable(block)) {
        boolean isLast = !table.isElsewhere(tier, block);
        drop(block, stack.at(tier));
        if (isLast) {
          return;
        }
      }
    }
  }

  /** Drops a first copy whose bytes are no longer those that were accepted. */
  void dropDamaged(int block) {
    counters.add(Counter.CORRUPT, 1);
    if (stack.storedIn(block) != null) {
      first.leave(block);
      settle(block);
    } else {
      drops.count(block, Drops.Reason.DAMAGED);
      remove(block);
    }
  }

  /** Drops a damaged copy of a lower tier; the damage was counted already. */
  void dropDamaged(int block, ResidentTier tier) {
    directory.addUses(block, 1);
    loseCopy(block, tier);
    endUse(block);
  }

  /** As {@link #dropDamaged(int, ResidentTier)}, for a block in use. */
  void loseCopy(int block, ResidentTier tier) {
    switch (first.state(block)) {
      case NONE -> {
        if (stack.isStoredBesides(tier.number(), block)) {
          tier.leave(block);
        } else if (tier.isResident(block)) {
          drops.count(block, Drops.Reason.DAMAGED);
          remove(block);
        }
      }
      case RESIDENT, LEAVING -> tier.leave(block);
      // The copy is being read just now: that read finds the damage, too.
      case RESERVED, STAGING -> {}
    }
  }
}
