package io.kvtier.daemon.index.move;

import io.kvtier.daemon.config.HeapRoom;
import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.daemon.index.lane.Lanes;
import io.kvtier.daemon.index.lane.RowMarks;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.ObjectLine;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.daemon.index.source.ObjectProbes;
import io.kvtier.daemon.index.source.ObjectSource;
import io.kvtier.daemon.index.source.Sources;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.FirstRows;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;

/**
 * The blocks of this node and their tiers: what the verbs put, get and delete. How a copy comes and
 * goes is the business of the classes that this one is made of. Confined to the index.
 *
 * <ul>
 *   <li>A block comes by {@link Commits} from a client, by {@link Promotions} from a lower tier, by
 *       {@link Fetches} from a source. Then it becomes resident ({@link Arrivals}).
 *   <li>It goes by {@link Evictions} and {@link Uploads} further down, and out of this node.
 *   <li>Its slots and its record are given back by {@link Copies}.
 * </ul>
 *
 * <p>A block that is in use, or that a client holds, is never a victim.
 */
public final class BlockStore {
  private final Directory directory;
  private final TierStack stack;
  private final ResidentTier first;
  private final LowerTiers lower;
  private final Mover mover;
  private final Counters counters;
  private final Drops drops;
  private final Namespaces namespaces;
  private final FirstRows firstRows;
  private final ObjectLine objects;
  private final Sources sources;
  private final List<Scrubber> scrubbers = new ArrayList<>();
  private final List<Trials> trials = new ArrayList<>();
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

  public BlockStore(StoreParts parts, BlockListener listener) {
    IndexCore core = parts.core();
    directory = core.directory();
    counters = core.counters();
    namespaces = core.namespaces();
    drops = new Drops(directory, counters);
    int[] recordsMax = Records.shares(directory, namespaces.tenants());
    StoreParts.First top = parts.tiers().first();
    StoreParts.Space space = top.space();
    firstRows = new FirstRows(directory, namespaces, space.slots(), top.ledger(), core.clock());
    ResidentTier.Common common =
        new ResidentTier.Common(
            directory,
            this::blockBytes,
            parts.events(),
            tenant -> recordsMax[tenant],
            HeapRoom::left);
    List<ResidentTier> tiers = new ArrayList<>();
    tiers.add(tier(0, top.traits(), space, common, firstRows));
    List<LowerTier> below = new ArrayList<>();
    for (StoreParts.Lower one : parts.tiers().lower()) {
      below.add(lowerTier(tiers.size(), one, common, core));
      tiers.add(below.getLast().tier());
    }
    stack = new TierStack(tiers);
    stack.watch(directory.copies());
    first = stack.first();
    lower = new LowerTiers(below);
    objects = new ObjectLine(parts.tiers().objects(), directory, namespaces, parts.events());
    int holdsMax = core.limits().holdsMax();
    sources = new Sources(sources(parts.tiers(), parts.isAwaited(), holdsMax));
    mover = new Mover(parts, stack, lower, sources);
    int classes = first.slots().classesMax();
    fresh = new ClassQueues(classes, 1, holdsMax);
    ClassQueues promoted = new ClassQueues(classes, RequestDescriptor.PRIORITY_LOW + 1, holdsMax);
    copies = new Copies(core, stack, drops, parts.transfers(), listener);
    uploads = new Uploads(parts, copies, objects, mover, stack, listener);
    evictions =
        new Evictions(
            parts, copies, stack, lower, mover, objects, uploads, drops, fresh, promoted, listener);
    promotions =
        new Promotions(
            directory,
            copies,
            evictions,
            stack,
            lower,
            mover,
            parts.isAwaited(),
            core.latencies(),
            core.limits().times().standstillNs(),
            promoted);
    records = new Records(directory, copies, evictions, uploads, mover, stack, drops, recordsMax);
    List<Ingestion> targets = new ArrayList<>(evictions.ingestions());
    targets.add(uploads.ingestion());
    arrivals = new Arrivals(directory, copies, first, targets, counters, listener);
    fetches =
        new Fetches(parts, sources, mover, stack, copies, drops, records, promotions, arrivals);
    commits =
        new Commits(
            directory,
            copies,
            arrivals,
            first,
            mover,
            top.slabs(),
            counters,
            top.checksums().inlineBytes(),
            holdsMax);
    audits = new Audits(directory, copies, first, mover, listener, holdsMax);
    for (LowerTier one : lower) {
      Ingestion.Target target = evictions.ingestion(one.tier()).target();
      trials.add(new Trials(directory, first, target, one.lanes()));
      scrubbers.add(
          new Scrubber(directory, one.tier(), mover, one.parts().pace().scrubBytesPerSecond()));
    }
  }

  private LowerTier lowerTier(
      int number, StoreParts.Lower parts, ResidentTier.Common common, IndexCore core) {
    Lanes lanes =
        new Lanes(
            number,
            parts.space().slots(),
            core.directory().copies(),
            parts.devices().pipelines(),
            namespaces.tenants(),
            parts.devices().depth(),
            core.clock());
    ResidentTier tier =
        tier(number, parts.traits(), parts.space(), common, new LowerRows(number, lanes));
    tier.setAsideOn(lane -> lanes.at(lane).isFenced());
    return new LowerTier(tier, lanes, parts);
  }

  private static ResidentTier tier(
      int number,
      TierTraits traits,
      StoreParts.Space space,
      ResidentTier.Common common,
      ResidentTier.Rows rows) {
    return new ResidentTier(
        number, traits, common, space.slots(), space.headerBytes(), space.policy(), rows);
  }

  /** The sources, in the order in which they are asked: the object store is the last. */
  private List<BlockSource> sources(
      StoreParts.Tiers parts, IntPredicate isAwaited, int waitingMax) {
    List<BlockSource> opened = new ArrayList<>();
    for (BlockSource.Opener one : parts.sources()) {
      opened.add(one.open(directory, namespaces, isAwaited, waitingMax));
    }
    ObjectParts store = parts.objects();
    if (store != null) {
      ObjectProbes probes =
          new ObjectProbes(
              objects::isOpen,
              store.contents().presence(),
              store.bell(),
              directory,
              namespaces,
              isAwaited,
              waitingMax);
      opened.add(new ObjectSource(objects, probes, store, directory));
    }
    return opened;
  }

  /** The rows of a lower tier: a store's pipeline writes them, the index has them forgotten. */
  private final class LowerRows implements ResidentTier.Rows {
    private final int tier;
    private final Lanes lanes;

    LowerRows(int tier, Lanes lanes) {
      this.tier = tier;
      this.lanes = lanes;
    }

    @Override
    public void added(int block) {}

    @Override
    public void removed(int block) {
      if (directory.copies().state(tier, block) == CopyState.STAGING) {
        mover.giveUpStore(block, tier);
      }
      lanes.forgetRow(block);
    }
  }

  /** The tiers in which blocks are stored, below the first. */
  public Set<TierId> storedTiers() {
    Set<TierId> tiers = EnumSet.noneOf(TierId.class);
    for (ResidentTier tier : stack.lower()) {
      if (tier.isConfigured()) {
        tiers.add(tier.traits().id());
      }
    }
    if (objects.isConfigured()) {
      tiers.add(TierId.OBJECT);
    }
    return tiers;
  }

  // ---- parts

  /** The resident tiers. */
  public TierStack stack() {
    return stack;
  }

  /** The tier that clients read and write. */
  public ResidentTier first() {
    return first;
  }

  /** The tiers below the first, with their devices. */
  public LowerTiers lower() {
    return lower;
  }

  /** When blocks of the first tier are written to a lower one. */
  public Ingestion ingestion(ResidentTier tier) {
    return evictions.ingestion(tier);
  }

  /** Which first copies are written to the object tier, and when. */
  public Ingestion objectIngestion() {
    return uploads.ingestion();
  }

  /** Counts of dropped blocks, by reason. */
  public Drops drops() {
    return drops;
  }

  /** The index's knowledge of the object tier. */
  public ObjectLine objects() {
    return objects;
  }

  /** Where blocks can be read from that this node does not own. */
  public Sources sources() {
    return sources;
  }

  /** What a get is counted as whose block was in a tier, or came from a source. */
  public Counter hitsOf(TierId id) {
    for (int i = 0; i < sources.count(); i++) {
      if (sources.at(i).traits().id() == id) {
        return sources.at(i).traits().hits();
      }
    }
    return stack.withId(id).traits().counts().hits();
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

  /** The blocks of lower tiers that wait for their first slots. */
  public Promotions promotions() {
    return promotions;
  }

  /** The blocks of puts that wait for a first slot; who fills it serves it. */
  public ClassQueues fresh() {
    return fresh;
  }

  /** Why what a later start needs of the first tier can't be written; empty while it can. */
  public String firstTrouble() {
    return firstRows.trouble();
  }

  // ---- what is there

  /** The tiers of a block, as bits of {@link BlockEvents}. */
  public int tiersOf(int block) {
    int bits = directory.has(Directory.FLAG_OBJECT, block) ? BlockEvents.OBJECT : 0;
    for (ResidentTier tier : stack.all()) {
      bits |= tier.isResident(block) ? tier.traits().eventBit() : 0;
    }
    return bits;
  }

  /** Whether a block is resident in any tier of this node. */
  public boolean isVisible(int block) {
    return stack.isResident(block);
  }

  /** Whether all bytes of a block are in the first tier, and its checksum is being made. */
  public boolean hasArrived(int block) {
    return directory.has(Directory.FLAG_ARRIVED, block);
  }

  /** Whether there is anything to delete: visible, or on its way from the object tier. */
  public boolean canBeDeleted(int block) {
    return isVisible(block) || directory.has(Directory.FLAG_FETCHING, block) || hasArrived(block);
  }

  /** The expected time to read that many blocks from a source, ns, as measured. */
  public long estimatedFetchNs(int source, int blocks) {
    return mover.estimatedFetchNs(source, blocks);
  }

  /** The lower tier that takes a block first; null when none could. */
  public @Nullable LowerTier target(int block) {
    ResidentTier taker = stack.taker(block);
    return taker == null ? null : lower.at(taker.number());
  }

  /** A namespace has got a number. */
  public void open(Namespaces.Namespace namespace) {
    for (ResidentTier tier : stack.all()) {
      tier.open(namespace);
    }
  }

  private int blockBytes(int block) {
    return (int) namespaces.of(directory, block).blockBytes();
  }

  // ---- puts

  /**
   * Gives a fresh block a first slot for a session to write.
   *
   * @param isCopied whether its bytes come with the checksum of whoever copies them: then a slot
   *     will do that another client may still write. A checksum that the daemon makes would hide
   *     such a write
   * @return false while there is none: something may have been started that frees one
   */
  public boolean reserve(int block, int sizeClass, long session, boolean isCopied) {
    if (!first.allocate(block, sizeClass, session, false, isCopied)) {
      evictions.makeRoomForWaiting(sizeClass, session, isCopied);
      if (!first.allocate(block, sizeClass, session, true, isCopied)) {
        return false;
      }
    }
    first.setState(block, CopyState.RESERVED);
    return true;
  }

  /**
   * Whether a client that has lost a block's first slot may still write there. Readers verify what
   * they have copied from there; a GPU does not, and gets nothing from there.
   */
  public boolean isDoubtful(int block) {
    return first.slots().isDoubtful(first.slot(block));
  }

  /** A client gave a reservation back, or died with it. */
  public void abandon(int block) {
    first.free(block);
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

  /** A block has got its annotation. */
  public void annotated(int block) {
    for (ResidentTier tier : stack.all()) {
      tier.annotated(block);
    }
  }

  // ---- gets

  /** A client holds a first copy that is resident, or has arrived. */
  public void lease(int block) {
    directory.addHolds(block, 1);
    if (!first.isResident(block)) {
      // The policy meets it when its checksum is made.
      return;
    }
    first.hit(block);
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
   * Brings a block that only lower tiers have to the first tier, now or as soon as there is room.
   * Where their devices are fenced, it may come from a source.
   *
   * @param prefetch whether it is wanted even when nobody waits for it
   * @return false when too many wait already, or there is no way
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

  private void onLoaded(Settlement load) {
    int block = load.block;
    ResidentTier from = stack.at(load.from);
    boolean isLeaving = first.state(block) == CopyState.LEAVING;
    if (load.status == Status.OK) {
      counters.add(Counter.PROMOTIONS, 1);
      counters.add(from.traits().counts().readBytes(), blockBytes(block));
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
        // What can't be read is not there: out of sight before those who wait are told.
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
   * A block can't be read from a tier: another one that has the block, and can be read, is read. A
   * copy on a fenced device is left for later: a failed read would drop the copy.
   */
  private boolean loadInstead(int block, ResidentTier from) {
    for (LowerTier tier : lower) {
      if (tier.tier() != from
          && tier.isReadable(block)
          && mover.load(block, tier.number(), RequestDescriptor.PRIORITY_HIGH)) {
        from.leave(block);
        return true;
      }
    }
    return false;
  }

  /** A block can't be read from a tier: where a source has it, too, that is read. */
  private boolean fetchInstead(int block, ResidentTier from, Status why) {
    int source = sources.first(block);
    if (source == Sources.NONE || !mover.fetch(block, source, RequestDescriptor.PRIORITY_HIGH)) {
      return false;
    }
    directory.setSource(block, source);
    directory.set(Directory.FLAG_FETCHING, block, true);
    directory.set(Directory.FLAG_DAMAGED, block, why == Status.CORRUPT);
    from.leave(block);
    return true;
  }

  // ---- checks of what is there

  /** A reader says that a block's bytes in the first tier are not those that were accepted. */
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

  /**
   * A reader must verify: another session could have written to the block's slot since its checksum
   * was made, or that was before this daemon.
   */
  public boolean mustVerify(int block, long reader) {
    return first.mustVerify(block, reader);
  }

  private void onScrubbed(Settlement scrub) {
    int block = scrub.block;
    ResidentTier tier = stack.at(scrub.from);
    scrubberOf(tier).finished();
    directory.addUses(block, 1);
    counters.add(Counter.SCRUBBED, scrub.status == Status.IO_ERROR ? 0 : 1);
    if (scrub.status == Status.IO_ERROR) {
      // No word to the fence: nobody waits, and places that can't be read, looked at again and
      // again, would keep stores from a device that takes them.
      counters.add(Counter.IO_ERRORS, 1);
    } else if (scrub.status == Status.CORRUPT) {
      counters.add(Counter.CORRUPT, 1);
      counters.add(Counter.SCRUBBED_CORRUPT, 1);
      copies.loseCopy(block, tier);
    }
    copies.endUse(block);
  }

  private Scrubber scrubberOf(ResidentTier tier) {
    return scrubbers.get(tier.number() - 1);
  }

  /** Another rate of reading a tier in the background. */
  public void changeScrubbing(ResidentTier tier, long bytesPerSecond) {
    scrubberOf(tier).change(bytesPerSecond);
  }

  /** The rate of reading a tier in the background, as it is now. */
  public long scrubBytesPerSecond(ResidentTier tier) {
    return scrubberOf(tier).bytesPerSecond();
  }

  /** Whether blocks of lower tiers are read in the background. */
  public boolean isScrubbing() {
    for (Scrubber scrubber : scrubbers) {
      if (scrubber.isActive()) {
        return true;
      }
    }
    return false;
  }

  // ---- deletion

  /** A client deletes a block here; its object is another matter. */
  public void delete(int block) {
    counters.add(Counter.DELETED, 1);
    copies.remove(block);
  }

  /** When everything that has gone so far has gone for good. */
  public RowMarks rowMarks() {
    return new RowMarks(lower.lanes());
  }

  // ---- writes to lower tiers

  /**
   * Writes a resident block to a lower tier.
   *
   * @return false when that can't be started now
   */
  public boolean startStore(int block, LowerTier target) {
    return evictions.startStore(block, target, false);
  }

  /** Whether no more may be written to a lower tier for the moment. */
  public boolean isOutOfBudget() {
    return lower.isAnyOutOfBudget();
  }

  /** Another amount that may be written to a tier in a day. */
  public void changeBudget(ResidentTier tier, long bytesPerDay) {
    lower.at(tier.number()).budget().change(bytesPerDay);
  }

  /**
   * Has the blocks of the first tier leave whose turn it would be.
   *
   * @return how many are out, or on their way
   */
  public int evict(int blocksMax) {
    return evictions.evict(blocksMax);
  }

  // ---- what outlives the daemon

  /** No row of the first tier, and no store, had a higher count so far. */
  public void continueAfter(long lastFirstRow, long lastStore) {
    firstRows.continueAfter(lastFirstRow);
    mover.continueAfter(lastStore);
  }

  // ---- each round

  /** Settles finished transfers. */
  public int collect() {
    int count = mover.collect();
    for (Settlement one = mover.poll(); one != null; one = mover.poll()) {
      settle(one);
    }
    return count + fetches.collect() + uploads.collect();
  }

  private void settle(Settlement one) {
    switch (one.kind) {
      case CHECKSUM -> commits.finish(one.block, one.checksum);
      case AUDIT -> audits.finish(one.block, one.checksum);
      case LOAD -> onLoaded(one);
      case SCRUB -> onScrubbed(one);
      case STORE -> evictions.onStored(one);
      case FETCH -> fetches.onFetched(one);
      case UPLOAD -> uploads.onUploaded(one.block, one.status, one.isEviction);
      case SPILL -> uploads.onSpilled(one.block, stack.at(one.from), one.status, one.isRead);
    }
  }

  /** Starts what waited for room: checksums, promotions, and evictions ahead of need. */
  public void maintain(long nowNs) {
    lower.advance(nowNs);
    for (Trials one : trials) {
      one.advance();
    }
    firstRows.advance();
    commits.advance();
    audits.advance();
    promotions.advance();
    for (Ingestion one : evictions.ingestions()) {
      one.advance();
    }
    uploads.advance();
    objects.advance();
    sources.advance();
    evictions.advance();
    // With what others leave of the pipelines.
    for (Scrubber one : scrubbers) {
      one.advance(nowNs);
    }
  }

  /**
   * Whether a slot of a size class may come free without anybody's doing: something can be evicted,
   * or is on its way out or in.
   */
  public boolean isRoomComing(int sizeClass) {
    return !isIdle() || first.isRoomComing(sizeClass);
  }

  /** Whether transfers wait to be settled. */
  public boolean hasFinished() {
    return mover.hasFinished() || sources.hasFound() || objects.hasConfirmed();
  }

  /** Whether nothing is under way, and nothing waits to be started. */
  public boolean isIdle() {
    return mover.isIdle()
        && commits.waiting() == 0
        && audits.waiting() == 0
        && promotions.size() == 0
        && evictions.waiting() == 0
        && uploads.waiting() == 0
        && sources.waiting() == 0;
  }

  // ---- checks

  /** Gauges of slots and bytes. */
  public void publishGauges() {
    counters.set(Counter.GAUGE_BLOCKS, directory.size());
    counters.set(Counter.GAUGE_ANNOTATION_BYTES, directory.annotations().bytesUsed());
    for (ResidentTier tier : stack.all()) {
      TierTraits.Gauges gauges = tier.traits().counts().gauges();
      counters.set(gauges.slots(), sum(gauges, one -> one.slots().slotsTotal()));
      counters.set(gauges.free(), sum(gauges, one -> one.slots().slotsFree()));
      counters.set(gauges.resident(), sum(gauges, ResidentTier::resident));
      counters.set(gauges.inFlight(), sum(gauges, ResidentTier::inFlight));
      counters.set(gauges.bytes(), sum(gauges, one -> one.slots().bytesUsed()));
      counters.set(gauges.capacity(), sum(gauges, one -> one.slots().bytesCapacity()));
    }
  }

  /** Something of all tiers that have the same gauges. */
  private long sum(TierTraits.Gauges gauges, ToLongFunction<ResidentTier> value) {
    long sum = 0;
    for (int tier = 0; tier < stack.count(); tier++) {
      boolean isOne = stack.at(tier).traits().counts().gauges().equals(gauges);
      sum += isOne ? value.applyAsLong(stack.at(tier)) : 0;
    }
    return sum;
  }

  /** Memory of the policies, in bytes; operators swap policies. */
  public long policyBytes() {
    long bytes = uploads.ingestion().policyBytes();
    for (ResidentTier tier : stack.all()) {
      bytes += tier.policyBytes();
    }
    for (Ingestion one : evictions.ingestions()) {
      bytes += one.policyBytes();
    }
    return bytes;
  }

  /** Checks that directory, slots and policies agree; for tests. */
  public void checkInvariants() {
    directory.checkInvariants();
    for (ResidentTier tier : stack.all()) {
      tier.checkInvariants();
    }
    sources.checkInvariants();
  }

  /** The state in words, for whoever looks for a defect. */
  @Override
  public String toString() {
    StringBuilder out = new StringBuilder(256);
    out.append("checksums ").append(mover.checksumsInFlight());
    out.append(", below ").append(lower.inFlight());
    out.append(", backlog ").append(commits.waiting());
    out.append(", promotions ").append(promotions.size());
    out.append(", ingestion ").append(evictions.waiting());
    out.append(", objects ").append(mover.outsideInFlight());
    out.append(" and waiting ").append(uploads.waiting() + sources.waiting());
    out.append(isOutOfBudget() ? ", no budget" : "").append(lower);
    SlotAllocator slots = first.slots();
    for (int i = 0; i < slots.classes(); i++) {
      out.append("; class ").append(i).append(": regions ").append(slots.regionsOfClass(i));
      out.append(", free ").append(slots.freeOfClass(i));
      out.append(", leaving ").append(mover.evictions(i));
      out.append(", waiting ").append(fresh.waiting(i));
    }
    for (ResidentTier tier : stack.all()) {
      SlotAllocator of = tier.slots();
      out.append("; ").append(tier.traits().title()).append(": draining ").append(of.isDraining());
      for (int i = 0; i < of.classes(); i++) {
        out.append(", class ").append(i).append(": regions ").append(of.regionsOfClass(i));
        out.append(", free ").append(of.freeOfClass(i));
      }
    }
    for (int block = 0; block < directory.highWater(); block++) {
      if (directory.isUsed(block) && (directory.uses(block) > 0 || directory.holds(block) > 0)) {
        out.append("; block ").append(block).append(" is");
        for (ResidentTier tier : stack.all()) {
          out.append(' ').append(tier.state(block));
        }
        out.append(", uses ").append(directory.uses(block));
        out.append(", holds ").append(directory.holds(block));
        out.append(", class ").append(first.sizeClass(block));
      }
    }
    return out.toString();
  }
}
