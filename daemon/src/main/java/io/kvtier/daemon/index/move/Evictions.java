package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.lane.Lanes;
import io.kvtier.daemon.index.source.ObjectLine;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.daemon.index.transfer.LowerTier;
import io.kvtier.daemon.index.transfer.LowerTiers;
import io.kvtier.daemon.index.transfer.Mover;
import io.kvtier.daemon.index.transfer.Settlement;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntConsumer;

/**
 * How slots are made free: which blocks leave their tiers, and which of them are written further
 * down first. Acts as the eviction and admission policies decide. Confined to the index.
 */
public final class Evictions {
  private static final int EVICTIONS_PER_ROUND = 64;
  private static final int VICTIMS_MAX = 16;
  private static final int VICTIMS_SHARE = 64;

  private final CopyTable table;
  private final Directory directory;
  private final Copies copies;
  private final TierStack stack;
  private final ResidentTier first;
  private final LowerTiers lower;
  private final Mover mover;
  private final ObjectLine objects;
  private final Uploads uploads;
  private final Drops drops;
  private final Counters counters;
  private final BlockListener listener;
  private final double freeTarget;
  private final ClassQueues fresh;
  private final ClassQueues promoted;
  private final List<Ingestion> ingestions = new ArrayList<>();
  private final IntConsumer[] evictFrom;

  /**
   * Nothing is evicted yet.
   *
   * @param freeTarget the share of the first tier's slots that is kept free
   * @param fresh the blocks of puts that wait for a first slot
   * @param promoted the blocks of lower tiers that wait for a first slot
   */
  Evictions(
      MoveParts parts,
      ObjectLine objects,
      Uploads uploads,
      double freeTarget,
      ClassQueues fresh,
      ClassQueues promoted) {
    directory = parts.core().directory();
    table = directory.copies();
    counters = parts.core().counters();
    copies = parts.copies();
    stack = parts.stack();
    first = stack.first();
    lower = parts.lower();
    mover = parts.mover();
    drops = parts.drops();
    listener = parts.listener();
    this.objects = objects;
    this.uploads = uploads;
    this.freeTarget = freeTarget;
    this.fresh = fresh;
    this.promoted = promoted;
    for (LowerTier tier : lower) {
      ingestions.add(new Ingestion(new Target(tier), directory, first, tier.parts().admission()));
    }
    evictFrom = new IntConsumer[stack.count()];
    for (ResidentTier tier : stack.all()) {
      evictFrom[tier.number()] = block -> evict(block, tier);
    }
  }

  /** A lower tier that blocks of the first are copied to. */
  private final class Target implements Ingestion.Target {
    private final LowerTier lowerTier;
    private final ResidentTier tier;

    Target(LowerTier lowerTier) {
      this.lowerTier = lowerTier;
      tier = lowerTier.tier();
    }

    @Override
    public boolean isConfigured() {
      return tier.isConfigured();
    }

    @Override
    public int blocksMax() {
      return tier.blocksMax();
    }

    @Override
    public boolean lacks(int block) {
      return tier.state(block) == CopyState.NONE && tier.takes(block);
    }

    @Override
    public boolean isFull(int block) {
      int sizeClass = tier.sizeClass(block);
      SlotAllocator slots = tier.slots();
      return slots.unassignedRegions(slots.partOfClass(sizeClass)) == 0
          && slots.freeOfClass(sizeClass) == 0;
    }

    @Override
    public boolean start(int block) {
      return startStore(block, lowerTier, false);
    }

    @Override
    public boolean mayStartSoon() {
      return lowerTier.mayStoreSoon();
    }
  }

  /** The ingestions of the lower tiers, in the order of the tiers. */
  List<Ingestion> ingestions() {
    return ingestions;
  }

  /** The ingestion of a lower tier: which first copies are written there, and when. */
  public Ingestion ingestion(ResidentTier tier) {
    return ingestions.get(tier.number() - 1);
  }

  /**
   * Has a block of the first tier written to the next lower tier that takes it, whatever the
   * admission policy says of it.
   */
  public void storeEarly(int block) {
    ResidentTier taker = stack.taker(block);
    if (taker != null) {
      ingestion(taker).take(block);
    }
  }

  /** How many blocks wait to be written to lower tiers. */
  int waiting() {
    int waiting = 0;
    for (Ingestion one : ingestions) {
      waiting += one.waiting();
    }
    return waiting;
  }

  // ---- the first tier

  /**
   * Frees a slot for a waiting block. This is called every round, while a write to a lower tier
   * takes many rounds. Therefore not more blocks are written than blocks wait. Blocks that can
   * leave at once leave.
   */
  void makeRoomForWaiting(int sizeClass, long session, boolean mayDoubt) {
    int wanted = waiting(sizeClass);
    boolean mayWrite = mover.departures().evictions(sizeClass) < Math.max(1, wanted);
    var _ = makeRoom(sizeClass, session, mayWrite, mayDoubt);
  }

  /**
   * Empties a region that drains, or evicts one block of a size class, or starts to.
   *
   * @param mayWrite whether the victim may be a block that must first be written to a lower tier
   * @param mayDoubt whether a doubtful slot is of use
   * @return true when a slot was freed at once
   */
  private boolean makeRoom(int sizeClass, long session, boolean mayWrite, boolean mayDoubt) {
    int victim = first.victims().next(sizeClass, session, lower.inFlight(), mayDoubt);
    if (first.drain(first.slots().partOfClass(sizeClass), evictFrom[0])) {
      return true;
    }
    return victim != EvictionPolicy.NONE
        && first.isEvictable(victim)
        && (mayWrite || stack.storedIn(victim) != null)
        && evict(victim, first);
  }

  /**
   * Evicts the next blocks of the first tier, in the order of its policy.
   *
   * @return how many blocks have left, or are on their way
   */
  public int evict(int blocksMax) {
    int left = 0;
    for (int sizeClass = 0; sizeClass < first.slots().classes(); sizeClass++) {
      while (left < blocksMax) {
        int under = mover.departures().evictions(sizeClass);
        if (!makeRoom(sizeClass, SlotAllocator.DAEMON, true, true)
            && mover.departures().evictions(sizeClass) == under) {
          break;
        }
        left++;
      }
    }
    return left;
  }

  // ---- any tier

  /**
   * Evicts a copy that can leave, or starts to. A block that no other tier has is first written
   * further down, where a tier takes it.
   *
   * @return true when the copy is dropped
   */
  private boolean evict(int block, ResidentTier tier) {
    boolean isKept =
        tier == first ? stack.storedIn(block) != null : table.isElsewhere(tier.number(), block);
    if (isKept) {
      copies.drop(block, tier);
      return true;
    }
    boolean isRefused = false;
    for (int below = tier.number() + 1; below < stack.count(); below++) {
      LowerTier target = lower.at(below);
      if (!target.takes(block)) {
        continue;
      }
      if (target.tier().state(block) == CopyState.NONE
          && !ingestion(target.tier()).admitsEvicted(block)) {
        isRefused = true;
      } else if (isGoingTo(target, block, tier)) {
        return false;
      }
      // The lower tier has no free slot, and nothing under way will free one.
    }
    boolean isDropped = evictLastCopy(block, tier);
    // A block that can't leave yet comes here again, and is counted then.
    boolean isOut = isDropped || directory.has(Directory.FLAG_UPLOADING, block);
    counters.add(Counter.NOT_ADMITTED, isRefused && isOut ? 1 : 0);
    return isDropped;
  }

  /** Whether a block is on its way to a lower tier, or waits for that. */
  private boolean isGoingTo(LowerTier target, int block, ResidentTier from) {
    Lanes lanes = target.lanes();
    return target.tier().state(block) != CopyState.NONE
        || !lanes.isAnyWell()
        || start(block, from, target, true)
        || lanes.isBusy()
        || mover.relays().count() > 0
        || objects.confirming() > 0
        || !target.budget().isOpen();
  }

  /**
   * Evicts a copy that is the last one on this node, or starts to: where the object tier wants the
   * block, it goes there first.
   *
   * @return true when the copy is dropped
   */
  boolean evictLastCopy(int block, ResidentTier tier) {
    Drops.Reason reason = uploads.reasonAgainst(block);
    if (reason == null) {
      // The write has begun, or begins when another write or a deletion is over.
      boolean ignored =
          tier == first
              ? uploads.startUpload(block, true)
              : uploads.startSpill(block, tier.number());
      return false;
    }
    drops.count(block, reason);
    copies.drop(block, tier);
    return true;
  }

  // ---- writes to lower tiers

  /**
   * Writes a resident block to a lower tier.
   *
   * @return false when that can't be started now: the pipeline is full, the device is fenced, or
   *     every slot there is in use
   */
  public boolean startStore(int block, LowerTier target, boolean evict) {
    return start(block, first, target, evict);
  }

  /** Begins the store of a copy of the first tier, or the relay of a copy of a lower one. */
  private boolean start(int block, ResidentTier from, LowerTier target, boolean evict) {
    if (!target.budget().isOpen()
        || !mover.below().canStore(copies.tenant(block), target)
        || !allocate(block, target)) {
      return false;
    }
    boolean isTaken =
        from == first
            ? mover.below().store(block, target, evict)
            : mover.relays().toTier(block, from.number(), target.number());
    if (!isTaken) {
      target.tier().takeBack(block);
      return false;
    }
    target.budget().spend(copies.storedBytes(block));
    target.tier().setState(block, CopyState.STAGING);
    return true;
  }

  private boolean allocate(int block, LowerTier target) {
    ResidentTier tier = target.tier();
    int sizeClass = tier.sizeClass(block);
    if (tier.allocate(
        block, sizeClass, SlotAllocator.DAEMON, true, false, SlotAllocator.ANY_LANE)) {
      return true;
    }
    makeRoomIn(target, sizeClass);
    // A store can begin when the rows of the evicted blocks are deleted.
    target.lanes().forgetRows();
    return false;
  }

  /** Empties a region that drains, or evicts some blocks of a size class, or starts to. */
  private void makeRoomIn(LowerTier target, int sizeClass) {
    ResidentTier tier = target.tier();
    SlotAllocator slots = tier.slots();
    int inFlight = target.lanes().inFlight();
    int victim = tier.victims().next(sizeClass, SlotAllocator.DAEMON, inFlight, true);
    if (tier.drain(slots.partOfClass(sizeClass), evictFrom[tier.number()])) {
      return;
    }
    // Several slots are freed at once, so that the deletions of their rows share one wait.
    long slotsOfClass = (long) slots.regionsOfClass(sizeClass) * slots.slotsPerRegion(sizeClass);
    int count = Math.clamp(slotsOfClass / VICTIMS_SHARE, 1, VICTIMS_MAX);
    for (int i = 0; i < count && victim != EvictionPolicy.NONE && tier.isEvictable(victim); i++) {
      int lane = slots.laneOf(slots.regionOf(tier.slot(victim)));
      if (!evict(victim, tier) && tier.isEvictable(victim)) {
        return;
      }
      victim = tier.victims().beside(sizeClass, lane, target.lanes().inFlight());
    }
  }

  /** A write to a lower tier is over, well or not. */
  void onStored(Settlement store) {
    int block = store.block;
    ResidentTier from = stack.at(store.from);
    LowerTier target = lower.at(store.to);
    ResidentTier tier = target.tier();
    if (tier.state(block) == CopyState.LEAVING) {
      listener.onStoreSettled(block, Status.MISS);
      copies.settle(block);
      return;
    }
    if (store.status == Status.OK) {
      tier.becomeResident(block);
      target.budget().spend((long) store.writtenBytes - copies.storedBytes(block));
      counters.add(tier.traits().counts().writtenBytes(), store.writtenBytes);
      counters.add(Counter.DEMOTIONS, 1);
    } else {
      tier.discard(block);
    }
    listener.onStoreSettled(block, store.status);
    switch (store.status) {
      case OK -> {
        if (store.isEviction && from.isEvictable(block)) {
          copies.drop(block, from);
          return;
        }
      }
      case CORRUPT -> {
        if (from != first) {
          counters.add(Counter.CORRUPT, 1);
          copies.dropDamaged(block, from);
          return;
        }
        if (first.isResident(block)) {
          copies.dropDamaged(block);
          return;
        }
      }
      default -> counters.add(Counter.IO_ERRORS, 1);
    }
    copies.settle(block);
  }

  // ---- each round

  /** Goes on with regions that drain, and evicts ahead of need. */
  void advance() {
    for (int tier = 0; tier < evictFrom.length; tier++) {
      stack.at(tier).drain(evictFrom[tier]);
    }
    int classes = first.slots().classes();
    for (int sizeClass = 0; sizeClass < classes; sizeClass++) {
      if (isTakenBelow(first.slots().partOfClass(sizeClass))) {
        evictAhead(sizeClass);
      }
    }
  }

  /** Whether any lower tier, or the object tier where there is none, takes a tenant's blocks. */
  private boolean isTakenBelow(int tenant) {
    boolean hasLower = false;
    for (LowerTier tier : lower) {
      if (tier.tier().hasSpaceFor(tenant)) {
        if (tier.lanes().isAnyWell()) {
          return true;
        }
        hasLower = true;
      }
    }
    return !hasLower && objects.takesStores();
  }

  /** As {@link #isTakenBelow}, whether a write could be handed over now. */
  private boolean canStart(int tenant) {
    boolean hasLower = false;
    for (LowerTier tier : lower) {
      if (tier.tier().hasSpaceFor(tenant)) {
        if (mover.below().canStore(tenant, tier)) {
          return true;
        }
        hasLower = true;
      }
    }
    return !hasLower && mover.outside().canUpload(tenant);
  }

  private void evictAhead(int sizeClass) {
    SlotAllocator slots = first.slots();
    int regions = slots.regionsOfClass(sizeClass);
    if (regions == 0) {
      return;
    }
    long total = (long) regions * slots.slotsPerRegion(sizeClass);
    int target =
        (int) Math.min(total / 4, Math.max(1, (long) (total * freeTarget))) + waiting(sizeClass);
    int tenant = slots.partOfClass(sizeClass);
    for (int i = 0; i < EVICTIONS_PER_ROUND; i++) {
      int under = mover.departures().evictions(sizeClass);
      if (slots.unassignedRegions(tenant) > 0
          || slots.freeOfClass(sizeClass) + under >= target
          || !canStart(tenant)) {
        return;
      }
      if (!makeRoom(sizeClass, SlotAllocator.DAEMON, true, true)
          && mover.departures().evictions(sizeClass) == under) {
        return;
      }
    }
  }

  /** How many blocks of a size class wait for a first slot. */
  private int waiting(int sizeClass) {
    return fresh.waiting(sizeClass) + promoted.waiting(sizeClass);
  }

  /** Whether the daemon itself is about to free a first slot of a size class. */
  boolean isRoomUnderWay(int sizeClass) {
    if (mover.departures().stores(sizeClass) > 0) {
      return true;
    }
    boolean isBelowBusy =
        lower.isBusy() || mover.relays().count() > 0 || mover.outside().inFlight() > 0;
    return first.isRoomComing(sizeClass) && isBelowBusy && !lower.isAnyOutOfBudget();
  }
}
