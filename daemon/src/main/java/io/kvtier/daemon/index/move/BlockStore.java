package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.lane.RowMarks;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.ObjectLine;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.daemon.index.source.ObjectSource;
import io.kvtier.daemon.index.source.Sources;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.space.FirstRows;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.daemon.index.transfer.LowerTier;
import io.kvtier.daemon.index.transfer.LowerTiers;
import io.kvtier.daemon.index.transfer.Mover;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Counter;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/**
 * The blocks of this node and their tiers, which the verbs put, get and delete. {@link Moves} has
 * the parts that move the copies. Confined to the index.
 *
 * <ul>
 *   <li>A block comes by {@link Commits} from a client, by {@link Loads} from a lower tier, by
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
  private final FirstRows firstRows;
  private final ObjectLine objects;
  private final Sources sources;
  private final Copies copies;
  private final Moves moves;
  private final BlockPlaces places;
  private final StoreGauges gauges;
  private final RetentionQuota retentionQuota;

  public BlockStore(StoreParts parts, BlockListener listener) {
    IndexCore core = parts.core();
    directory = core.directory();
    counters = core.counters();
    drops = new Drops(directory, counters);
    int[] recordsMax = Records.shares(directory, core.namespaces().tenants());
    StoreTiers tiers = new StoreTiers(parts, recordsMax, this::giveUpStore);
    firstRows = tiers.firstRows();
    stack = tiers.stack();
    first = stack.first();
    lower = tiers.lower();
    ObjectParts store = parts.tiers().objects();
    objects = new ObjectLine(store, directory, core.namespaces(), parts.events());
    sources = new Sources(sources(parts));
    mover = new Mover(core, parts.tiers().first(), store, stack, lower, sources, parts.transfers());
    copies = new Copies(core, stack, drops, parts.transfers(), listener);
    MoveParts shared = new MoveParts(core, stack, lower, mover, copies, drops, listener);
    moves = new Moves(parts, shared, firstRows, objects, sources, recordsMax);
    places = new BlockPlaces(directory, stack, sources, objects.isConfigured());
    gauges = new StoreGauges(core, stack);
    retentionQuota =
        new RetentionQuota(directory, first, recordsMax, core.limits().retainedShare());
  }

  private void giveUpStore(int block, int tier) {
    mover.giveUpStore(block, tier);
  }

  /** The sources, in the order in which they are asked: the object store is the last. */
  private List<BlockSource> sources(StoreParts parts) {
    Namespaces namespaces = parts.core().namespaces();
    int waitingMax = parts.core().limits().holdsMax();
    List<BlockSource> opened = new ArrayList<>();
    for (BlockSource.Opener one : parts.tiers().sources()) {
      opened.add(one.open(parts.core(), parts.isAwaited(), waitingMax));
    }
    ObjectParts store = parts.tiers().objects();
    if (store != null) {
      opened.add(
          new ObjectSource(objects, store, directory, namespaces, parts.isAwaited(), waitingMax));
    }
    return opened;
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

  /** How blocks leave the tiers. */
  public Evictions evictions() {
    return moves.evictions();
  }

  /** Counts of dropped blocks, by reason. */
  public Drops drops() {
    return drops;
  }

  /** The index's knowledge of the object tier. */
  public ObjectLine objects() {
    return objects;
  }

  /** The sources of blocks that this node does not own. */
  public Sources sources() {
    return sources;
  }

  /** How blocks get to the object tier. */
  public Uploads uploads() {
    return moves.uploads();
  }

  /** How blocks come from the object tier. */
  public Fetches fetches() {
    return moves.fetches();
  }

  /** The records of blocks, of which tenants have their shares. */
  public Records records() {
    return moves.records();
  }

  /** How much each tenant may retain. */
  public RetentionQuota retentionQuota() {
    return retentionQuota;
  }

  /** The blocks of lower tiers that wait for their first slots. */
  public Promotions promotions() {
    return moves.promotions();
  }

  /** The blocks of puts that wait for a first slot. The verbs fill and serve this queue. */
  public ClassQueues fresh() {
    return moves.fresh();
  }

  /** Why the ledger of the first tier can't be written; empty while it can. */
  public String firstTrouble() {
    return firstRows.trouble();
  }

  // ---- blocks

  /** The tiers of blocks, in the terms of clients and of readers of events. */
  public BlockPlaces places() {
    return places;
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
    return mover.outside().estimatedFetchNs(source, blocks);
  }

  /** The lower tier that takes a block first; null when none could. */
  public @Nullable LowerTier target(int block) {
    ResidentTier taker = stack.taker(block);
    return taker == null ? null : lower.at(taker.number());
  }

  /** Notes the size classes of a new namespace's blocks. */
  public void open(Namespaces.Namespace namespace) {
    for (ResidentTier tier : stack.all()) {
      tier.open(namespace);
    }
  }

  // ---- puts

  /**
   * Gives a fresh block a first slot for a session to write.
   *
   * @param isCopied whether the client that copies the bytes makes their checksum. Then the slot
   *     may be one that another client may still write. A checksum that the daemon makes would hide
   *     such a write
   * @param lane the lane of the slot, if there is a free one in it; {@code SlotAllocator.ANY_LANE}
   *     if any lane will do
   * @return false while no slot is free; an eviction that frees one may have begun
   */
  public boolean reserve(int block, int sizeClass, long session, boolean isCopied, int lane) {
    if (!first.allocate(block, sizeClass, session, false, isCopied, lane)) {
      moves.evictions().makeRoomForWaiting(sizeClass, session, isCopied);
      if (!first.allocate(block, sizeClass, session, true, isCopied, lane)) {
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
    moves.commits().commit(block);
  }

  /**
   * All bytes of a block have come, and some of them encoded, to another slot: these are decoded to
   * the block's slot, its checksum is made, then it is resident. The other slot is given back.
   *
   * @param slot of the first tier, kept for the block
   * @param granules whether a granule is in this slot; asked by the thread that decodes
   */
  public void decode(int block, int slot, BlockEncoding encoding, IntPredicate granules) {
    moves.commits().decode(block, slot, encoding, granules);
  }

  /** How many blocks wait for {@link #decode}; for tests. */
  public int decoding() {
    return moves.commits().decoding();
  }

  /** The client has written the block: its checksum is made, then it is resident. */
  public void commit(int block) {
    moves.commits().commit(block);
  }

  /** The client has written the block, and made its checksum while it did. */
  public void commitChecksummed(int block, int checksum) {
    moves.commits().commitChecksummed(block, checksum);
  }

  /** The bytes of a block that another node pushes are in its slot, and verified. */
  public void receive(int block, int checksum) {
    moves.commits().receive(block, checksum);
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
    directory.endPushed(block);
    if (!first.isResident(block)) {
      // The policy hears of the block when its checksum is made.
      return;
    }
    first.hit(block);
    moves.arrivals().used(block, directory.addHit(block));
    // The object is used, too, although the block is here: the block may be dropped because it has
    // an object.
    objects.used(block);
  }

  /** A client holds a block, wherever it is. */
  public void pin(int block) {
    directory.addHolds(block, 1);
  }

  /** Whether anybody holds a block. */
  public boolean isHeld(int block) {
    return directory.holds(block) > 0;
  }

  /** A client no longer holds a block. */
  public void release(int block) {
    directory.addHolds(block, -1);
    copies.settle(block);
  }

  /** Begins a use of a block, which keeps the block's record. */
  public void use(int block) {
    directory.addUses(block, 1);
  }

  /** Ends a use of a block. */
  public void endUse(int block) {
    copies.endUse(block);
  }

  /** How blocks come from the lower tiers. */
  public Loads loads() {
    return moves.loads();
  }

  // ---- checks of copies

  /** Checks of first copies. */
  public Audits audits() {
    return moves.audits();
  }

  /**
   * Whether a reader must verify a block: another session could have written to the block's slot
   * since its checksum was made, or an earlier daemon made the checksum.
   */
  public boolean mustVerify(int block, long reader) {
    return first.mustVerify(block, reader);
  }

  /** Reads of lower tiers in the background. */
  public Scrubbers scrubbers() {
    return moves.scrubbers();
  }

  /** A client says again how important a block is: the highest importance of all puts counts. */
  public void raiseImportance(int block, int importance) {
    if (importance > directory.importance(block)) {
      directory.setImportance(block, importance);
      for (ResidentTier tier : stack.all()) {
        tier.importanceChanged(block);
      }
    }
  }

  // ---- deletion

  /** Deletes a block from this node; its object stays. */
  public void delete(int block) {
    counters.add(Counter.DELETED, 1);
    copies.remove(block);
  }

  /** Says when all ledger rows that are queued for deletion now are deleted for good. */
  public RowMarks rowMarks() {
    return new RowMarks(lower.lanes());
  }

  // ---- writes to lower tiers

  /** Whether the write budget of any lower tier is used up for the moment. */
  public boolean isOutOfBudget() {
    return lower.isAnyOutOfBudget();
  }

  // ---- what outlives the daemon

  /** Sets the highest counts so far, of rows of the first tier and of stores. */
  public void continueAfter(long lastFirstRow, long lastStore) {
    firstRows.continueAfter(lastFirstRow);
    mover.continueAfter(lastStore);
  }

  // ---- each round

  /** Settles finished transfers. */
  public int collect() {
    return moves.collect();
  }

  /**
   * Starts the work that waits: checksums, promotions, stores, uploads, and evictions ahead of
   * need.
   */
  public void maintain(long nowNs) {
    moves.maintain(nowNs);
  }

  /**
   * Whether a slot of a size class may come free without an action of a client: a block can be
   * evicted, or transfers are under way.
   */
  public boolean isRoomComing(int sizeClass) {
    return !isIdle() || first.isRoomComing(sizeClass);
  }

  /** Whether transfers wait to be settled. */
  public boolean hasFinished() {
    return moves.hasFinished();
  }

  /** Whether nothing is under way, and nothing waits to be started. */
  public boolean isIdle() {
    return moves.isIdle();
  }

  // ---- checks

  /** Gauges of slots and bytes. */
  public void publishGauges() {
    gauges.publish();
  }

  /** Memory of the policies, in bytes; operators swap policies. */
  public long policyBytes() {
    long bytes = moves.policyBytes();
    for (ResidentTier tier : stack.all()) {
      bytes += tier.policyBytes();
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
    return moves.toString();
  }
}
