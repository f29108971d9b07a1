package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.Sources;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.daemon.index.transfer.Mover;
import io.kvtier.daemon.index.transfer.Settlement;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.PresenceCache.Presence;
import java.lang.foreign.MemorySegment;

/** How blocks come from the sources to the first tier. Confined to the index. */
public final class Fetches {
  private final Directory directory;
  private final Namespaces namespaces;
  private final Counters counters;
  private final Sources sources;
  private final Mover mover;
  private final TierStack stack;
  private final ResidentTier first;
  private final Copies copies;
  private final Drops drops;
  private final Records records;
  private final Promotions promotions;
  private final Arrivals arrivals;
  private final BlockSource.Finder finder = this::found;

  Fetches(
      MoveParts parts, Sources sources, Records records, Promotions promotions, Arrivals arrivals) {
    directory = parts.core().directory();
    namespaces = parts.core().namespaces();
    counters = parts.core().counters();
    mover = parts.mover();
    stack = parts.stack();
    first = stack.first();
    copies = parts.copies();
    drops = parts.drops();
    this.sources = sources;
    this.records = records;
    this.promotions = promotions;
    this.arrivals = arrivals;
  }

  /**
   * Fetches the block whose key the directory sought last, and did not find, if a source may have
   * it. If no source is known to have the block, the first source that may have it is asked first.
   *
   * @param prefetch whether the block is wanted even when nobody waits for it
   * @return the block, on its way to the first tier, or {@link Directory#NONE}
   */
  public int fetchSought(
      Namespaces.Namespace namespace, int group, int keyBytes, int priority, boolean prefetch) {
    if (promotions.isFull()) {
      return Directory.NONE;
    }
    int present = sources.find(namespace, keyBytes, group, true);
    boolean isPresent = present != Sources.NONE;
    int source = isPresent ? present : sources.unknown();
    if (source == Sources.NONE) {
      return Directory.NONE;
    }
    int block = beginFetch(namespace, group, keyBytes, source, isPresent);
    if (block == Directory.NONE) {
      return Directory.NONE;
    }
    if (isPresent) {
      promotions.add(block, priority, prefetch);
    } else if (!sources.at(source).ask(block, priority, prefetch)) {
      miss(block);
      return Directory.NONE;
    }
    return block;
  }

  /**
   * Fetches the block whose key the directory sought last, and did not find, from where it is known
   * to be. If that is nowhere, waits for the block at a node that is going to have it. If no node
   * is connected, fetches it as always.
   *
   * @param node the CRC32C of the node's name or address
   * @param deadlineNs when the block is given up
   * @return the block, on its way to the first tier, or {@link Directory#NONE}
   */
  public int expectSought(
      Namespaces.Namespace namespace,
      int group,
      int keyBytes,
      int priority,
      int node,
      long deadlineNs) {
    int expecting = sources.expecting();
    if (expecting == Sources.NONE || !sources.at(expecting).isOpen()) {
      return fetchSought(namespace, group, keyBytes, priority, false);
    }
    if (promotions.isFull()) {
      return Directory.NONE;
    }
    int present = sources.find(namespace, keyBytes, group, true);
    int source = present == Sources.NONE ? expecting : present;
    int block = beginFetch(namespace, group, keyBytes, source, true);
    if (block != Directory.NONE) {
      sources.at(source).expect(block, node, deadlineNs);
      promotions.add(block, priority, false);
    }
    return block;
  }

  /** Adds the block that was sought last, without a slot. */
  private int beginFetch(
      Namespaces.Namespace namespace, int group, int keyBytes, int source, boolean isWanted) {
    int block = records.insertSought(namespace, group, keyBytes, isWanted);
    if (block != Directory.NONE) {
      directory.setLineage(block, 0, 0);
      directory.addUses(block, 1);
      directory.set(Directory.FLAG_FETCHING, block, true);
      setSource(block, source);
      first.setState(block, CopyState.STAGING);
    }
    return block;
  }

  /** Settles questions of gets that are answered; returns how many. */
  int collect() {
    return sources.collect(finder);
  }

  private void found(int block, int priority, boolean prefetch, Presence presence) {
    if (first.state(block) == CopyState.LEAVING) {
      directory.set(Directory.FLAG_FETCHING, block, false);
      copies.endUse(block);
    } else if (presence == Presence.PRESENT && !promotions.isFull()) {
      promotions.add(block, priority, prefetch);
    } else if (!askNext(block, priority, prefetch)) {
      miss(block);
    }
  }

  /**
   * Sets the source that a block without a slot is fetched from, and the form that the block
   * probably has there.
   */
  private void setSource(int block, int source) {
    directory.setSource(block, source);
    directory.set(Directory.FLAG_ENCODED, block, isEncodedIn(block, source));
  }

  private boolean isEncodedIn(int block, int source) {
    return namespaces.of(directory, block).encoding() != null && sources.at(source).keepsForms();
  }

  /** Asks the next source that may have a block, or reads it; false when there is none. */
  private boolean askNext(int block, int priority, boolean prefetch) {
    for (int next = directory.source(block) + 1; next < sources.count(); next++) {
      BlockSource source = sources.at(next);
      Presence presence = source.isOpen() ? source.presenceOf(block) : Presence.ABSENT;
      setSource(block, next);
      if (presence == Presence.PRESENT && !promotions.isFull()) {
        promotions.add(block, priority, prefetch);
        return true;
      }
      if (presence == Presence.UNKNOWN && source.ask(block, priority, prefetch)) {
        return true;
      }
    }
    return false;
  }

  /**
   * Ends a fetch without the block. The block leaves the directory before the waiting requests are
   * answered.
   */
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

  /** A read from a source into the first slot is over, well or not. */
  void onFetched(Settlement fetch) {
    int block = fetch.block;
    Status status = fetch.status;
    BlockSource source = sources.at(fetch.source);
    BlockSource.Traits traits = source.traits();
    boolean isLeaving = first.state(block) == CopyState.LEAVING;
    if (status == Status.OK) {
      annotate(block, fetch.annotation, fetch.annotationBytes);
      counters.add(traits.fetched(), 1);
      counters.add(traits.readBytes(), copies.storedBytes(block));
      directory.set(Directory.FLAG_FETCHING, block, false);
      if (isLeaving) {
        copies.endUse(block);
      } else {
        source.fetched(block, status);
        directory.addUses(block, -1);
        arrivals.becomeResident(block);
        copies.settle(block);
      }
      return;
    }
    if (status == Status.TOO_LARGE && !isLeaving && fetchOtherForm(block)) {
      return;
    }
    counters.add(Counter.CORRUPT, status == Status.CORRUPT ? 1 : 0);
    counters.add(traits.errors(), status == Status.MISS || status == Status.CORRUPT ? 0 : 1);
    source.fetched(block, status);
    if (!isLeaving && fetchInstead(block, fetch.source)) {
      return;
    }
    // A block that was deleted meanwhile is no drop: both its copies leave.
    if (isLeavingBelow(block) && !isLeaving) {
      boolean isDamaged = directory.has(Directory.FLAG_DAMAGED, block);
      drops.count(block, isDamaged ? Drops.Reason.DAMAGED : Drops.Reason.UNREADABLE);
    }
    miss(block);
  }

  /**
   * Reads a block again whose object has the other form than was expected; false when that can't be
   * started.
   */
  private boolean fetchOtherForm(int block) {
    if (!canMove(block)) {
      return false;
    }
    moveTo(block, !directory.has(Directory.FLAG_ENCODED, block));
    return true;
  }

  /** Whether a block that is fetched can get another form: all its copies have one form. */
  private boolean canMove(int block) {
    return !promotions.isFull() && stack.storedIn(block) == null;
  }

  /** Gives a block that is fetched a slot for its other form. */
  private void moveTo(int block, boolean isEncoded) {
    first.takeBack(block);
    directory.set(Directory.FLAG_ENCODED, block, isEncoded);
    promotions.add(block, RequestDescriptor.PRIORITY_HIGH, true);
  }

  /** Reads a block from the next source that has it; false when that can't be started. */
  private boolean fetchInstead(int block, int source) {
    int next = sources.after(source, block);
    if (next != Sources.NONE
        && isEncodedIn(block, next) != directory.has(Directory.FLAG_ENCODED, block)) {
      if (!canMove(block)) {
        return false;
      }
      directory.setSource(block, next);
      moveTo(block, isEncodedIn(block, next));
      return true;
    }
    if (next == Sources.NONE
        || !mover.outside().fetch(block, next, RequestDescriptor.PRIORITY_HIGH)) {
      return false;
    }
    directory.setSource(block, next);
    return true;
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
