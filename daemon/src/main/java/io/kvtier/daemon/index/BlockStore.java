package io.kvtier.daemon.index;

import io.kvtier.daemon.config.HeapRoom;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.ssd.SlotHeaderDescriptor;
import io.kvtier.tiers.transfer.Checksums;
import java.lang.foreign.MemorySegment;
import java.util.EnumSet;
import java.util.Set;
import java.util.function.IntConsumer;
import java.util.function.IntFunction;
import java.util.function.IntUnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * The mechanism under the verbs: how a block's copies come, move between tiers and go. It acts as
 * the policies decide. Confined to the index.
 *
 * <p>A block that the daemon works on, or that somebody waits for, is in use; a block that is in
 * use or held by a client is never a victim. A block that was deleted leaves the directory at once
 * and its slots as soon as nothing needs them.
 */
final class BlockStore implements Mover.Listener {
  /** What the verbs hear of. */
  interface Listener {
    /** The host copy became resident, or failed to: those who wait for the block are answered. */
    void onHostSettled(int block, Status status);

    /** The SSD copy became resident, or failed to. */
    void onStoreSettled(int block, Status status);

    /** A block leaves the directory: nobody can name it any more to end the pins on it. */
    void onForgotten(int block);

    /** A block's record has come to its end, whatever the reason: its number may be another's. */
    void onFreed(int block);

    /** Whether anybody waits for the host copy. */
    boolean isAwaited(int block);

    /** How many fresh blocks of a size class wait for a slot: they count toward what is evicted. */
    int waitingForSlot(int sizeClass);
  }

  private static final int EVICTIONS_PER_ROUND = 64;
  private static final int SSD_VICTIMS_MAX = 16;
  private static final int SSD_VICTIMS_SHARE = 64;

  private final Directory directory;
  private final TierLine host;
  private final TierLine ssd;
  private final Mover mover;
  private final IntFunction<MemorySegment> slabs;
  private final Counters counters;
  private final Drops drops;
  private final Namespaces namespaces;
  private final Listener listener;
  private final IndexAgent.Limits limits;
  private final SsdLanes lanes;
  private final HostRows hostRows;
  private final Ingestion ingestion;
  private final ObjectLine objects;
  private final ObjectProbes probes;
  private final ObjectMoves objectMoves;
  private final WriteBudget budget;
  private final Scrubber scrubber;
  private final Trials trials;
  private final ClassQueues checksumBacklog;
  private final ClassQueues auditBacklog;
  private final Promotions promotions;
  private final ClassQueues.Server serveChecksum = this::serveChecksum;
  private final ClassQueues.Server serveAudit = this::serveAudit;
  private final IntConsumer evictFromHost = this::evictFromHost;
  private final IntConsumer evictFromSsd = this::evictFromSsd;
  private final IntUnaryOperator tiersOf = this::tiersOf;
  private final Records records;
  private final @Nullable EventTap events;

  BlockStore(
      IndexAgent.Context context,
      IndexAgent.Limits limits,
      Namespaces namespaces,
      Listener listener) {
    this.directory = context.directory();
    this.counters = context.counters();
    this.drops = new Drops(directory, counters);
    EventRing ring = context.events();
    this.events = ring == null ? null : new EventTap(ring, directory);
    int[] recordsMax = Records.shares(directory, namespaces.tenants());
    this.hostRows =
        new HostRows(
            directory, namespaces, context.hostSlots(), context.hostLedger(), context.clock());
    TierLine.Common common =
        new TierLine.Common(
            directory, this::blockBytes, events, tenant -> recordsMax[tenant], HeapRoom::left);
    this.host =
        new TierLine(TierLine.HOST, common, context.hostSlots(), context.hostPolicy(), hostRows);
    this.ssd =
        new TierLine(TierLine.SSD, common, context.ssdSlots(), context.ssdPolicy(), new SsdRows());
    SsdTarget ssdTarget = new SsdTarget();
    this.ingestion = new Ingestion(ssdTarget, directory, host, context.ssdAdmission());
    // A tier without space never has a copy.
    directory.watch(ssd.isConfigured() ? this::recount : host::recount);
    this.objects = new ObjectLine(context.objects(), directory, namespaces, events);
    this.probes =
        new ObjectProbes(
            objects, context.objects(), directory, namespaces, listener, limits.holdsMax());
    this.objectMoves = new ObjectMoves(this, objects, probes, context);
    this.mover = new Mover(context, limits, namespaces, host, ssd, this, objectMoves);
    this.lanes = mover.lanes();
    ssd.setAsideOn(lane -> lanes.at(lane).isFenced());
    this.budget = new WriteBudget(limits.ssdWriteBytesPerDay());
    this.trials = new Trials(directory, host, ssdTarget, lanes);
    this.scrubber = new Scrubber(directory, ssd, mover, limits.scrubBytesPerSecond());
    this.slabs = context.slabs();
    this.limits = limits;
    this.namespaces = namespaces;
    this.listener = listener;
    int classes = host.slots().classesMax();
    checksumBacklog = new ClassQueues(classes, 1, limits.holdsMax());
    auditBacklog = new ClassQueues(classes, 1, limits.holdsMax());
    promotions =
        new Promotions(this, directory, host, mover, listener, context.latencies(), limits);
    records = new Records(this, directory, recordsMax);
  }

  /** The rows of the SSD tier: a store's pipeline writes them, the index has them forgotten. */
  private final class SsdRows implements TierLine.Rows {
    @Override
    public void added(int block) {}

    @Override
    public void removed(int block) {
      if (ssd.state(block) == CopyState.STAGING) {
        mover.giveUpStore(block);
      }
      lanes.forgetRow(block);
    }
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
      return ssd.state(block) == CopyState.NONE && hasSsdClass(block);
    }

    @Override
    public boolean isFull(int block) {
      int sizeClass = ssdClass(block);
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

  /** The tiers in which blocks are stored, below the host tier. */
  Set<TierId> storedTiers() {
    Set<TierId> tiers = EnumSet.noneOf(TierId.class);
    if (ssd.isConfigured()) {
      tiers.add(TierId.SSD);
    }
    if (objects.isConfigured()) {
      tiers.add(TierId.OBJECT);
    }
    return tiers;
  }

  TierLine host() {
    return host;
  }

  TierLine ssd() {
    return ssd;
  }

  Ingestion ingestion() {
    return ingestion;
  }

  Mover mover() {
    return mover;
  }

  /** Why what a later start needs of the host tier can't be written; empty while it can. */
  String hostTrouble() {
    return hostRows.trouble();
  }

  /** What was dropped, and why. */
  Drops drops() {
    return drops;
  }

  /** What is known of the object tier. */
  ObjectLine objects() {
    return objects;
  }

  /** What is being found out of it. */
  ObjectProbes probes() {
    return probes;
  }

  /** How blocks come from there, and get there. */
  ObjectMoves objectMoves() {
    return objectMoves;
  }

  /** What is told of blocks to others; null where there is nobody. */
  @Nullable EventTap events() {
    return events;
  }

  /** Whether somebody is to be told of all blocks, and could be now. */
  boolean isToWalk() {
    return events != null && events.isToWalk();
  }

  /** In which tiers a block is, as bits of {@link EventRecordDescriptor}. */
  private int tiersOf(int block) {
    return (host.isResident(block) ? EventRecordDescriptor.HOST : 0)
        | (ssd.isResident(block) ? EventRecordDescriptor.SSD : 0)
        | (directory.has(Directory.FLAG_OBJECT, block) ? EventRecordDescriptor.OBJECT : 0);
  }

  private void recount(int block) {
    host.recount(block);
    ssd.recount(block);
  }

  // ---- what is there

  boolean isVisible(int block) {
    return host.isResident(block) || ssd.isResident(block);
  }

  /** Whether there is anything to delete: visible, or on its way from the object tier. */
  boolean canBeDeleted(int block) {
    return isVisible(block) || directory.has(Directory.FLAG_FETCHING, block) || hasArrived(block);
  }

  /** The expected time to read that many bytes from SSD, ns, as measured. */
  long estimatedSsdReadNs(long bytes) {
    return mover.estimatedSsdReadNs(bytes);
  }

  /** The expected time to read that many objects, ns, as measured. */
  long estimatedFetchNs(int blocks) {
    return mover.estimatedFetchNs(blocks);
  }

  /** Whether a tenant has space on SSD. */
  boolean hasSsd(int tenant) {
    return ssd.slots().regionsOfPart(tenant) > 0;
  }

  /** The SSD size class of a tenant's blocks of that many bytes; NONE when they can't go there. */
  int ssdClassFor(int tenant, long blockBytes) {
    return hasSsd(tenant)
        ? ssd.slots().sizeClass(tenant, SlotHeaderDescriptor.HEADER_BYTES + blockBytes)
        : SlotAllocator.NONE;
  }

  /** The longest block that the SSD tier could take; no bound where there is none. */
  long storedBlockBytesMax() {
    return ssd.isConfigured()
        ? ssd.slots().regionBytes() - SlotHeaderDescriptor.HEADER_BYTES
        : Long.MAX_VALUE;
  }

  /** Whether the block has a place in the SSD tier's layout at all. */
  boolean hasSsdClass(int block) {
    return ssdClass(block) != SlotAllocator.NONE;
  }

  /** Whether a lower tier takes what leaves the host tier: it may be fenced for the moment. */
  private boolean hasLowerTier(int block) {
    return hasSsdClass(block) && !lanes.isAllGivenUp();
  }

  // ---- puts

  /**
   * Gives a fresh block a host slot for a session to write.
   *
   * @param isCopied whether its bytes come with the checksum of whoever copies them: then a slot
   *     will do that somebody else may still write. Of what the daemon makes the checksum, nobody
   *     would notice
   * @return false while there is none: something may have been started that frees one
   */
  boolean reserve(int block, int sizeClass, long session, boolean isCopied) {
    if (!host.allocate(block, sizeClass, session, false, isCopied)) {
      makeRoomForWaiting(sizeClass, session, isCopied);
      if (!host.allocate(block, sizeClass, session, true, isCopied)) {
        return false;
      }
    }
    host.setState(block, CopyState.RESERVED);
    return true;
  }

  /**
   * Whether somebody may still write a block's host slot who has lost it. Readers verify what they
   * have copied from there; a GPU does not, and gets nothing from there.
   */
  boolean isDoubtful(int block) {
    return host.slots().isDoubtful(host.slot(block));
  }

  /** A client gave a reservation back, or died with it. */
  void abandon(int block) {
    host.free(block);
    settle(block);
  }

  /** All layers of a block have come from a device: make the checksum, then show the block. */
  void arrived(int block) {
    directory.set(Directory.FLAG_ARRIVED, block, true);
    commit(block);
  }

  /** Whether all bytes of a block are in the host tier, and its checksum is being made. */
  boolean hasArrived(int block) {
    return directory.has(Directory.FLAG_ARRIVED, block);
  }

  /** The client has written: make the checksum, then show the block. */
  void commit(int block) {
    beginCommit(block);
    int length = blockBytes(block);
    // A commit gives its hold back: only the slots bound how many blocks wait for their checksum.
    // Those for which there is no place to wait are checked at once; clients wait meanwhile.
    if (length <= limits.inlineChecksumBytes()
        || (!mover.checksum(block) && !checksumBacklog.offer(hostClass(block), 0, block))) {
      int slot = host.slot(block);
      MemorySegment slab = slabs.apply(host.slots().regionOf(slot));
      finishCommit(block, Checksums.of(slab.asSlice(host.slots().offsetOf(slot), length)));
    }
  }

  /**
   * The client has written and made the checksum while it did: whoever reads or moves the block
   * will hold it to that.
   */
  void commitChecksummed(int block, int checksum) {
    beginCommit(block);
    finishCommit(block, checksum);
  }

  private void beginCommit(int block) {
    host.setState(block, CopyState.STAGING);
    directory.addUses(block, 1);
  }

  @Override
  public void onChecksum(int block, int checksum) {
    finishCommit(block, checksum);
  }

  private void finishCommit(int block, int checksum) {
    directory.set(Directory.FLAG_ARRIVED, block, false);
    directory.addUses(block, -1);
    if (host.state(block) == CopyState.LEAVING) {
      settle(block);
      return;
    }
    directory.setChecksum(block, checksum);
    counters.add(Counter.PUT_BLOCKS, 1);
    becomeResident(block);
  }

  /** A copy is in its host slot, and verified. */
  void becomeResident(int block) {
    int length = blockBytes(block);
    host.becomeResident(block);
    directory.clearHits(block);
    ingestion.inserted(block);
    // Also what is said to be an object: who accepts a block must not lose it for a mistake in
    // that.
    objectMoves.ingestion().inserted(block);
    counters.add(Counter.HOST_WRITTEN_BYTES, length);
    listener.onHostSettled(block, Status.OK);
  }

  /** A block has got its annotation. */
  void annotated(int block) {
    host.annotated(block);
    ssd.annotated(block);
  }

  // ---- gets

  /** A client holds a host copy that is resident, or has arrived. */
  void lease(int block) {
    directory.addHolds(block, 1);
    if (!host.isResident(block)) {
      // The policy meets it when its checksum is made.
      return;
    }
    host.hit(block);
    int hits = directory.addHit(block);
    ingestion.used(block, hits);
    objectMoves.ingestion().used(block, hits);
    // Also while it stands here: it may be dropped for being an object.
    objects.used(block);
  }

  /** A client holds a block, wherever it is. */
  void pin(int block) {
    directory.addHolds(block, 1);
  }

  /** A client no longer holds a block. */
  void release(int block) {
    directory.addHolds(block, -1);
    settle(block);
  }

  /** Keeps a block's record while something waits on its account. */
  void use(int block) {
    directory.addUses(block, 1);
  }

  void endUse(int block) {
    directory.addUses(block, -1);
    settle(block);
  }

  /**
   * Brings a block that is only on SSD to the host tier, now or as soon as there is room. Where its
   * device is fenced, it may come from the object tier.
   *
   * @param prefetch whether it is wanted even when nobody waits for it
   * @return false when too many wait already, or there is no way
   */
  boolean promote(int block, int priority, boolean prefetch) {
    boolean isOpen = lanes.of(block).isReadable();
    boolean isObject = directory.has(Directory.FLAG_OBJECT, block) && objects.isOpen();
    if (!mayPromote() || !(isOpen || isObject)) {
      return false;
    }
    directory.addUses(block, 1);
    host.setState(block, CopyState.STAGING);
    directory.set(Directory.FLAG_FETCHING, block, !isOpen);
    ssd.hit(block);
    promotions.add(block, priority, prefetch);
    return true;
  }

  /** Whether another block could wait for its host slot. */
  boolean mayPromote() {
    return !promotions.isFull();
  }

  /** The blocks that wait for their host slots. */
  Promotions promotions() {
    return promotions;
  }

  @Override
  public void onLoaded(int block, Status status) {
    boolean isLeaving = host.state(block) == CopyState.LEAVING;
    if (status == Status.OK) {
      counters.add(Counter.PROMOTIONS, 1);
      counters.add(Counter.SSD_READ_BYTES, blockBytes(block));
      if (!isLeaving) {
        directory.addUses(block, -1);
        becomeResident(block);
        return;
      }
    } else {
      counters.add(status == Status.CORRUPT ? Counter.CORRUPT : Counter.IO_ERRORS, 1);
      if (!isLeaving && fetchInstead(block, status)) {
        return;
      }
      host.free(block);
      if (!isLeaving) {
        // What can't be read is not there: out of sight before those who wait are told.
        ssd.leave(block);
        drops.count(
            block, status == Status.CORRUPT ? Drops.Reason.DAMAGED : Drops.Reason.UNREADABLE);
        missed(block);
      }
    }
    endUse(block);
  }

  /** A block can't be read from SSD: where it is an object, too, that is read. */
  private boolean fetchInstead(int block, Status why) {
    if (!directory.has(Directory.FLAG_OBJECT, block)
        || !objects.isOpen()
        || !mover.fetch(block, RequestDescriptor.PRIORITY_HIGH)) {
      return false;
    }
    directory.set(Directory.FLAG_FETCHING, block, true);
    directory.set(Directory.FLAG_DAMAGED, block, why == Status.CORRUPT);
    ssd.leave(block);
    return true;
  }

  /**
   * A block that was to come does not: those who wait are told, and nobody finds it any more, but
   * for one that still stands on a device that can't be asked now.
   */
  void missed(int block) {
    if (!ssd.isResident(block)) {
      forget(block);
    }
    listener.onHostSettled(block, Status.MISS);
  }

  @Override
  public void onScrubbed(int block, Status status) {
    scrubber.finished();
    directory.addUses(block, 1);
    counters.add(Counter.SCRUBBED, status == Status.IO_ERROR ? 0 : 1);
    if (status == Status.IO_ERROR) {
      // No word to the fence: nobody waits, and places that can't be read, looked at again and
      // again, would keep stores from a device that takes them.
      counters.add(Counter.IO_ERRORS, 1);
    } else if (status == Status.CORRUPT) {
      counters.add(Counter.CORRUPT, 1);
      counters.add(Counter.SCRUBBED_CORRUPT, 1);
      loseSsdCopy(block);
    }
    endUse(block);
  }

  /** A block's copy on SSD turned out to be damaged; it is counted already. */
  void dropDamagedOnSsd(int block) {
    directory.addUses(block, 1);
    loseSsdCopy(block);
    endUse(block);
  }

  private void loseSsdCopy(int block) {
    switch (host.state(block)) {
      case NONE -> {
        if (ssd.isResident(block)) {
          drops.count(block, Drops.Reason.DAMAGED);
          remove(block);
        }
      }
      case RESIDENT, LEAVING -> ssd.leave(block);
      // Being read just now: who reads finds the damage, too.
      case RESERVED, STAGING -> {}
    }
  }

  // ---- deletion

  /** A client deletes a block here; its object is another matter. */
  void delete(int block) {
    counters.add(Counter.DELETED, 1);
    remove(block);
  }

  /** Takes a block out of sight; its slots follow when nothing needs them. */
  private void remove(int block) {
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

  /** A reader says that a block's bytes in the host tier are not those that were accepted. */
  void doubt(int block) {
    // One is enough. Where the pipeline is full, the next reader will say it again.
    if (host.isResident(block)
        && !directory.has(Directory.FLAG_AUDITED, block)
        && mover.audit(block)) {
      directory.set(Directory.FLAG_AUDITED, block, true);
    }
  }

  @Override
  public void onAudit(int block, int checksum) {
    directory.set(Directory.FLAG_AUDITED, block, false);
    if (host.isResident(block) && checksum != directory.checksum(block)) {
      dropDamaged(block);
      listener.onHostSettled(block, Status.MISS);
    } else {
      if (host.isResident(block)) {
        directory.set(Directory.FLAG_TAKEN_OVER, block, false);
        listener.onHostSettled(block, Status.OK);
      }
      settle(block);
    }
  }

  /**
   * Looks whether a resident block's bytes are still those that were accepted, and tells who waits
   * for it.
   *
   * @return false when too many wait for that already
   */
  boolean verify(int block) {
    if (directory.has(Directory.FLAG_AUDITED, block)) {
      // Also when whoever asked for it has gone: a block is not looked at twice at a time.
      return true;
    }
    if (!mover.audit(block)) {
      if (!auditBacklog.offer(hostClass(block), 0, block)) {
        return false;
      }
      directory.addUses(block, 1);
    }
    directory.set(Directory.FLAG_AUDITED, block, true);
    return true;
  }

  /** The bytes in the slab are no longer those that were accepted: nobody shall read them again. */
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

  /** Frees what a block no longer needs, once nothing needs it. */
  void settle(int block) {
    if (directory.isOnHostAlone(block) || directory.uses(block) > 0) {
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
    if (directory.isNowhere(block)) {
      if (directory.isLinked(block)) {
        directory.unlink(block);
      }
      directory.free(block);
      listener.onFreed(block);
    }
  }

  // ---- eviction

  /**
   * Makes room for a block that waits. It asks every round, and many rounds go by until what is
   * written to a lower tier is out: no more is written than waits, but what can go at once goes.
   */
  void makeRoomForWaiting(int sizeClass, long session, boolean mayDoubt) {
    int wanted = listener.waitingForSlot(sizeClass) + promotions.waiting(sizeClass);
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
    dropHostCopy(block);
    return true;
  }

  /** The same of a host copy below which no other tier of this node has any. */
  boolean evictLastCopy(int block) {
    Drops.Reason reason = objectMoves.reasonAgainst(block);
    if (reason == null) {
      // Started, or to be started when another is done, or what stands in the way has gone.
      boolean ignored = objectMoves.startUpload(block, true);
      return false;
    }
    drops.count(block, reason);
    dropHostCopy(block);
    return true;
  }

  /** Drops a block's host copy, which could leave. */
  void dropHostCopy(int block) {
    host.evict(block);
    counters.add(Counter.EVICTIONS, 1);
    settle(block);
  }

  /**
   * Writes a resident block to SSD.
   *
   * @return false when that can't be started now: the pipeline is full, the device is fenced, or
   *     every slot there is in use
   */
  boolean startStore(int block, boolean evict) {
    if (!budget.isOpen() || !mover.canStore(tenant(block)) || !allocateSsd(block)) {
      return false;
    }
    if (!mover.store(block, evict)) {
      ssd.takeBack(block);
      return false;
    }
    budget.spend(blockBytes(block));
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

  /** Another rate of reading in the background. */
  void changeScrubbing(long bytesPerSecond) {
    scrubber.change(bytesPerSecond);
  }

  /** The rate of reading in the background, as it is now. */
  long scrubBytesPerSecond() {
    return scrubber.bytesPerSecond();
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

  /** Whether blocks on SSD are read in the background. */
  boolean isScrubbing() {
    return scrubber.isActive();
  }

  private boolean allocateSsd(int block) {
    int sizeClass = ssdClass(block);
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

  @Override
  public void onStored(int block, Status status, boolean evict, int writtenBytes) {
    if (ssd.state(block) == CopyState.LEAVING) {
      listener.onStoreSettled(block, Status.MISS);
      settle(block);
      return;
    }
    if (status == Status.OK) {
      ssd.becomeResident(block);
      budget.spend((long) writtenBytes - blockBytes(block));
      counters.add(Counter.SSD_WRITTEN_BYTES, writtenBytes);
      counters.add(Counter.DEMOTIONS, 1);
    } else {
      ssd.discard(block);
    }
    listener.onStoreSettled(block, status);
    switch (status) {
      case OK -> {
        if (evict && host.isEvictable(block)) {
          dropHostCopy(block);
          return;
        }
      }
      case CORRUPT -> {
        if (host.isResident(block)) {
          dropDamaged(block);
          return;
        }
      }
      default -> counters.add(Counter.IO_ERRORS, 1);
    }
    settle(block);
  }

  /**
   * Evicts a block from SSD, or starts to: where the object tier wants it, it goes there first.
   *
   * @return true when the copy is dropped
   */
  boolean evictFromSsd(int block) {
    if (host.state(block) == CopyState.NONE) {
      Drops.Reason reason = objectMoves.reasonAgainst(block);
      if (reason == null) {
        boolean ignored = objectMoves.startSpill(block);
        return false;
      }
      drops.count(block, reason);
    }
    dropSsdCopy(block);
    return true;
  }

  /** Drops a block's SSD copy, which could leave. */
  void dropSsdCopy(int block) {
    ssd.evict(block);
    counters.add(Counter.SSD_EVICTIONS, 1);
    settle(block);
  }

  /** The records of blocks, of which tenants have their shares. */
  Records records() {
    return records;
  }

  /** Tells who waits for a block to be in a lower tier. */
  void tellStored(int block, Status status) {
    listener.onStoreSettled(block, status);
  }

  // ---- what outlives the daemon

  /** No row of the host tier, and no store, had a higher count so far. */
  void continueAfter(long lastHostRow, long lastStore) {
    hostRows.continueAfter(lastHostRow);
    mover.continueAfter(lastStore);
  }

  /** When everything that has gone so far has gone for good. */
  RowMarks rowMarks() {
    return new RowMarks(lanes);
  }

  // ---- writers

  /**
   * A reader must verify: another session could have written to the block's slot since its checksum
   * was made, or that was before this daemon.
   */
  boolean mustVerify(int block, long reader) {
    SlotAllocator slots = host.slots();
    return directory.has(Directory.FLAG_TAKEN_OVER, block)
        || slots.isWritableByOthers(slots.regionOf(host.slot(block)), reader);
  }

  // ---- each round

  /** Settles finished transfers. */
  int collect() {
    return mover.collect() + objectMoves.collect();
  }

  /** Starts what waited for room: checksums, promotions, and evictions ahead of need. */
  void maintain(long nowNs) {
    lanes.checkFences(nowNs);
    ssd.returnAside();
    lanes.forgetRows();
    trials.advance();
    hostRows.advance();
    int classes = host.slots().classes();
    if (checksumBacklog.size() > 0) {
      checksumBacklog.serve(classes, serveChecksum);
    }
    if (auditBacklog.size() > 0) {
      auditBacklog.serve(classes, serveAudit);
    }
    promotions.advance();
    budget.advance(nowNs);
    ingestion.advance();
    objectMoves.advance();
    objects.advance();
    probes.advance();
    host.drain(evictFromHost);
    ssd.drain(evictFromSsd);
    boolean ssdTakes = lanes.isAnyWell();
    boolean objectsTake = objects.takesStores();
    for (int sizeClass = 0; sizeClass < classes; sizeClass++) {
      if (hasSsd(host.slots().partOfClass(sizeClass)) ? ssdTakes : objectsTake) {
        evictAhead(sizeClass);
      }
    }
    // With what others leave of the pipelines.
    scrubber.advance(nowNs);
    if (events != null) {
      events.walk(tiersOf);
    }
  }

  private boolean serveChecksum(long item) {
    int block = (int) item;
    if (host.state(block) == CopyState.LEAVING) {
      endUse(block);
      return true;
    }
    return mover.checksum(block);
  }

  private boolean serveAudit(long item) {
    int block = (int) item;
    if (!host.isResident(block)) {
      directory.set(Directory.FLAG_AUDITED, block, false);
    } else if (!mover.audit(block)) {
      return false;
    }
    endUse(block);
    return true;
  }

  private void evictAhead(int sizeClass) {
    SlotAllocator hostSlots = host.slots();
    int regions = hostSlots.regionsOfClass(sizeClass);
    if (regions == 0) {
      return;
    }
    long total = (long) regions * hostSlots.slotsPerRegion(sizeClass);
    int target =
        (int) Math.min(total / 4, Math.max(1, (long) (total * limits.freeTarget())))
            + listener.waitingForSlot(sizeClass)
            + promotions.waiting(sizeClass);
    int tenant = hostSlots.partOfClass(sizeClass);
    for (int i = 0; i < EVICTIONS_PER_ROUND; i++) {
      int under = mover.evictions(sizeClass);
      boolean canStart = hasSsd(tenant) ? mover.canStore(tenant) : mover.canUpload(tenant);
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

  /**
   * Whether a slot of a size class may come free without anybody's doing: something can be evicted,
   * or is on its way out or in.
   */
  boolean isRoomComing(int sizeClass) {
    return !isIdle() || host.isRoomComing(sizeClass);
  }

  /** Whether the daemon itself is about to free a slot of a size class. */
  boolean isRoomUnderWay(int sizeClass) {
    boolean isLowerTierBusy = lanes.isBusy() || mover.spills() > 0 || mover.objectsInFlight() > 0;
    return mover.stores(sizeClass) > 0
        || (host.isRoomComing(sizeClass) && isLowerTierBusy && budget.isOpen());
  }

  /** Whether transfers wait to be settled. */
  boolean hasFinished() {
    return mover.hasFinished() || probes.hasFound() || objects.hasConfirmed();
  }

  boolean isIdle() {
    return mover.isIdle()
        && checksumBacklog.size() == 0
        && auditBacklog.size() == 0
        && promotions.size() == 0
        && ingestion.waiting() == 0
        && objectMoves.waiting() == 0;
  }

  /** The tenant of a block. */
  int tenant(int block) {
    return namespaces.of(directory, block).tenant();
  }

  /** The host size class of a block. */
  int hostClass(int block) {
    return namespaces.of(directory, block).hostClass();
  }

  /** The SSD size class of a block; NONE when it can't go there. */
  int ssdClass(int block) {
    return namespaces.of(directory, block).ssdClass();
  }

  int blockBytes(int block) {
    return (int) namespaces.of(directory, block).blockBytes();
  }

  // ---- checks

  /** Gauges of slots and bytes. */
  void publishGauges() {
    counters.set(Counter.GAUGE_BLOCKS, directory.size());
    counters.set(Counter.GAUGE_ANNOTATION_BYTES, directory.annotations().bytesUsed());
    counters.set(Counter.GAUGE_HOST_SLOTS_TOTAL, host.slots().slotsTotal());
    counters.set(Counter.GAUGE_HOST_SLOTS_FREE, host.slots().slotsFree());
    counters.set(Counter.GAUGE_HOST_SLOTS_RESIDENT, host.resident());
    counters.set(Counter.GAUGE_HOST_SLOTS_IN_FLIGHT, host.inFlight());
    counters.set(Counter.GAUGE_SSD_SLOTS_TOTAL, ssd.slots().slotsTotal());
    counters.set(Counter.GAUGE_SSD_SLOTS_FREE, ssd.slots().slotsFree());
    counters.set(Counter.GAUGE_SSD_SLOTS_RESIDENT, ssd.resident());
    counters.set(Counter.GAUGE_SSD_SLOTS_IN_FLIGHT, ssd.inFlight());
    counters.set(Counter.GAUGE_HOST_BYTES_USED, host.slots().bytesUsed());
    counters.set(Counter.GAUGE_SSD_BYTES_USED, ssd.slots().bytesUsed());
  }

  /** Checks that directory, slots and policies agree; for tests. */
  void checkInvariants() {
    directory.checkInvariants();
    host.checkInvariants();
    ssd.checkInvariants();
    probes.checkInvariants();
  }

  /** The state in words, for whoever looks for a defect. */
  @Override
  public String toString() {
    StringBuilder out = new StringBuilder(256);
    out.append("checksums ").append(mover.checksumsInFlight());
    out.append(", ssd ").append(lanes.inFlight());
    out.append(", backlog ").append(checksumBacklog.size());
    out.append(", promotions ").append(promotions.size());
    out.append(", ingestion ").append(ingestion.waiting());
    out.append(", objects ").append(mover.objectsInFlight());
    out.append(" and waiting ").append(objectMoves.waiting());
    out.append(budget.isOpen() ? "" : ", no budget");
    out.append(lanes);
    SlotAllocator slots = host.slots();
    for (int i = 0; i < slots.classes(); i++) {
      out.append("; host class ").append(i).append(": regions ").append(slots.regionsOfClass(i));
      out.append(", free ").append(slots.freeOfClass(i));
      out.append(", leaving ").append(mover.evictions(i));
      out.append(", waiting ").append(listener.waitingForSlot(i));
    }
    for (int i = 0; i < ssd.slots().classes(); i++) {
      out.append("; SSD class ").append(i).append(": regions ");
      out.append(ssd.slots().regionsOfClass(i))
          .append(", free ")
          .append(ssd.slots().freeOfClass(i));
    }
    out.append("; draining ")
        .append(slots.isDraining())
        .append(" and ")
        .append(ssd.slots().isDraining());
    for (int block = 0; block < directory.highWater(); block++) {
      if (directory.isUsed(block) && (directory.uses(block) > 0 || directory.holds(block) > 0)) {
        out.append("; block ").append(block).append(" is ").append(host.state(block));
        out.append('/').append(ssd.state(block));
        out.append(", uses ").append(directory.uses(block));
        out.append(", holds ").append(directory.holds(block));
        out.append(", class ").append(hostClass(block));
      }
    }
    return out.toString();
  }
}
