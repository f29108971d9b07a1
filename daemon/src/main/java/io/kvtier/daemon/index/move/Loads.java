package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.source.Sources;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.daemon.index.transfer.LowerTier;
import io.kvtier.daemon.index.transfer.LowerTiers;
import io.kvtier.daemon.index.transfer.Mover;
import io.kvtier.daemon.index.transfer.Settlement;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;

/** How blocks come from the lower tiers to the first. Confined to the index. */
public final class Loads {
  private final Directory directory;
  private final Counters counters;
  private final TierStack stack;
  private final ResidentTier first;
  private final LowerTiers lower;
  private final Mover mover;
  private final Copies copies;
  private final Drops drops;
  private final Sources sources;
  private final Promotions promotions;
  private final Arrivals arrivals;

  Loads(MoveParts parts, Sources sources, Promotions promotions, Arrivals arrivals) {
    directory = parts.core().directory();
    counters = parts.core().counters();
    stack = parts.stack();
    first = stack.first();
    lower = parts.lower();
    mover = parts.mover();
    copies = parts.copies();
    drops = parts.drops();
    this.sources = sources;
    this.promotions = promotions;
    this.arrivals = arrivals;
  }

  /**
   * Brings a block that only lower tiers have to the first tier, now or as soon as a slot is free.
   * If their devices are fenced, the block may come from a source.
   *
   * @param prefetch whether the block is wanted even when nobody waits for it
   * @return false when too many blocks wait already, or the block can be read nowhere
   */
  public boolean promote(int block, int priority, boolean prefetch) {
    ResidentTier source = promotions.readable(block);
    int outside = source == null ? sources.first(block) : Sources.NONE;
    if (promotions.isFull() || (source == null && outside == Sources.NONE)) {
      return false;
    }
    directory.addUses(block, 1);
    first.setState(block, CopyState.STAGING);
    directory.set(Directory.FLAG_FETCHING, block, source == null);
    directory.setSource(block, outside);
    ResidentTier hit = source == null ? stack.storedIn(block) : source;
    if (hit != null) {
      hit.hit(block);
    }
    promotions.add(block, priority, prefetch);
    return true;
  }

  /** A read from a lower tier into the first slot is over, well or not. */
  void onLoaded(Settlement load) {
    int block = load.block;
    ResidentTier from = stack.at(load.from);
    boolean isLeaving = first.state(block) == CopyState.LEAVING;
    if (load.status == Status.OK) {
      counters.add(Counter.PROMOTIONS, 1);
      counters.add(from.traits().counts().readBytes(), copies.storedBytes(block));
      if (!isLeaving) {
        directory.addUses(block, -1);
        arrivals.becomeResident(block);
        // A copy that could not be read before this one leaves its slot.
        copies.settle(block);
        return;
      }
    } else {
      Status status = load.status;
      counters.add(status == Status.CORRUPT ? Counter.CORRUPT : Counter.IO_ERRORS, 1);
      if (!isLeaving && (loadInstead(block, from) || fetchInstead(block, from, status))) {
        return;
      }
      first.free(block);
      if (!isLeaving) {
        // A block that can't be read is lost: it leaves the directory before the waiting requests
        // are answered.
        from.leave(block);
        if (stack.storedIn(block) == null) {
          drops.count(
              block, status == Status.CORRUPT ? Drops.Reason.DAMAGED : Drops.Reason.UNREADABLE);
        }
        copies.missed(block);
      }
    }
    copies.endUse(block);
  }

  /**
   * Reads a block from another lower tier that can be read; false when that can't be started. A
   * copy on a fenced device is left for later, because a failed read would drop the copy.
   */
  private boolean loadInstead(int block, ResidentTier from) {
    for (LowerTier tier : lower) {
      if (tier.tier() != from
          && tier.isReadable(block)
          && mover.below().load(block, tier.number(), RequestDescriptor.PRIORITY_HIGH)) {
        from.leave(block);
        return true;
      }
    }
    return false;
  }

  /** Reads a block from a source that has it, too; false when that can't be started. */
  private boolean fetchInstead(int block, ResidentTier from, Status why) {
    int source = sources.first(block);
    if (source == Sources.NONE
        || !mover.outside().fetch(block, source, RequestDescriptor.PRIORITY_HIGH)) {
      return false;
    }
    directory.setSource(block, source);
    directory.set(Directory.FLAG_FETCHING, block, true);
    directory.set(Directory.FLAG_DAMAGED, block, why == Status.CORRUPT);
    from.leave(block);
    return true;
  }
}
