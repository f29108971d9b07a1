package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.TierLine;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.slots.SlotAllocator;

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
  private final Namespaces namespaces;
  private final TierLine host;
  private final TierLine ssd;
  private final Drops drops;
  private final Counters counters;
  private final BlockListener listener;

  Copies(
      Directory directory,
      Namespaces namespaces,
      TierLine host,
      TierLine ssd,
      Drops drops,
      Counters counters,
      BlockListener listener) {
    this.directory = directory;
    this.namespaces = namespaces;
    this.host = host;
    this.ssd = ssd;
    this.drops = drops;
    this.counters = counters;
    this.listener = listener;
  }

  // ---- what follows from a block's namespace

  /** The tenant of a block. */
  int tenant(int block) {
    return namespaces.of(directory, block).tenant();
  }

  /** The host size class of a block. */
  int hostClass(int block) {
    return namespaces.of(directory, block).hostClass();
  }

  /** The SSD size class of a block; NONE when the block can't be stored on SSD. */
  int ssdClass(int block) {
    return namespaces.of(directory, block).ssdClass();
  }

  /** Whether the block can be stored on SSD at all. */
  boolean hasSsdClass(int block) {
    return ssdClass(block) != SlotAllocator.NONE;
  }

  /** The length of a block. */
  int blockBytes(int block) {
    return (int) namespaces.of(directory, block).blockBytes();
  }

  /** Whether a tenant has space on SSD. */
  boolean hasSsd(int tenant) {
    return ssd.slots().regionsOfPart(tenant) > 0;
  }

  // ---- use

  /** The daemon no longer needs a block for one thing for which the block was in use. */
  void endUse(int block) {
    directory.addUses(block, -1);
    settle(block);
  }

  /** Gives slots and the record of a block back that nothing needs any more. */
  void settle(int block) {
    if (directory.copies().isInFirstAlone(block) || directory.uses(block) > 0) {
      return;
    }
    boolean isHeld = directory.holds(block) > 0;
    if (isHeld && !host.isResident(block)) {
      return;
    }
    if (host.state(block) == CopyState.LEAVING) {
      host.free(block);
    }
    if (ssd.state(block) == CopyState.LEAVING) {
      // Also where clients hold the block: what they read is in memory.
      ssd.free(block);
    }
    if (directory.copies().isNowhere(block)) {
      if (directory.isLinked(block)) {
        directory.unlink(block);
      }
      directory.free(block);
      listener.onFreed(block);
    }
  }

  // ---- the end of blocks

  /** Takes a block out of the directory; its slots are given back when nothing needs them. */
  void remove(int block) {
    directory.addUses(block, 1);
    forget(block);
    host.leave(block);
    ssd.leave(block);
    listener.onHostSettled(block, Status.MISS);
    endUse(block);
  }

  private void forget(int block) {
    if (directory.isLinked(block)) {
      directory.unlink(block);
      listener.onForgotten(block);
    }
  }

  /**
   * A block that was to come to the host tier does not come. Requests that wait for it are
   * answered. The block leaves the directory, unless it still stands on a device that can't be read
   * now.
   */
  void missed(int block) {
    if (!ssd.isResident(block)) {
      forget(block);
    }
    listener.onHostSettled(block, Status.MISS);
  }

  // ---- the end of copies

  /** Drops the host copy of a block, which could leave. */
  void dropHostCopy(int block) {
    host.evict(block);
    counters.add(Counter.EVICTIONS, 1);
    settle(block);
  }

  /** Drops the SSD copy of a block, which could leave. */
  void dropSsdCopy(int block) {
    ssd.evict(block);
    counters.add(Counter.SSD_EVICTIONS, 1);
    settle(block);
  }

  /**
   * The bytes of a host copy are no longer those that were accepted: nobody may read them again.
   */
  void dropDamaged(int block) {
    counters.add(Counter.CORRUPT, 1);
    if (ssd.isResident(block)) {
      host.leave(block);
      settle(block);
    } else {
      drops.count(block, Drops.Reason.DAMAGED);
      remove(block);
    }
  }

  /** The SSD copy of a block turned out to be damaged, which was counted already. */
  void dropDamagedOnSsd(int block) {
    directory.addUses(block, 1);
    loseSsdCopy(block);
    endUse(block);
  }

  /** As {@link #dropDamagedOnSsd}, for a block in use. */
  void loseSsdCopy(int block) {
    switch (host.state(block)) {
      case NONE -> {
        if (ssd.isResident(block)) {
          drops.count(block, Drops.Reason.DAMAGED);
          remove(block);
        }
      }
      case RESIDENT, LEAVING -> ssd.leave(block);
      // The copy is being read just now: that read finds the damage, too.
      case RESERVED, STAGING -> {}
    }
  }
}
