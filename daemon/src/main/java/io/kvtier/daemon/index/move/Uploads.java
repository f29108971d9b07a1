package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.LongQueue;
import io.kvtier.daemon.index.source.ObjectLine;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.daemon.index.transfer.Mover;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.PresenceCache.Presence;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * How blocks get to the object tier: from the first tier as the admission policy says, and from
 * lower tiers when they are evicted there. Confined to the index.
 */
public final class Uploads implements Ingestion.Target {
  /** How long after its refusal a block is not offered again. */
  private static final long REFUSAL_MS = 10_000;

  /** The most refused blocks that are remembered; beyond it, the oldest is offered again sooner. */
  private static final int REFUSALS_MAX = 1 << 16;

  private final Copies copies;
  private final ObjectLine objects;
  private final Mover mover;
  private final Directory directory;
  private final TierStack stack;
  private final ResidentTier first;
  private final Counters counters;
  private final BlockListener listener;
  private final Ingestion ingestion;
  private final ObjectLine.Confirmations confirmations = this::confirmed;
  private final LongSupplier clock;

  /** The refused blocks in the order of their refusals, each with its time in ms. */
  private final LongQueue refusals = new LongQueue(REFUSALS_MAX);

  private long refused;

  Uploads(MoveParts parts, ObjectLine objects, @Nullable ObjectParts tier) {
    directory = parts.core().directory();
    counters = parts.core().counters();
    clock = parts.core().clock();
    copies = parts.copies();
    mover = parts.mover();
    stack = parts.stack();
    first = stack.first();
    listener = parts.listener();
    this.objects = objects;
    ingestion = new Ingestion(this, directory, first, tier == null ? "all" : tier.admission());
  }

  /** How many blocks the store has refused. */
  public long refused() {
    return refused;
  }

  public Ingestion ingestion() {
    return ingestion;
  }

  /** Settles questions about objects that are answered; returns how many. */
  int collect() {
    return objects.collectConfirmed(confirmations);
  }

  @Override
  public boolean isConfigured() {
    return objects.isConfigured();
  }

  @Override
  public int blocksMax() {
    return directory.blocksMax();
  }

  @Override
  public boolean lacks(int block) {
    return !directory.has(
        Directory.FLAG_OBJECT | Directory.FLAG_UPLOADING | Directory.FLAG_REFUSED, block);
  }

  /**
   * Remembers that the store refused a block. A block that is offered again at every eviction would
   * hold up others. A block that is never offered again would be lost although the store may refuse
   * only for a time, for example while credentials are expired.
   */
  private void refused(int block) {
    refused++;
    if (refusals.isFull()) {
      endRefusal();
    }
    directory.set(Directory.FLAG_REFUSED, block, true);
    var _ = refusals.offer(nowMs() << Integer.SIZE | block);
  }

  /**
   * Ends the oldest refusal. The number may be another block's by now: at worst, that block is
   * offered sooner.
   */
  private void endRefusal() {
    directory.set(Directory.FLAG_REFUSED, (int) refusals.poll(), false);
  }

  /** The time in ms, in 32 bits: they last far longer than a refusal. */
  private long nowMs() {
    return clock.getAsLong() / 1_000_000 & 0xffff_ffffL;
  }

  /** Uploads blocks that were admitted early, and ends refusals whose time is over. */
  void advance() {
    while (refusals.size() > 0
        && (int) nowMs() - (int) (refusals.peek() >>> Integer.SIZE) >= REFUSAL_MS) {
      endRefusal();
    }
    ingestion.advance();
  }

  @Override
  public boolean isFull(int block) {
    return false;
  }

  @Override
  public boolean start(int block) {
    return startUpload(block, false);
  }

  @Override
  public boolean mayStartSoon() {
    return objects.takesStores();
  }

  /**
   * Why a block that is evicted from the last tier of this node is dropped; null when the block
   * must first become an object, or be confirmed to be one still.
   */
  Drops.@Nullable Reason reasonAgainst(int block) {
    if (!isConfigured()) {
      return Drops.Reason.NO_ROOM;
    }
    if (directory.has(Directory.FLAG_OBJECT, block) && objects.canConfirm()) {
      return null;
    }
    if (!lacks(block)) {
      return directory.has(Directory.FLAG_REFUSED, block)
          ? Drops.Reason.REFUSED
          : Drops.Reason.NO_ROOM;
    }
    if (!objects.takesStores()) {
      return Drops.Reason.STORE_AWAY;
    }
    if (!ingestion.admitsEvicted(block)) {
      return Drops.Reason.NO_ROOM;
    }
    // Nobody knows how long a deletion takes, and a waiting block would hold up others.
    return objects.removals().isGoing(block) ? Drops.Reason.BEING_DELETED : null;
  }

  /**
   * Writes a resident block to an object, or asks whether its object still exists.
   *
   * @param evict whether the first slot is freed by this
   * @return false when that can't be started now
   */
  boolean startUpload(int block, boolean evict) {
    if (evict && directory.has(Directory.FLAG_OBJECT, block)) {
      return startConfirmation(block, 0);
    }
    return mayStore(block) && begun(block, mover.outside().upload(block, evict));
  }

  /** As {@link #startUpload}, for a block that only a lower tier has. */
  boolean startSpill(int block, int tier) {
    if (directory.has(Directory.FLAG_OBJECT, block)) {
      return startConfirmation(block, tier);
    }
    return mayStore(block) && begun(block, mover.relays().toObject(block, tier));
  }

  private boolean startConfirmation(int block, int tier) {
    if (!objects.confirm(block, tier)) {
      return false;
    }
    directory.addUses(block, 1);
    mover.departures().confirming(block, tier == 0, 1);
    return true;
  }

  /**
   * Settles a question about an object. If the store did not answer, the earlier knowledge still
   * counts.
   */
  private void confirmed(int block, int tier, Presence presence) {
    mover.departures().confirming(block, tier == 0, -1);
    directory.addUses(block, -1);
    if (presence == Presence.ABSENT) {
      // The next eviction of the block stores it again, or drops it.
      objects.know(block, false);
    } else if (directory.has(Directory.FLAG_OBJECT, block)) {
      boolean leavesFirst = first.isEvictable(block);
      if (tier == 0 && leavesFirst) {
        boolean isStored = stack.storedIn(block) != null;
        copies.drop(block, first);
        if (isStored) {
          copies.dropLower(block);
        }
        return;
      }
      if (tier > 0
          && stack.at(tier).isEvictable(block)
          && (leavesFirst || !first.isResident(block))) {
        copies.drop(block, stack.at(tier));
        return;
      }
    }
    copies.settle(block);
  }

  private boolean mayStore(int block) {
    return objects.takesStores() && !objects.removals().isGoing(block);
  }

  private boolean begun(int block, boolean isBegun) {
    if (isBegun) {
      directory.set(Directory.FLAG_UPLOADING, block, true);
    }
    return isBegun;
  }

  /**
   * A write of a first copy to an object is over, well or not.
   *
   * @param evict whether it was made to free the first slot
   */
  void onUploaded(int block, Status status, boolean evict) {
    objects.removals().uploadEnded(block);
    boolean isLeaving = first.state(block) == CopyState.LEAVING;
    stored(block, status);
    if (stack.taker(block) == null) {
      listener.onStoreSettled(block, isLeaving ? Status.MISS : status);
    }
    if (status == Status.CORRUPT && first.isResident(block)) {
      copies.dropDamaged(block);
    } else if (status == Status.OK && evict && first.isEvictable(block)) {
      copies.drop(block, first);
    } else {
      copies.settle(block);
    }
  }

  /**
   * A write of a lower tier's copy to an object is over, well or not.
   *
   * @param isRead whether the copy could be read
   */
  void onSpilled(int block, ResidentTier from, Status status, boolean isRead) {
    objects.removals().uploadEnded(block);
    if (isRead) {
      stored(block, status);
    } else if (status == Status.CORRUPT) {
      counters.add(Counter.CORRUPT, 1);
    } else {
      counters.add(Counter.IO_ERRORS, 1);
    }
    if (status == Status.CORRUPT) {
      copies.dropDamaged(block, from);
    } else if (status == Status.OK
        && first.state(block) == CopyState.NONE
        && from.isEvictable(block)) {
      counters.add(Counter.SPILLED, 1);
      copies.drop(block, from);
    } else {
      copies.settle(block);
    }
  }

  private void stored(int block, Status status) {
    if (status == Status.DENIED) {
      refused(block);
    } else {
      directory.set(Directory.FLAG_REFUSED, block, false);
    }
    if (status == Status.OK) {
      counters.add(Counter.OBJECT_STORED, 1);
      counters.add(Counter.OBJECT_WRITTEN_BYTES, copies.storedBytes(block));
      objects.know(block, directory.isLinked(block));
    } else if (status != Status.CORRUPT) {
      counters.add(Counter.OBJECT_ERRORS, 1);
    }
  }

  /** How many blocks wait to be uploaded, or to be confirmed to be objects. */
  int waiting() {
    return ingestion.waiting() + objects.confirming();
  }
}
