package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.TierLine;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.function.IntConsumer;

/**
 * How slots are made free: which blocks leave the host tier and the SSD tier, and what is written
 * one tier down before. Acts as the eviction and admission policies decide. Confined to the index.
 */
final class Evictions {
  private static final int EVICTIONS_PER_ROUND = 64;
  private static final int SSD_VICTIMS_MAX = 16;
  private static final int SSD_VICTIMS_SHARE = 64;

  private final Directory directory;
  private final Copies copies;
  private final TierLine host;
  private final TierLine ssd;
  private final Mover mover;
  private final SsdLanes lanes;
  private final ObjectLine objects;
  private final Uploads uploads;
  private final Drops drops;
  private final Counters counters;
  private final BlockListener listener;
  private final WriteBudget budget;
  private final double freeTarget;
  private final ClassQueues fresh;
  private final ClassQueues promoted;
  private final SsdTarget ssdTarget = new SsdTarget();
  private final Ingestion ingestion;
  private final IntConsumer evictFromHost = this::evictFromHost;
  private final IntConsumer evictFromSsd = this::evictFromSsd;

  /**
   * Nothing is evicted yet.
   *
   * @param fresh the blocks of puts that wait for a host slot
   * @param promoted the blocks of lower tiers that wait for a host slot
   */
  Evictions(
      StoreParts parts,
      Limits limits,
      Copies copies,
      TierLine host,
      TierLine ssd,
      Mover mover,
      ObjectLine objects,
      Uploads uploads,
      Drops drops,
      ClassQueues fresh,
      ClassQueues promoted,
      BlockListener listener) {
    directory = parts.directory();
    counters = parts.counters();
    this.copies = copies;
    this.host = host;
    this.ssd = ssd;
    this.mover = mover;
    lanes = mover.lanes();
    this.objects = objects;
    this.uploads = uploads;
    this.drops = drops;
    this.fresh = fresh;
    this.promoted = promoted;
    this.listener = listener;
    budget = new WriteBudget(limits.ssdWriteBytesPerDay());
    freeTarget = limits.freeTarget();
    ingestion = new Ingestion(ssdTarget, directory, host, parts.ssd().admission());
  }

  /** SSD as the tier that blocks of the host tier are copied to. */
  private final class SsdTarget implements Ingestion.Target {
    @Override
    public boolean isConfigured() {
      return ssd.isConfigured();
    }

    @Override
    public int blocksMax() {
      return ssd.blocksMax();
    }

    @Override
    public boolean lacks(int block) {
      return ssd.state(block) == CopyState.NONE && copies.hasSsdClass(block);
    }

    @Override
    public boolean isFull(int block) {
      int sizeClass = copies.ssdClass(block);
      SlotAllocator slots = ssd.slots();
      return slots.unassignedRegions(slots.partOfClass(sizeClass)) == 0
          && slots.freeOfClass(sizeClass) == 0;
    }

    @Override
    public boolean start(int block) {
      return startStore(block, false);
    }

    @Override
    public boolean mayStartSoon() {
      return mayStoreSoon();
    }
  }

  /** Which host copies are written to SSD, and when. */
  Ingestion ingestion() {
    return ingestion;
  }

  /** The SSD tier as the target of writes. */
  Ingestion.Target ssdTarget() {
    return ssdTarget;
  }

  /** Whether a lower tier takes what leaves the host tier: it may be fenced for the moment. */
  private boolean hasLowerTier(int block) {
    return copies.hasSsdClass(block) && !lanes.isAllGivenUp();
  }

  /**
   * Makes room for a block that waits. Called every round, while a write to a lower tier takes many
   * rounds: no more blocks are written than wait, but blocks that can leave at once leave.
   */
  void makeRoomForWaiting(int sizeClass, long session, boolean mayDoubt) {
    int wanted = waiting(sizeClass);
    boolean mayWrite = mover.evictions(sizeClass) < Math.max(1, wanted);
    var _ = makeRoom(sizeClass, session, mayWrite, mayDoubt);
  }

  /**
   * Empties a region that drains, or evicts one block of a size class, or starts to.
   *
   * @param mayWrite whether a block may go that has to be written to a lower tier before
   * @param mayDoubt whether a doubtful slot is of use
   * @return true when a slot was freed at once
   */
  private boolean makeRoom(int sizeClass, long session, boolean mayWrite, boolean mayDoubt) {
    int victim = host.victim(sizeClass, session, lanes.inFlight(), mayDoubt);
    if (host.drain(host.slots().partOfClass(sizeClass), evictFromHost)) {
      return true;
    }
    return victim != EvictionPolicy.NONE
        && host.isEvictable(victim)
        && (mayWrite || ssd.isResident(victim))
        && evictFromHost(victim);
  }

  private boolean evictFromHost(int block) {
    if (!ssd.isResident(block)) {
      boolean isBelow = hasLowerTier(block);
      boolean isRefused =
          isBelow && ssd.state(block) == CopyState.NONE && !ingestion.admitsEvicted(block);
      if (isBelow && !isRefused) {
        boolean isRoomBelow =
            ssd.state(block) != CopyState.NONE
                || !lanes.isAnyWell()
                || startStore(block, true)
                || lanes.isBusy()
                || mover.spills() > 0
                || objects.confirming() > 0
                || !budget.isOpen();
        if (isRoomBelow) {
          return false;
        }
        // No slot on SSD, and nothing under way that would free one: that tier has no room.
      }
      boolean isDropped = evictLastCopy(block);
      // One that can't go yet is asked about again.
      boolean isOut = isDropped || directory.has(Directory.FLAG_UPLOADING, block);
      counters.add(Counter.NOT_ADMITTED, isRefused && isOut ? 1 : 0);
      return isDropped;
    }
    copies.dropHostCopy(block);
    return true;
  }

  /**
   * Evicts a host copy that is the last copy on this node, or starts to: where the object tier
   * wants the block, it goes there first.
   *
   * @return true when the copy is dropped
   */
  boolean evictLastCopy(int block) {
    Drops.Reason reason = uploads.reasonAgainst(block);
    if (reason == null) {
      // Started, or to be started when another is done, or what stands in the way has gone.
      boolean ignored = uploads.startUpload(block, true);
      return false;
    }
    drops.count(block, reason);
    copies.dropHostCopy(block);
    return true;
  }

  /**
   * Writes a resident block to SSD.
   *
   * @return false when that can't be started now: the pipeline is full, the device is fenced, or
   *     every slot there is in use
   */
  boolean startStore(int block, boolean evict) {
    if (!budget.isOpen() || !mover.canStore(copies.tenant(block)) || !allocateSsd(block)) {
      return false;
    }
    if (!mover.store(block, evict)) {
      ssd.takeBack(block);
      return false;
    }
    budget.spend(copies.blockBytes(block));
    ssd.setState(block, CopyState.STAGING);
    return true;
  }

  /** Whether a store that could not be started may be, soon. */
  boolean mayStoreSoon() {
    return lanes.isAnyWell() && (lanes.isBusy() || !budget.isOpen());
  }

  /** Whether no more may be written to SSD for the moment. */
  boolean isOutOfBudget() {
    return !budget.isOpen();
  }

  /** Another amount that may be written to SSD in a day. */
  void changeBudget(long bytesPerDay) {
    budget.change(bytesPerDay);
  }

  /**
   * Has the blocks of the host tier leave whose turn it would be.
   *
   * @return how many are out, or on their way
   */
  int evict(int blocksMax) {
    int left = 0;
    for (int sizeClass = 0; sizeClass < host.slots().classes(); sizeClass++) {
      while (left < blocksMax) {
        int under = mover.evictions(sizeClass);
        if (!makeRoom(sizeClass, SlotAllocator.DAEMON, true, true)
            && mover.evictions(sizeClass) == under) {
          break;
        }
        left++;
      }
    }
    return left;
  }

  private boolean allocateSsd(int block) {
    int sizeClass = copies.ssdClass(block);
    if (ssd.allocate(block, sizeClass, SlotAllocator.DAEMON, true, false)) {
      return true;
    }
    makeRoomOnSsd(sizeClass);
    // A store comes when the rows of what was there have gone.
    lanes.forgetRows();
    return false;
  }

  /** Empties a region that drains, or evicts some blocks of a size class, or starts to. */
  private void makeRoomOnSsd(int sizeClass) {
    SlotAllocator slots = ssd.slots();
    int victim = ssd.victim(sizeClass, SlotAllocator.DAEMON, lanes.inFlight(), true);
    if (ssd.drain(slots.partOfClass(sizeClass), evictFromSsd)) {
      return;
    }
    // Several slots are made free for one wait for their rows.
    long slotsOfClass = (long) slots.regionsOfClass(sizeClass) * slots.slotsPerRegion(sizeClass);
    int count = Math.clamp(slotsOfClass / SSD_VICTIMS_SHARE, 1, SSD_VICTIMS_MAX);
    for (int i = 0; i < count && victim != EvictionPolicy.NONE && ssd.isEvictable(victim); i++) {
      int lane = slots.laneOf(slots.regionOf(ssd.slot(victim)));
      if (!evictFromSsd(victim) && ssd.isEvictable(victim)) {
        return;
      }
      victim = ssd.victimBeside(sizeClass, lane, lanes.inFlight());
    }
  }

  /**
   * A write to SSD is over, well or not.
   *
   * @param evict whether it was made to free the host slot
   * @param writtenBytes how many bytes were written for the block's own
   */
  void onStored(int block, Status status, boolean evict, int writtenBytes) {
    if (ssd.state(block) == CopyState.LEAVING) {
      listener.onStoreSettled(block, Status.MISS);
      copies.settle(block);
      return;
    }
    if (status == Status.OK) {
      ssd.becomeResident(block);
      budget.spend((long) writtenBytes - copies.blockBytes(block));
      counters.add(Counter.SSD_WRITTEN_BYTES, writtenBytes);
      counters.add(Counter.DEMOTIONS, 1);
    } else {
      ssd.discard(block);
    }
    listener.onStoreSettled(block, status);
    switch (status) {
      case OK -> {
        if (evict && host.isEvictable(block)) {
          copies.dropHostCopy(block);
          return;
        }
      }
      case CORRUPT -> {
        if (host.isResident(block)) {
          copies.dropDamaged(block);
          return;
        }
      }
      default -> counters.add(Counter.IO_ERRORS, 1);
    }
    copies.settle(block);
  }

  /**
   * Evicts a block from SSD, or starts to: where the object tier wants it, it goes there first.
   *
   * @return true when the copy is dropped
   */
  boolean evictFromSsd(int block) {
    if (host.state(block) == CopyState.NONE) {
      Drops.Reason reason = uploads.reasonAgainst(block);
      if (reason == null) {
        boolean ignored = uploads.startSpill(block);
        return false;
      }
      drops.count(block, reason);
    }
    copies.dropSsdCopy(block);
    return true;
  }

  // ---- each round

  /** Counts the time that the budget of writes to SSD is spread over. */
  void advanceBudget(long nowNs) {
    budget.advance(nowNs);
  }

  /** Goes on with regions that drain, and evicts ahead of need. */
  void advance() {
    host.drain(evictFromHost);
    ssd.drain(evictFromSsd);
    boolean ssdTakes = lanes.isAnyWell();
    boolean objectsTake = objects.takesStores();
    int classes = host.slots().classes();
    for (int sizeClass = 0; sizeClass < classes; sizeClass++) {
      if (copies.hasSsd(host.slots().partOfClass(sizeClass)) ? ssdTakes : objectsTake) {
        evictAhead(sizeClass);
      }
    }
  }

  private void evictAhead(int sizeClass) {
    SlotAllocator hostSlots = host.slots();
    int regions = hostSlots.regionsOfClass(sizeClass);
    if (regions == 0) {
      return;
    }
    long total = (long) regions * hostSlots.slotsPerRegion(sizeClass);
    int target =
        (int) Math.min(total / 4, Math.max(1, (long) (total * freeTarget))) + waiting(sizeClass);
    int tenant = hostSlots.partOfClass(sizeClass);
    for (int i = 0; i < EVICTIONS_PER_ROUND; i++) {
      int under = mover.evictions(sizeClass);
      boolean canStart = copies.hasSsd(tenant) ? mover.canStore(tenant) : mover.canUpload(tenant);
      if (hostSlots.unassignedRegions(tenant) > 0
          || hostSlots.freeOfClass(sizeClass) + under >= target
          || !canStart) {
        return;
      }
      if (!makeRoom(sizeClass, SlotAllocator.DAEMON, true, true)
          && mover.evictions(sizeClass) == under) {
        return;
      }
    }
  }

  /** How many blocks of a size class wait for a host slot. */
  private int waiting(int sizeClass) {
    return fresh.waiting(sizeClass) + promoted.waiting(sizeClass);
  }

  /** Whether the daemon itself is about to free a slot of a size class. */
  boolean isRoomUnderWay(int sizeClass) {
    boolean isLowerTierBusy = lanes.isBusy() || mover.spills() > 0 || mover.objectsInFlight() > 0;
    return mover.stores(sizeClass) > 0
        || (host.isRoomComing(sizeClass) && isLowerTierBusy && budget.isOpen());
  }
}
