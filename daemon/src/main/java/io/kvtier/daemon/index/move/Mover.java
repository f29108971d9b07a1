package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.daemon.index.core.TransferWatch;
import io.kvtier.daemon.index.lane.Lane;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.daemon.index.source.Sources;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Iterator;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * Hands blocks to the pipelines and takes them back: fills pooled transfers, keeps within the
 * pipelines' depths, and says how each ended. A block with a transfer under way is in use. Confined
 * to the index.
 *
 * <p>What goes from one lower tier to another, or to an object, is a relay: it is read into a
 * buffer, and written from there.
 */
final class Mover {
  /**
   * In place of the number of a tier that is written: the object tier. In place of one that is
   * read: the first source, and the numbers below are those of the further ones.
   */
  static final int OUTSIDE = -1;

  private static final int STORE_PRIORITY = 2;
  private static final int CHECKSUM_PRIORITY = 1;

  // Uploads leave room for fetches: somebody waits for those.
  private static final double UPLOADS_SHARE = 0.5;
  private static final int FETCHES_AT_ONCE = 16;

  /** Why a transfer is made. */
  private enum Purpose {
    PLAIN,
    EVICT,
    AUDIT,
    SCRUB,
    RELAY
  }

  private final Directory directory;
  private final Namespaces namespaces;
  private final TierStack stack;
  private final ResidentTier first;
  private final LowerTiers lower;
  private final IntFunction<MemorySegment> slabs;
  private final Pipeline checksums;
  private final int checksumDepth;
  private final Sources sources;
  private final @Nullable ObjectParts objects;
  private final int objectDepth;
  private final RelayBuffers buffers;
  private final Latencies latencies;
  private final TransferWatch requests;
  private final ArrayDeque<Transfer> finished = new ArrayDeque<>();
  private final ArrayDeque<Transfer> relaysToWrite = new ArrayDeque<>();
  private final ArrayDeque<Transfer> relaysToEnd = new ArrayDeque<>();
  private final Consumer<Transfer> onFinished = finished::add;
  private final Settlement settlement = new Settlement();
  private final Transfer[] pool;
  private final Purpose[] purpose;
  private final int[] from;
  private final int[] to;
  private final int[] spare;
  private final int[] evictions;
  private final int[] stores;
  private final Tenants tenants;
  private final int[] checksumsOf;
  private final int[][] inFlightOf;
  private final double[] fetchNs;
  private final int objectSource;
  private final int[] uploadsOf;
  private final int[] departingOf;
  private int poolFree;
  private long generation;
  private int scrubs;
  private int relays;
  private int spills;
  private int uploads;

  Mover(StoreParts parts, TierStack stack, LowerTiers lower, Sources sources) {
    IndexCore core = parts.core();
    StoreParts.First top = parts.tiers().first();
    this.directory = core.directory();
    this.slabs = top.slabs();
    this.checksums = top.checksums().pipeline();
    this.checksumDepth = top.checksums().depth();
    this.namespaces = core.namespaces();
    this.tenants = namespaces.tenants();
    this.stack = stack;
    this.first = stack.first();
    this.lower = lower;
    this.checksumsOf = new int[tenants.count()];
    this.uploadsOf = new int[tenants.count()];
    this.departingOf = new int[tenants.count()];
    this.evictions = new int[first.slots().classesMax()];
    this.stores = new int[first.slots().classesMax()];
    this.latencies = core.latencies();
    this.requests = parts.transfers();
    this.objects = parts.tiers().objects();
    this.objectDepth = objects == null ? 0 : objects.traffic().depth();
    this.buffers = new RelayBuffers(objects == null ? 0 : objects.spillBytes());
    this.sources = sources;
    this.inFlightOf = new int[sources.count()][tenants.count()];
    this.fetchNs = new double[sources.count()];
    Arrays.fill(fetchNs, 10e6);
    this.objectSource = sources.count() - 1;
    int transfers = checksumDepth;
    for (int i = 0; i < sources.count(); i++) {
      transfers += sources.at(i).depth();
    }
    for (StoreParts.Lower one : parts.tiers().lower()) {
      transfers += one.devices().pipelines().size() * one.devices().depth();
    }
    pool = new Transfer[transfers];
    purpose = new Purpose[transfers];
    from = new int[transfers];
    to = new int[transfers];
    spare = new int[transfers];
    for (int i = 0; i < transfers; i++) {
      pool[i] = new Transfer(i);
      purpose[i] = Purpose.PLAIN;
      spare[poolFree++] = i;
    }
  }

  private int tenantOf(int block) {
    return namespaces.of(directory, block).tenant();
  }

  // ---- checksums

  /** Makes the checksum of a block's first copy; false when that can't be started now. */
  boolean checksum(int block) {
    return startChecksum(block, Purpose.PLAIN);
  }

  /** Makes the checksum of a resident block again; false when that can't be started now. */
  boolean audit(int block) {
    return startChecksum(block, Purpose.AUDIT);
  }

  private boolean startChecksum(int block, Purpose why) {
    int tenant = tenantOf(block);
    if (poolFree == 0
        || checksums.inFlight() >= checksumDepth
        || checksumsOf[tenant] >= tenants.shareOf(checksumDepth, tenant)) {
      return false;
    }
    Transfer transfer = take(block, Transfer.Kind.CHECKSUM, CHECKSUM_PRIORITY, why);
    if (!checksums.offer(transfer)) {
      return takeBack();
    }
    checksumsOf[tenant]++;
    return started(block);
  }

  // ---- lower tiers

  /** Whether a block's load from a tier could be handed over now. */
  boolean canLoad(int block, int source) {
    return lower.at(source).lanes().of(block).canLoad(tenantOf(block)) && poolFree > 0;
  }

  /** Reads a block from a lower tier to its first slot; false when that can't be started now. */
  boolean load(int block, int source, int priority) {
    if (poolFree == 0) {
      return false;
    }
    Transfer transfer = take(block, Transfer.Kind.LOAD, priority, Purpose.PLAIN);
    return offer(transfer, source) ? started(block) : takeBack();
  }

  /**
   * Reads a block from a lower tier into other memory, to verify it; false when that can't be
   * started now.
   */
  boolean scrub(int block, int source, MemorySegment memory) {
    boolean isStarted = read(block, source, memory, Purpose.SCRUB);
    scrubs += isStarted ? 1 : 0;
    return isStarted;
  }

  private boolean read(int block, int source, MemorySegment memory, Purpose why) {
    if (poolFree == 0) {
      return false;
    }
    Transfer transfer = pool[spare[--poolFree]];
    purpose[transfer.poolIndex] = why;
    describe(transfer, block, Transfer.Kind.LOAD, STORE_PRIORITY);
    transfer.slab = memory;
    transfer.slabOffset = 0;
    transfer.slotBytes = stack.at(source).payloadBytes(block);
    return offer(transfer, source) ? started(block) : takeBack();
  }

  /** Hands a load over to a tier's device. */
  private boolean offer(Transfer transfer, int source) {
    from[transfer.poolIndex] = source;
    place(transfer, source);
    return lower.at(source).lanes().of(transfer.block).offer(transfer);
  }

  /** Where the block lies, or is to lie, on its device. */
  private void place(Transfer transfer, int tier) {
    transfer.region = lower.at(tier).lanes().regionOnDevice(transfer.block);
    transfer.offset = stack.at(tier).slots().offsetOf(stack.at(tier).slot(transfer.block));
  }

  /** Whether a store of a tenant's could be handed over to a tier now, on some device. */
  boolean canStore(int tenant, LowerTier target) {
    return poolFree > 0 && target.lanes().canStore(tenant);
  }

  /** Writes a block from its first slot to a lower one; false when that can't be started now. */
  boolean store(int block, LowerTier target, boolean evict) {
    if (poolFree == 0) {
      return false;
    }
    Purpose why = evict ? Purpose.EVICT : Purpose.PLAIN;
    Transfer transfer = take(block, Transfer.Kind.STORE, STORE_PRIORITY, why);
    transfer.generation = ++generation;
    from[transfer.poolIndex] = 0;
    to[transfer.poolIndex] = target.number();
    place(transfer, target.number());
    if (!target.lanes().of(block).offer(transfer)) {
      return takeBack();
    }
    countStore(block, evict, 1);
    return started(block);
  }

  private void countStore(int block, boolean evict, int more) {
    int sizeClass = first.sizeClass(block);
    stores[sizeClass] += more;
    evictions[sizeClass] += evict ? more : 0;
  }

  /**
   * A block whose store in a tier may be under way is to go from there: no row of it shall be
   * written any more. One that was written already is the caller's to forget, after this.
   */
  void giveUpStore(int block, int tier) {
    for (Transfer transfer : pool) {
      boolean writes =
          transfer.kind == Transfer.Kind.STORE || purpose[transfer.poolIndex] == Purpose.RELAY;
      if (transfer.block == block && writes && to[transfer.poolIndex] == tier) {
        transfer.givenUp = true;
      }
    }
  }

  /** No store so far had a higher count. */
  void continueAfter(long lastStore) {
    generation = lastStore;
  }

  // ---- relays

  /**
   * Writes a lower tier's copy to a tier further down, or to an object; false when that can't be
   * started now.
   *
   * @param target a tier's number, or {@link #OUTSIDE}
   */
  boolean relay(int block, int source, int target) {
    int tenant = tenantOf(block);
    boolean isTaken = target == OUTSIDE ? canUpload(tenant) : canStore(tenant, lower.at(target));
    MemorySegment buffer = isTaken ? buffers.take(stack.at(source).payloadBytes(block)) : null;
    if (buffer == null) {
      return false;
    }
    if (!read(block, source, buffer, Purpose.RELAY)) {
      buffers.give(buffer);
      return false;
    }
    to[last().poolIndex] = target;
    countRelay(tenant, target, 1);
    return true;
  }

  /** The transfer that was taken from the pool last. */
  private Transfer last() {
    return pool[spare[poolFree]];
  }

  private void countRelay(int tenant, int target, int more) {
    relays += more;
    if (target == OUTSIDE) {
      spills += more;
      uploadsOf[tenant] += more;
      departingOf[tenant] += more;
    }
  }

  /** Copies of lower tiers on their way further down. */
  int relays() {
    return relays;
  }

  private @Nullable Settlement relayRead(Transfer transfer) {
    if (transfer.status != Status.OK) {
      return endRelay(transfer, false);
    }
    int target = to[transfer.poolIndex];
    transfer.kind = Transfer.Kind.STORE;
    transfer.generation = ++generation;
    transfer.offeredNs = latencies.roundNs();
    if (target != OUTSIDE) {
      place(transfer, target);
    }
    relaysToWrite.add(transfer);
    writeRelays();
    return null;
  }

  private void writeRelays() {
    for (Iterator<Transfer> each = relaysToWrite.iterator(); each.hasNext(); ) {
      Transfer transfer = each.next();
      int target = to[transfer.poolIndex];
      if (target == OUTSIDE ? writeOutside(transfer) : writeBelow(transfer, lower.at(target))) {
        each.remove();
      }
    }
  }

  private boolean writeOutside(Transfer transfer) {
    if (objects == null
        || objects.traffic().pipeline().inFlight() >= objectDepth
        || !objects.traffic().pipeline().offer(transfer)) {
      return false;
    }
    inFlightOf[objectSource][transfer.owner]++;
    return true;
  }

  private boolean writeBelow(Transfer transfer, LowerTier target) {
    Lane lane = target.lanes().of(transfer.block);
    if (lane.isFenced()) {
      // Nobody knows for how long: the copy stays where it is.
      transfer.status = Status.IO_ERROR;
      relaysToEnd.add(transfer);
      return true;
    }
    return lane.offer(transfer);
  }

  private Settlement endRelay(Transfer transfer, boolean isRead) {
    int target = to[transfer.poolIndex];
    countRelay(transfer.owner, target, -1);
    buffers.give(transfer.slab);
    settle(transfer, target == OUTSIDE ? Settlement.Kind.SPILL : Settlement.Kind.STORE);
    settlement.isRead = isRead;
    settlement.isEviction = true;
    return settlement;
  }

  // ---- the object tier

  /** Whether a read of a tenant's from a source could be handed over now. */
  boolean canFetch(int tenant, int source) {
    int depth = sources.at(source).depth();
    return poolFree > 0
        && sources.at(source).pipeline().inFlight() < depth
        && inFlightOf[source][tenant] < tenants.shareOf(depth, tenant);
  }

  /** Whether an upload of a tenant's could be handed over now: fetches have their share. */
  boolean canUpload(int tenant) {
    int uploadsMax = Math.max(1, (int) (objectDepth * UPLOADS_SHARE));
    return objects != null
        && canFetch(tenant, objectSource)
        && uploads + spills < uploadsMax
        && uploadsOf[tenant] < tenants.shareOf(uploadsMax, tenant);
  }

  /** Reads from a source to a block's first slot; false when that can't be started now. */
  boolean fetch(int block, int source, int priority) {
    if (!canFetch(tenantOf(block), source)) {
      return false;
    }
    Transfer transfer = take(block, Transfer.Kind.LOAD, priority, Purpose.PLAIN);
    from[transfer.poolIndex] = OUTSIDE - source;
    return startOutside(block, transfer, source);
  }

  /** Writes a block's first copy to an object; false when that can't be started now. */
  boolean upload(int block, boolean evict) {
    if (!canUpload(tenantOf(block))) {
      return false;
    }
    Purpose why = evict ? Purpose.EVICT : Purpose.PLAIN;
    Transfer transfer = take(block, Transfer.Kind.STORE, STORE_PRIORITY, why);
    transfer.generation = ++generation;
    from[transfer.poolIndex] = 0;
    to[transfer.poolIndex] = OUTSIDE;
    if (!startOutside(block, transfer, objectSource)) {
      return false;
    }
    uploads++;
    uploadsOf[transfer.owner]++;
    departingOf[transfer.owner] += evict ? 1 : 0;
    countStore(block, evict, 1);
    return true;
  }

  private boolean startOutside(int block, Transfer transfer, int source) {
    if (!sources.at(source).pipeline().offer(transfer)) {
      return takeBack();
    }
    inFlightOf[source][transfer.owner]++;
    return started(block);
  }

  /** Blocks of a tenant that are being written to objects so that they can leave this node. */
  int departing(int tenant) {
    return departingOf[tenant];
  }

  /**
   * A block whose object was asked for, so that it can leave this node, or no longer is.
   *
   * @param isFirst whether its first slot will be free then
   */
  void confirming(int block, boolean isFirst, int more) {
    departingOf[tenantOf(block)] += more;
    if (isFirst) {
      evictions[first.sizeClass(block)] += more;
    }
  }

  /** The expected time to read that many blocks from a source, ns, as measured. */
  long estimatedFetchNs(int source, int blocks) {
    return blocks == 0 ? 0 : (long) (fetchNs[source] * (1 + blocks / FETCHES_AT_ONCE));
  }

  // ---- the pool of transfers

  private Transfer take(int block, Transfer.Kind kind, int priority, Purpose why) {
    Transfer transfer = pool[spare[--poolFree]];
    purpose[transfer.poolIndex] = why;
    describe(transfer, block, kind, priority);
    SlotAllocator slots = first.slots();
    int slot = first.slot(block);
    transfer.slab = slabs.apply(slots.regionOf(slot));
    transfer.slabOffset = slots.offsetOf(slot);
    transfer.slotBytes = slots.slotBytes(slots.classOf(slot));
    return transfer;
  }

  private boolean started(int block) {
    directory.addUses(block, 1);
    return true;
  }

  /** The transfer that was taken last goes back to the pool. */
  private boolean takeBack() {
    poolFree++;
    return false;
  }

  /** Fills in everything but where the bytes are, in memory and on a device. */
  private void describe(Transfer transfer, int block, Transfer.Kind kind, int priority) {
    transfer.kind = kind;
    transfer.block = block;
    transfer.owner = tenantOf(block);
    transfer.priority = priority;
    transfer.length = (int) namespaces.of(directory, block).blockBytes();
    transfer.checksum = directory.checksum(block);
    transfer.status = Status.OK;
    transfer.cause = "";
    transfer.givenUp = false;
    transfer.offeredNs = latencies.roundNs();
    if (kind != Transfer.Kind.CHECKSUM) {
      Namespaces.Namespace namespace = namespaces.of(directory, block);
      transfer.namespaceId = namespace.id();
      transfer.namespaceText = namespace.text();
      transfer.namespaceHigh = namespace.high();
      transfer.namespaceLow = namespace.low();
      transfer.parent = directory.parent(block);
      transfer.depth = directory.depth(block);
      transfer.group = directory.group(block);
      transfer.keyBytes = directory.keyBytes(block);
      directory.copyKey(block, transfer.key);
      transfer.annotate(directory.annotations().bytes(block));
      directory.annotations().copy(block, transfer.annotation);
    }
  }

  // ---- settlements

  /** Takes finished transfers from the pipelines, for {@link #poll}; returns how many. */
  int collect() {
    int count = checksums.collect(onFinished) + lower.collect(onFinished);
    for (int i = 0; i < sources.count(); i++) {
      count += sources.at(i).pipeline().collect(onFinished);
    }
    return count;
  }

  /**
   * The end of the next finished transfer, whose block is no longer in use on its account; null
   * when there is none.
   */
  @Nullable Settlement poll() {
    for (Transfer transfer = finished.poll(); transfer != null; transfer = finished.poll()) {
      Settlement one = settle(transfer);
      if (one != null) {
        return one;
      }
    }
    if (!relaysToWrite.isEmpty()) {
      writeRelays();
    }
    Transfer fenced = relaysToEnd.poll();
    return fenced == null ? null : endRelay(fenced, true);
  }

  private @Nullable Settlement settle(Transfer transfer) {
    return switch (transfer.kind) {
      case CHECKSUM -> settleChecksum(transfer);
      case LOAD ->
          from[transfer.poolIndex] <= OUTSIDE ? settleFetch(transfer) : settleLoad(transfer);
      case STORE ->
          to[transfer.poolIndex] == OUTSIDE ? settleUpload(transfer) : settleStore(transfer);
      case FORGET -> throw new IllegalStateException("a device settles what it forgets");
    };
  }

  /** Gives a transfer back, and says how it ended. */
  private Settlement settle(Transfer transfer, Settlement.Kind kind) {
    settlement.kind = kind;
    settlement.block = transfer.block;
    settlement.status = transfer.status;
    settlement.from = from[transfer.poolIndex];
    settlement.to = to[transfer.poolIndex];
    settlement.isRead = true;
    settlement.isEviction = purpose[transfer.poolIndex] == Purpose.EVICT;
    settlement.checksum = transfer.checksum;
    settlement.writtenBytes = transfer.writtenBytes;
    settlement.annotation = transfer.annotation;
    settlement.annotationBytes = transfer.annotationBytes;
    spare[poolFree++] = transfer.poolIndex;
    directory.addUses(transfer.block, -1);
    return settlement;
  }

  private Settlement settleChecksum(Transfer transfer) {
    tell(transfer, first.traits().id());
    checksumsOf[transfer.owner]--;
    boolean isAudit = purpose[transfer.poolIndex] == Purpose.AUDIT;
    return settle(transfer, isAudit ? Settlement.Kind.AUDIT : Settlement.Kind.CHECKSUM);
  }

  private @Nullable Settlement settleLoad(Transfer transfer) {
    LowerTier source = lower.at(from[transfer.poolIndex]);
    time(transfer, source.traits());
    tell(transfer, source.traits().id());
    return switch (purpose[transfer.poolIndex]) {
      case SCRUB -> {
        scrubs--;
        yield settle(transfer, Settlement.Kind.SCRUB);
      }
      case RELAY -> relayRead(transfer);
      default -> {
        source.lanes().at(transfer.device).learn(transfer);
        if (transfer.status == Status.OK) {
          source.learn(transfer.length, transfer.elapsedNs);
        }
        yield settle(transfer, Settlement.Kind.LOAD);
      }
    };
  }

  private Settlement settleStore(Transfer transfer) {
    LowerTier target = lower.at(to[transfer.poolIndex]);
    time(transfer, target.traits());
    tell(transfer, target.traits().id());
    target.lanes().at(transfer.device).learn(transfer);
    if (purpose[transfer.poolIndex] == Purpose.RELAY) {
      return endRelay(transfer, true);
    }
    countStore(transfer.block, purpose[transfer.poolIndex] == Purpose.EVICT, -1);
    return settle(transfer, Settlement.Kind.STORE);
  }

  private Settlement settleFetch(Transfer transfer) {
    int source = OUTSIDE - from[transfer.poolIndex];
    BlockSource.Traits traits = sources.at(source).traits();
    tell(transfer, traits.id());
    Latencies.Kind times = traits.times();
    if (times != null) {
      time(transfer, times);
    }
    inFlightOf[source][transfer.owner]--;
    settlement.source = source;
    if (transfer.status == Status.OK) {
      int block = transfer.block;
      directory.setChecksum(block, transfer.checksum);
      directory.setLineage(block, transfer.depth, transfer.parent);
      fetchNs[source] += 0.1 * (transfer.elapsedNs - fetchNs[source]);
    }
    return settle(transfer, Settlement.Kind.FETCH);
  }

  private Settlement settleUpload(Transfer transfer) {
    tell(transfer, TierId.OBJECT);
    time(transfer, Latencies.Kind.STORE_OBJECT);
    inFlightOf[objectSource][transfer.owner]--;
    if (purpose[transfer.poolIndex] == Purpose.RELAY) {
      return endRelay(transfer, true);
    }
    boolean isEviction = purpose[transfer.poolIndex] == Purpose.EVICT;
    uploads--;
    uploadsOf[transfer.owner]--;
    departingOf[transfer.owner] -= isEviction ? 1 : 0;
    countStore(transfer.block, isEviction, -1);
    return settle(transfer, Settlement.Kind.UPLOAD);
  }

  private void tell(Transfer transfer, TierId tier) {
    if (requests.isInterested()) {
      // Requests wait for checksums and for loads, not for stores, scrubs or relays.
      boolean isAwaited =
          transfer.kind == Transfer.Kind.CHECKSUM
              || (transfer.kind == Transfer.Kind.LOAD
                  && purpose[transfer.poolIndex] == Purpose.PLAIN);
      requests.settled(transfer, tier, isAwaited);
    }
  }

  private void time(Transfer transfer, TierTraits tier) {
    TierTraits.Times times = tier.times();
    if (times != null) {
      time(transfer, transfer.kind == Transfer.Kind.LOAD ? times.load() : times.store());
    }
  }

  /** Failed transfers are not timed. */
  private void time(Transfer transfer, Latencies.Kind kind) {
    if (transfer.status == Status.OK) {
      latencies.took(kind, transfer.elapsedNs);
    }
  }

  // ---- what is under way

  /** First slots of a size class that stores under way will free. */
  int evictions(int sizeClass) {
    return evictions[sizeClass];
  }

  /** First copies of a size class that are being stored in a lower tier, whatever for. */
  int stores(int sizeClass) {
    return stores[sizeClass];
  }

  int checksumsInFlight() {
    return checksums.inFlight();
  }

  /** Uploads and fetches under way. */
  int outsideInFlight() {
    int count = 0;
    for (int i = 0; i < sources.count(); i++) {
      count += sources.at(i).pipeline().inFlight();
    }
    return count;
  }

  private boolean hasFinishedOutside() {
    for (int i = 0; i < sources.count(); i++) {
      if (sources.at(i).pipeline().hasFinished()) {
        return true;
      }
    }
    return false;
  }

  /** Whether transfers wait to be settled. */
  boolean hasFinished() {
    return !finished.isEmpty()
        || !relaysToEnd.isEmpty()
        || checksums.hasFinished()
        || lower.hasFinished()
        || hasFinishedOutside();
  }

  /** Whether nothing is under way that anybody asked for. */
  boolean isIdle() {
    return !lower.isForgetting()
        && lower.inFlight() == scrubs
        && checksums.inFlight() == 0
        && outsideInFlight() == 0
        && relays == 0
        && finished.isEmpty();
  }
}
