package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.source.ObjectLine;
import io.kvtier.daemon.index.source.ObjectProbes;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.PresenceCache.Presence;
import java.lang.foreign.MemorySegment;

/** How blocks come from the object tier to the first tier. Confined to the index. */
public final class Fetches {
  private final Directory directory;
  private final Counters counters;
  private final ObjectLine objects;
  private final ObjectProbes probes;
  private final TierStack stack;
  private final ResidentTier first;
  private final Copies copies;
  private final Drops drops;
  private final Records records;
  private final Promotions promotions;
  private final Arrivals arrivals;
  private final ObjectProbes.Finder finder = this::found;

  Fetches(
      StoreParts parts,
      ObjectLine objects,
      ObjectProbes probes,
      TierStack stack,
      Copies copies,
      Drops drops,
      Records records,
      Promotions promotions,
      Arrivals arrivals) {
    directory = parts.directory();
    counters = parts.counters();
    this.objects = objects;
    this.probes = probes;
    this.stack = stack;
    first = stack.first();
    this.copies = copies;
    this.drops = drops;
    this.records = records;
    this.promotions = promotions;
    this.arrivals = arrivals;
  }

  /**
   * Fetches the block whose key the directory sought last, and did not find, if the block may be in
   * the object tier. Where nothing is known of it, the store is asked first.
   *
   * @param prefetch whether it is wanted even when nobody waits for it
   * @return the block, on its way to the first tier, or {@link Directory#NONE}
   */
  public int fetchSought(
      Namespaces.Namespace namespace, int group, int keyBytes, int priority, boolean prefetch) {
    Presence presence = objects.presenceOfSought(namespace, keyBytes, group);
    if (presence == Presence.ABSENT || !objects.isOpen() || promotions.isFull()) {
      return Directory.NONE;
    }
    int block = records.insertSought(namespace, group, keyBytes, presence == Presence.PRESENT);
    if (block == Directory.NONE) {
      return Directory.NONE;
    }
    directory.setLineage(block, 0, 0);
    directory.addUses(block, 1);
    directory.set(Directory.FLAG_FETCHING, block, true);
    first.setState(block, CopyState.STAGING);
    if (presence == Presence.PRESENT) {
      promotions.add(block, priority, prefetch);
    } else if (!probes.probe(block, priority, prefetch)) {
      miss(block);
      return Directory.NONE;
    }
    return block;
  }

  /** Settles questions of gets that are answered; returns how many. */
  int collect() {
    return probes.collect(finder);
  }

  private void found(int block, int priority, boolean prefetch, Presence presence) {
    if (first.state(block) == CopyState.LEAVING) {
      directory.set(Directory.FLAG_FETCHING, block, false);
      copies.endUse(block);
    } else if (presence == Presence.PRESENT && !promotions.isFull()) {
      promotions.add(block, priority, prefetch);
    } else {
      miss(block);
    }
  }

  /** A block that was to come does not: out of sight before those who wait are told. */
  private void miss(int block) {
    directory.set(Directory.FLAG_FETCHING, block, false);
    boolean isLeaving = first.state(block) == CopyState.LEAVING;
    first.free(block);
    if (!isLeaving) {
      copies.missed(block);
    }
    copies.endUse(block);
  }

  private void annotate(int block, byte[] annotation, int bytes) {
    if (directory.annotations().bytes(block) == 0
        && !directory.annotations().set(block, MemorySegment.ofArray(annotation), 0, bytes)) {
      counters.add(Counter.ANNOTATIONS_DROPPED, 1);
    }
  }

  /** A read of an object into the first slot is over, well or not. */
  void onFetched(Settlement fetch) {
    int block = fetch.block;
    Status status = fetch.status;
    if (status == Status.OK) {
      annotate(block, fetch.annotation, fetch.annotationBytes);
      counters.add(Counter.OBJECT_FETCHED, 1);
      counters.add(Counter.OBJECT_READ_BYTES, copies.blockBytes(block));
      directory.set(Directory.FLAG_FETCHING, block, false);
      if (first.state(block) == CopyState.LEAVING) {
        copies.endUse(block);
      } else {
        objects.know(block, true);
        directory.addUses(block, -1);
        arrivals.becomeResident(block);
        copies.settle(block);
      }
      return;
    }
    counters.add(Counter.CORRUPT, status == Status.CORRUPT ? 1 : 0);
    counters.add(Counter.OBJECT_ERRORS, status == Status.MISS || status == Status.CORRUPT ? 0 : 1);
    if (status == Status.MISS || status == Status.CORRUPT) {
      objects.gone(block);
    } else {
      directory.set(Directory.FLAG_OBJECT, block, false);
    }
    // A block that was deleted meanwhile is no drop: both its copies leave.
    if (isLeavingBelow(block) && first.state(block) != CopyState.LEAVING) {
      boolean isDamaged = directory.has(Directory.FLAG_DAMAGED, block);
      drops.count(block, isDamaged ? Drops.Reason.DAMAGED : Drops.Reason.UNREADABLE);
    }
    miss(block);
  }

  private boolean isLeavingBelow(int block) {
    for (ResidentTier tier : stack.lower()) {
      if (tier.state(block) == CopyState.LEAVING) {
        return true;
      }
    }
    return false;
  }
}
