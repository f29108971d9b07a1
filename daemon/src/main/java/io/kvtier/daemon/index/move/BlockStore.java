package io.kvtier.daemon.index.move;

import io.kvtier.daemon.config.HeapRoom;
import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.HostRows;
import io.kvtier.daemon.index.space.TierLine;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.ssd.SlotHeaderDescriptor;
import java.util.EnumSet;
import java.util.Set;

/**
 * The blocks of this node and their tiers: what the verbs put, get and delete. How a copy comes and
 * goes is the business of the classes that this one is made of. Confined to the index.
 *
 * <ul>
 *   <li>A block comes by {@link Commits} from a client, by {@link Promotions} from SSD, by {@link
 *       Fetches} from the object tier. Then it becomes resident ({@link Arrivals}).
 *   <li>It goes by {@link Evictions} and {@link Uploads} one tier down, and out of this node.
 *   <li>Its slots and its record are given back by {@link Copies}.
 * </ul>
 *
 * <p>A block that is in use, or that a client holds, is never a victim.
 */
public final class BlockStore implements Mover.Listener {
  private final Directory directory;
  private final TierLine host;
  private final TierLine ssd;
  private final Mover mover;
  private final Counters counters;
  private final Drops drops;
  private final Namespaces namespaces;
  private final SsdLanes lanes;
  private final HostRows hostRows;
  private final ObjectLine objects;
  private final ObjectProbes probes;
  private final Scrubber scrubber;
  private final Trials trials;
  private final Copies copies;
  private final Uploads uploads;
  private final Evictions evictions;
  private final Promotions promotions;
  private final Records records;
  private final Arrivals arrivals;
  private final Fetches fetches;
  private final Commits commits;
  private final Audits audits;
  private final ClassQueues fresh;

  public BlockStore(
      StoreParts parts, Limits limits, Namespaces namespaces, BlockListener listener) {
    this.directory = parts.directory();
    this.counters = parts.counters();
    this.namespaces = namespaces;
    drops = new Drops(directory, counters);
    int[] recordsMax = Records.shares(directory, namespaces.tenants());
    SlotAllocator hostSlots = parts.host().slots();
    hostRows = new HostRows(directory, namespaces, hostSlots, parts.host().ledger(), parts.clock());
    TierLine.Common common =
        new TierLine.Common(
            directory,
            this::blockBytes,
            parts.events(),
            tenant -> recordsMax[tenant],
            HeapRoom::left);
    host = new TierLine(TierLine.HOST, common, hostSlots, parts.host().policy(), hostRows);
    ssd =
        new TierLine(
            TierLine.SSD, common, parts.ssd().slots(), parts.ssd().policy(), new SsdRows());
    // A tier without space never has a copy.
    directory.copies().watch(ssd.isConfigured() ? this::recount : host::recount);
    objects = new ObjectLine(parts.objects(), directory, namespaces, parts.events());
    int holdsMax = limits.holdsMax();
    probes = new ObjectProbes(objects, parts.objects(), directory, namespaces, listener, holdsMax);
    mover = new Mover(parts, limits, namespaces, host, ssd, this);
    lanes = mover.lanes();
    ssd.setAsideOn(lane -> lanes.at(lane).isFenced());
    int classes = hostSlots.classesMax();
    fresh = new ClassQueues(classes, 1, holdsMax);
    ClassQueues promoted = new ClassQueues(classes, RequestDescriptor.PRIORITY_LOW + 1, holdsMax);
    copies = new Copies(directory, namespaces, host, ssd, drops, counters, listener);
    uploads = new Uploads(parts, copies, objects, mover, host, ssd, listener);
    evictions =
        new Evictions(
            parts, limits, copies, host, ssd, mover, objects, uploads, drops, fresh, promoted,
            listener);
    promotions =
        new Promotions(
            directory,
            copies,
            evictions,
            host,
            mover,
            listener,
            parts.latencies(),
            limits.standstillNs(),
            promoted);
    records =
        new Records(directory, copies, evictions, uploads, mover, host, ssd, drops, recordsMax);
    arrivals =
        new Arrivals(
            directory,
            copies,
            host,
            evictions.ingestion(),
            uploads.ingestion(),
            counters,
            listener);
    fetches =
        new Fetches(
            parts, objects, probes, host, ssd, copies, drops, records, promotions, arrivals);
    commits =
        new Commits(
            directory,
            copies,
            arrivals,
            host,
            mover,
            parts.host().slabs(),
            counters,
            limits.inlineChecksumBytes(),
            holdsMax);
    audits = new Audits(directory, copies, host, mover, listener, holdsMax);
    trials = new Trials(directory, host, evictions.ssdTarget(), lanes);
    scrubber = new Scrubber(directory, ssd, mover, limits.scrubBytesPerSecond());
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

  /** The tiers in which blocks are stored, below the host tier. */
  public Set<TierId> storedTiers() {
    Set<TierId> tiers = EnumSet.noneOf(TierId.class);
    if (ssd.isConfigured()) {
      tiers.add(TierId.SSD);
    }
    if (objects.isConfigured()) {
      tiers.add(TierId.OBJECT);
    }
    return tiers;
  }

  // ---- parts

  public TierLine host() {
    return host;
  }

  public TierLine ssd() {
    return ssd;
  }

  /** Which host copies are written to SSD, and when. */
  public Ingestion ssdIngestion() {
    return evictions.ingestion();
  }

  /** Which host copies are written to the object tier, and when. */
  public Ingestion objectIngestion() {
    return uploads.ingestion();
  }

  /** The devices of the SSD tier. */
  public SsdLanes lanes() {
    return lanes;
  }

  /** Counts of dropped blocks, by reason. */
  public Drops drops() {
    return drops;
  }

  /** The index's knowledge of the object tier. */
  public ObjectLine objects() {
    return objects;
  }

  /** What the object store is being asked. */
  public ObjectProbes probes() {
    return probes;
  }

  /** How blocks get to the object tier. */
  public Uploads uploads() {
    return uploads;
  }

  /** How blocks come from the object tier. */
  public Fetches fetches() {
    return fetches;
  }

  /** The records of blocks, of which tenants have their shares. */
  public Records records() {
    return records;
  }

  /** The blocks of lower tiers that wait for their host slots. */
  public Promotions promotions() {
    return promotions;
  }

  /** The blocks of puts that wait for a host slot; who fills it serves it. */
  public ClassQueues fresh() {
    return fresh;
  }

  /** Why what a later start needs of the host tier can't be written; empty while it can. */
  public String hostTrouble() {
    return hostRows.trouble();
  }

  // ---- what is there

  /** The tiers of a block, as bits of {@link BlockEvents}. */
  public int tiersOf(int block) {
    return (host.isResident(block) ? BlockEvents.HOST : 0)
        | (ssd.isResident(block) ? BlockEvents.SSD : 0)
        | (directory.has(Directory.FLAG_OBJECT, block) ? BlockEvents.OBJECT : 0);
  }

  private void recount(int block) {
    host.recount(block);
    ssd.recount(block);
  }

  /** Whether a block is resident in memory or on SSD. */
  public boolean isVisible(int block) {
    return host.isResident(block) || ssd.isResident(block);
  }

  /** Whether all bytes of a block are in the host tier, and its checksum is being made. */
  public boolean hasArrived(int block) {
    return directory.has(Directory.FLAG_ARRIVED, block);
  }

  /** Whether there is anything to delete: visible, or on its way from the object tier. */
  public boolean canBeDeleted(int block) {
    return isVisible(block) || directory.has(Directory.FLAG_FETCHING, block) || hasArrived(block);
  }

  /** The expected time to read that many bytes from SSD, ns, as measured. */
  public long estimatedSsdReadNs(long bytes) {
    return mover.estimatedSsdReadNs(bytes);
  }

  /** The expected time to read that many objects, ns, as measured. */
  public long estimatedFetchNs(int blocks) {
    return mover.estimatedFetchNs(blocks);
  }

  /** Whether a tenant has space on SSD. */
  public boolean hasSsd(int tenant) {
    return copies.hasSsd(tenant);
  }

  /** Whether the block can be stored on SSD at all. */
  public boolean hasSsdClass(int block) {
    return copies.hasSsdClass(block);
  }

  /** The SSD size class of a tenant's blocks of that many bytes; NONE when they can't go there. */
  public int ssdClassFor(int tenant, long blockBytes) {
    return hasSsd(tenant)
        ? ssd.slots().sizeClass(tenant, SlotHeaderDescriptor.HEADER_BYTES + blockBytes)
        : SlotAllocator.NONE;
  }

  /** The longest block that the SSD tier could take; no bound where there is none. */
  public long storedBlockBytesMax() {
    return ssd.isConfigured()
        ? ssd.slots().regionBytes() - SlotHeaderDescriptor.HEADER_BYTES
        : Long.MAX_VALUE;
  }

  private int blockBytes(int block) {
    return (int) namespaces.of(directory, block).blockBytes();
  }

  // ---- puts

  /**
   * Gives a fresh block a host slot for a session to write.
   *
   * @param isCopied whether its bytes come with the checksum of whoever copies them: then a slot
   *     will do that another client may still write. A checksum that the daemon makes would hide
   *     such a write
   * @return false while there is none: something may have been started that frees one
   */
  public boolean reserve(int block, int sizeClass, long session, boolean isCopied) {
    if (!host.allocate(block, sizeClass, session, false, isCopied)) {
      evictions.makeRoomForWaiting(sizeClass, session, isCopied);
      if (!host.allocate(block, sizeClass, session, true, isCopied)) {
        return false;
      }
    }
    host.setState(block, CopyState.RESERVED);
    return true;
  }

  /**
   * Whether a client that has lost a block's host slot may still write there. Readers verify what
   * they have copied from there; a GPU does not, and gets nothing from there.
   */
  public boolean isDoubtful(int block) {
    return host.slots().isDoubtful(host.slot(block));
  }

  /** A client gave a reservation back, or died with it. */
  public void abandon(int block) {
    host.free(block);
    copies.settle(block);
  }

  /** All layers of a block have come from a device: its checksum is made, then it is resident. */
  public void arrived(int block) {
    directory.set(Directory.FLAG_ARRIVED, block, true);
    commits.commit(block);
  }

  /** The client has written the block: its checksum is made, then it is resident. */
  public void commit(int block) {
    commits.commit(block);
  }

  /** The client has written the block, and made its checksum while it did. */
  public void commitChecksummed(int block, int checksum) {
    commits.commitChecksummed(block, checksum);
  }

  @Override
  public void onChecksum(int block, int checksum) {
    commits.finish(block, checksum);
  }

  /** A block has got its annotation. */
  public void annotated(int block) {
    host.annotated(block);
    ssd.annotated(block);
  }

  // ---- gets

  /** A client holds a host copy that is resident, or has arrived. */
  public void lease(int block) {
    directory.addHolds(block, 1);
    if (!host.isResident(block)) {
      // The policy meets it when its checksum is made.
      return;
    }
    host.hit(block);
    arrivals.used(block, directory.addHit(block));
    // Also while it stands here: it may be dropped for being an object.
    objects.used(block);
  }

  /** A client holds a block, wherever it is. */
  public void pin(int block) {
    directory.addHolds(block, 1);
  }

  /** A client no longer holds a block. */
  public void release(int block) {
    directory.addHolds(block, -1);
    copies.settle(block);
  }

  /** Keeps a block's record while something waits on its account. */
  public void use(int block) {
    directory.addUses(block, 1);
  }

  /** Nothing waits any more for which the record was kept. */
  public void endUse(int block) {
    copies.endUse(block);
  }

  /**
   * Brings a block that is only on SSD to the host tier, now or as soon as there is room. Where its
   * device is fenced, it may come from the object tier.
   *
   * @param prefetch whether it is wanted even when nobody waits for it
   * @return false when too many wait already, or there is no way
   */
  public boolean promote(int block, int priority, boolean prefetch) {
    boolean isOpen = lanes.of(block).isReadable();
    boolean isObject = directory.has(Directory.FLAG_OBJECT, block) && objects.isOpen();
    if (promotions.isFull() || !(isOpen || isObject)) {
      return false;
    }
    directory.addUses(block, 1);
    host.setState(block, CopyState.STAGING);
    directory.set(Directory.FLAG_FETCHING, block, !isOpen);
    ssd.hit(block);
    promotions.add(block, priority, prefetch);
    return true;
  }

  @Override
  public void onLoaded(int block, Status status) {
    boolean isLeaving = host.state(block) == CopyState.LEAVING;
    if (status == Status.OK) {
      counters.add(Counter.PROMOTIONS, 1);
      counters.add(Counter.SSD_READ_BYTES, blockBytes(block));
      if (!isLeaving) {
        directory.addUses(block, -1);
        arrivals.becomeResident(block);
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
        copies.missed(block);
      }
    }
    copies.endUse(block);
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

  @Override
  public void onAnnotation(int block, byte[] annotation, int bytes) {
    fetches.onAnnotation(block, annotation, bytes);
  }

  @Override
  public void onFetched(int block, Status status) {
    fetches.onFetched(block, status);
  }

  // ---- checks of what is there

  /** A reader says that a block's bytes in the host tier are not those that were accepted. */
  public void doubt(int block) {
    audits.doubt(block);
  }

  /**
   * Checks a resident block, then tells the requests that wait for it.
   *
   * @return false when too many blocks wait to be checked
   */
  public boolean verify(int block) {
    return audits.verify(block);
  }

  @Override
  public void onAudit(int block, int checksum) {
    audits.finish(block, checksum);
  }

  /**
   * A reader must verify: another session could have written to the block's slot since its checksum
   * was made, or that was before this daemon.
   */
  public boolean mustVerify(int block, long reader) {
    return host.mustVerify(block, reader);
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
      copies.loseSsdCopy(block);
    }
    copies.endUse(block);
  }

  /** Another rate of reading in the background. */
  public void changeScrubbing(long bytesPerSecond) {
    scrubber.change(bytesPerSecond);
  }

  /** The rate of reading in the background, as it is now. */
  public long scrubBytesPerSecond() {
    return scrubber.bytesPerSecond();
  }

  /** Whether blocks on SSD are read in the background. */
  public boolean isScrubbing() {
    return scrubber.isActive();
  }

  // ---- deletion

  /** A client deletes a block here; its object is another matter. */
  public void delete(int block) {
    counters.add(Counter.DELETED, 1);
    copies.remove(block);
  }

  /** When everything that has gone so far has gone for good. */
  public RowMarks rowMarks() {
    return new RowMarks(lanes);
  }

  // ---- writes to lower tiers

  /**
   * Writes a resident block to SSD.
   *
   * @return false when that can't be started now
   */
  public boolean startStore(int block) {
    return evictions.startStore(block, false);
  }

  /** Whether a store that could not be started may be, soon. */
  public boolean mayStoreSoon() {
    return evictions.mayStoreSoon();
  }

  /** Whether no more may be written to SSD for the moment. */
  public boolean isOutOfBudget() {
    return evictions.isOutOfBudget();
  }

  /** Another amount that may be written to SSD in a day. */
  public void changeBudget(long bytesPerDay) {
    evictions.changeBudget(bytesPerDay);
  }

  /**
   * Has the blocks of the host tier leave whose turn it would be.
   *
   * @return how many are out, or on their way
   */
  public int evict(int blocksMax) {
    return evictions.evict(blocksMax);
  }

  @Override
  public void onStored(int block, Status status, boolean evict, int writtenBytes) {
    evictions.onStored(block, status, evict, writtenBytes);
  }

  @Override
  public void onUploaded(int block, Status status, boolean evict) {
    uploads.onUploaded(block, status, evict);
  }

  @Override
  public void onSpilled(int block, Status status, boolean isRead) {
    uploads.onSpilled(block, status, isRead);
  }

  // ---- what outlives the daemon

  /** No row of the host tier, and no store, had a higher count so far. */
  public void continueAfter(long lastHostRow, long lastStore) {
    hostRows.continueAfter(lastHostRow);
    mover.continueAfter(lastStore);
  }

  // ---- each round

  /** Settles finished transfers. */
  public int collect() {
    return mover.collect() + fetches.collect() + uploads.collect();
  }

  /** Starts what waited for room: checksums, promotions, and evictions ahead of need. */
  public void maintain(long nowNs) {
    lanes.checkFences(nowNs);
    ssd.returnAside();
    lanes.forgetRows();
    trials.advance();
    hostRows.advance();
    commits.advance();
    audits.advance();
    promotions.advance();
    evictions.advanceBudget(nowNs);
    evictions.ingestion().advance();
    uploads.advance();
    objects.advance();
    probes.advance();
    evictions.advance();
    // With what others leave of the pipelines.
    scrubber.advance(nowNs);
  }

  /**
   * Whether a slot of a size class may come free without anybody's doing: something can be evicted,
   * or is on its way out or in.
   */
  public boolean isRoomComing(int sizeClass) {
    return !isIdle() || host.isRoomComing(sizeClass);
  }

  /** Whether transfers wait to be settled. */
  public boolean hasFinished() {
    return mover.hasFinished() || probes.hasFound() || objects.hasConfirmed();
  }

  /** Whether nothing is under way, and nothing waits to be started. */
  public boolean isIdle() {
    return mover.isIdle()
        && commits.waiting() == 0
        && audits.waiting() == 0
        && promotions.size() == 0
        && evictions.ingestion().waiting() == 0
        && uploads.waiting() == 0
        && probes.waiting() == 0;
  }

  // ---- checks

  /** Gauges of slots and bytes. */
  public void publishGauges() {
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

  /** Memory of the policies, in bytes; operators swap policies. */
  public long policyBytes() {
    return host.policyBytes()
        + ssd.policyBytes()
        + evictions.ingestion().policyBytes()
        + uploads.ingestion().policyBytes();
  }

  /** Checks that directory, slots and policies agree; for tests. */
  public void checkInvariants() {
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
    out.append(", backlog ").append(commits.waiting());
    out.append(", promotions ").append(promotions.size());
    out.append(", ingestion ").append(evictions.ingestion().waiting());
    out.append(", objects ").append(mover.objectsInFlight());
    out.append(" and waiting ").append(uploads.waiting() + probes.waiting());
    out.append(evictions.isOutOfBudget() ? ", no budget" : "");
    out.append(lanes);
    SlotAllocator slots = host.slots();
    for (int i = 0; i < slots.classes(); i++) {
      out.append("; host class ").append(i).append(": regions ").append(slots.regionsOfClass(i));
      out.append(", free ").append(slots.freeOfClass(i));
      out.append(", leaving ").append(mover.evictions(i));
      out.append(", waiting ").append(fresh.waiting(i));
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
        out.append(", class ").append(copies.hostClass(block));
      }
    }
    return out.toString();
  }
}
