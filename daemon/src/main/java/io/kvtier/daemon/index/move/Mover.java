package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.core.TransferWatch;
import io.kvtier.daemon.index.space.TierLine;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.ssd.SlotHeaderDescriptor;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * Hands blocks to the pipelines and takes them back: fills pooled transfers, keeps within the
 * pipelines' depths, and tells what came of each. A block with a transfer under way is in use.
 * Confined to the index.
 */
final class Mover {
  /** Hears how transfers ended; the block is no longer in use on their account. */
  interface Listener {
    /** The checksum of a block that a client wrote is made. */
    void onChecksum(int block, int checksum);

    /** The checksum of a resident block was made again. */
    void onAudit(int block, int checksum);

    /** A read from SSD is over, well or not. */
    void onLoaded(int block, Status status);

    /** A block on SSD was read by the scrubber. */
    void onScrubbed(int block, Status status);

    /**
     * A write to SSD is over, well or not.
     *
     * @param evict whether it was made to free the host slot
     * @param writtenBytes how many bytes were written for the block's own
     */
    void onStored(int block, Status status, boolean evict, int writtenBytes);

    /** A read of an object brings the block's annotation, or nothing, before it is over. */
    void onAnnotation(int block, byte[] annotation, int bytes);

    /** A read of an object into the host slot is over, well or not. */
    void onFetched(int block, Status status);

    /**
     * A write of a host copy to an object is over, well or not.
     *
     * @param evict whether it was made to free the host slot
     */
    void onUploaded(int block, Status status, boolean evict);

    /**
     * A write of an SSD copy to an object is over, well or not.
     *
     * @param isRead whether the copy could be read
     */
    void onSpilled(int block, Status status, boolean isRead);
  }

  private static final int STORE_PRIORITY = 2;
  private static final int CHECKSUM_PRIORITY = 1;

  // Uploads leave room for fetches: somebody waits for those.
  private static final double UPLOADS_SHARE = 0.5;
  private static final int FETCHES_AT_ONCE = 16;

  private static final byte PLAIN = 0;
  private static final byte EVICT = 1;
  private static final byte AUDIT = 2;
  private static final byte SCRUB = 3;
  private static final byte SPILL = 4;

  private final Directory directory;
  private final Namespaces namespaces;
  private final TierLine host;
  private final TierLine ssd;
  private final IntFunction<MemorySegment> slabs;
  private final Pipeline checksums;
  private final SsdLanes lanes;
  private final int checksumDepth;
  private final @Nullable ObjectParts objects;
  private final int objectDepth;
  private final SpillBuffers spillBuffers;
  private final Listener listener;
  private final Latencies latencies;
  private final TransferWatch requests;
  private final ArrayDeque<Transfer> spillsToWrite = new ArrayDeque<>();
  private final Transfer[] pool;
  private final byte[] purpose;
  private final int[] stack;
  private final int[] evictions;
  private final int[] stores;
  private final Consumer<Transfer> onChecksum = this::settleChecksum;
  private final Consumer<Transfer> onObject = this::settleObject;
  private final Tenants tenants;
  private final int[] checksumsOf;
  private final int[] objectsOf;
  private final int[] uploadsOf;
  private final int[] departingOf;
  private int poolFree;
  private long generation;
  private int scrubs;
  private int spills;
  private int uploads;
  private double ssdReadNsPerByte = 1.0 / 2.0;
  private double fetchNs = 10e6;

  Mover(
      StoreParts parts,
      Limits limits,
      Namespaces namespaces,
      TierLine host,
      TierLine ssd,
      Listener listener) {
    this.directory = parts.directory();
    this.slabs = parts.host().slabs();
    this.checksums = parts.host().checksums();
    this.checksumDepth = limits.copyDepth();
    this.namespaces = namespaces;
    this.tenants = namespaces.tenants();
    this.lanes = new SsdLanes(parts, tenants, limits.ssdDepth(), this::settleSsd);
    this.checksumsOf = new int[tenants.count()];
    this.objectsOf = new int[tenants.count()];
    this.uploadsOf = new int[tenants.count()];
    this.departingOf = new int[tenants.count()];
    this.host = host;
    this.ssd = ssd;
    this.evictions = new int[host.slots().classesMax()];
    this.stores = new int[host.slots().classesMax()];
    this.listener = listener;
    this.latencies = parts.latencies();
    this.requests = parts.transfers();
    this.objects = parts.objects();
    this.objectDepth = objects == null ? 0 : objects.depth();
    this.spillBuffers = new SpillBuffers(objects == null ? 0 : objects.spillBytes());
    int transfers = checksumDepth + lanes.count() * limits.ssdDepth() + objectDepth;
    pool = new Transfer[transfers];
    purpose = new byte[transfers];
    stack = new int[transfers];
    for (int i = 0; i < transfers; i++) {
      pool[i] = new Transfer(i);
      stack[poolFree++] = i;
    }
  }

  /** Makes the checksum of a block's host copy; false when that can't be started now. */
  boolean checksum(int block) {
    return startChecksum(block, PLAIN);
  }

  /** Makes the checksum of a resident block again; false when that can't be started now. */
  boolean audit(int block) {
    return startChecksum(block, AUDIT);
  }

  /** Whether a block's load could be handed over now. */
  boolean canLoad(int block) {
    return lanes.of(block).canLoad(tenantOf(block)) && poolFree > 0;
  }

  /** Reads a block from its SSD slot to its host slot; false when that can't be started now. */
  boolean load(int block, int priority) {
    if (poolFree == 0) {
      return false;
    }
    Transfer transfer = take(block, Transfer.Kind.LOAD, priority, PLAIN);
    return lanes.of(block).offer(transfer) ? started(block) : takeBack();
  }

  /**
   * Reads a block from its SSD slot into other memory, to verify it; false when that can't be
   * started now.
   */
  boolean scrub(int block, MemorySegment memory) {
    boolean isStarted = readSsd(block, memory, SCRUB);
    scrubs += isStarted ? 1 : 0;
    return isStarted;
  }

  /** The bytes of memory that a read of a block from SSD takes. */
  int ssdBytes(int block) {
    int slotBytes = ssd.slots().slotBytes(ssd.slots().classOf(ssd.slot(block)));
    return slotBytes - SlotHeaderDescriptor.HEADER_BYTES;
  }

  private boolean readSsd(int block, MemorySegment memory, byte why) {
    if (poolFree == 0) {
      return false;
    }
    Transfer transfer = pool[stack[--poolFree]];
    purpose[transfer.poolIndex] = why;
    describe(transfer, block, Transfer.Kind.LOAD, STORE_PRIORITY);
    transfer.slab = memory;
    transfer.slabOffset = 0;
    transfer.slotBytes = ssdBytes(block);
    return lanes.of(block).offer(transfer) ? started(block) : takeBack();
  }

  // ---- the object tier

  /** Whether a transfer of a tenant's object could be handed over now. */
  boolean canMoveObject(int tenant) {
    return objects != null
        && poolFree > 0
        && objects.pipeline().inFlight() < objectDepth
        && objectsOf[tenant] < tenants.shareOf(objectDepth, tenant);
  }

  /** Whether an upload of a tenant's could be handed over now: fetches have their share. */
  boolean canUpload(int tenant) {
    int uploadsMax = Math.max(1, (int) (objectDepth * UPLOADS_SHARE));
    return canMoveObject(tenant)
        && uploads + spills < uploadsMax
        && uploadsOf[tenant] < tenants.shareOf(uploadsMax, tenant);
  }

  private int tenantOf(int block) {
    return namespaces.of(directory, block).tenant();
  }

  /** Reads an object to a block's host slot; false when that can't be started now. */
  boolean fetch(int block, int priority) {
    return canMoveObject(tenantOf(block))
        && startObject(block, take(block, Transfer.Kind.LOAD, priority, PLAIN));
  }

  /** Writes a block's host copy to an object; false when that can't be started now. */
  boolean upload(int block, boolean evict) {
    if (!canUpload(tenantOf(block))) {
      return false;
    }
    Transfer transfer = take(block, Transfer.Kind.STORE, STORE_PRIORITY, evict ? EVICT : PLAIN);
    transfer.generation = ++generation;
    if (!startObject(block, transfer)) {
      return false;
    }
    uploads++;
    stores[namespaces.of(directory, block).hostClass()]++;
    uploadsOf[transfer.owner]++;
    if (evict) {
      departingOf[transfer.owner]++;
      evictions[namespaces.of(directory, block).hostClass()]++;
    }
    return true;
  }

  private boolean startObject(int block, Transfer transfer) {
    if (objects == null || !objects.pipeline().offer(transfer)) {
      return takeBack();
    }
    objectsOf[transfer.owner]++;
    return started(block);
  }

  /** Writes a block's SSD copy to an object; false when that can't be started now. */
  boolean spill(int block) {
    if (!canUpload(tenantOf(block))) {
      return false;
    }
    int slotBytes = ssdBytes(block);
    MemorySegment buffer = spillBuffers.take(slotBytes);
    if (buffer == null) {
      return false;
    }
    if (!readSsd(block, buffer, SPILL)) {
      spillBuffers.give(buffer);
      return false;
    }
    spills++;
    int tenant = tenantOf(block);
    uploadsOf[tenant]++;
    departingOf[tenant]++;
    return true;
  }

  /** Blocks of a tenant that are being written to objects so that they can leave this node. */
  int departing(int tenant) {
    return departingOf[tenant];
  }

  /**
   * A block whose object was asked for, so that it can leave this node, or no longer is.
   *
   * @param isOnHost whether its host slot will be free then
   */
  void confirming(int block, boolean isOnHost, int more) {
    departingOf[tenantOf(block)] += more;
    if (isOnHost) {
      evictions[namespaces.of(directory, block).hostClass()] += more;
    }
  }

  /** SSD copies on their way to objects. */
  int spills() {
    return spills;
  }

  /** Uploads and fetches under way. */
  int objectsInFlight() {
    return objects == null ? 0 : objects.pipeline().inFlight() + spillsToWrite.size();
  }

  private void spillRead(Transfer transfer) {
    if (transfer.status != Status.OK) {
      endSpill(transfer, false);
      return;
    }
    transfer.kind = Transfer.Kind.STORE;
    transfer.generation = ++generation;
    transfer.offeredNs = latencies.roundNs();
    spillsToWrite.add(transfer);
    writeSpills();
  }

  private void writeSpills() {
    while (objects != null
        && !spillsToWrite.isEmpty()
        && objects.pipeline().inFlight() < objectDepth
        && objects.pipeline().offer(spillsToWrite.element())) {
      objectsOf[spillsToWrite.remove().owner]++;
    }
  }

  private void endSpill(Transfer transfer, boolean isRead) {
    int block = transfer.block;
    Status status = transfer.status;
    spills--;
    uploadsOf[transfer.owner]--;
    departingOf[transfer.owner]--;
    spillBuffers.give(transfer.slab);
    giveBack(transfer);
    listener.onSpilled(block, status, isRead);
  }

  private void settleObject(Transfer transfer) {
    byte why = purpose[transfer.poolIndex];
    tell(transfer, TierId.OBJECT);
    time(transfer, Latencies.Kind.LOAD_OBJECT, Latencies.Kind.STORE_OBJECT);
    objectsOf[transfer.owner]--;
    if (why == SPILL) {
      endSpill(transfer, true);
      return;
    }
    int block = transfer.block;
    Status status = transfer.status;
    boolean isLoad = transfer.kind == Transfer.Kind.LOAD;
    if (isLoad && status == Status.OK) {
      directory.setChecksum(block, transfer.checksum);
      directory.setLineage(block, transfer.depth, transfer.parent);
      listener.onAnnotation(block, transfer.annotation, transfer.annotationBytes);
      fetchNs += 0.1 * (transfer.elapsedNs - fetchNs);
    }
    giveBack(transfer);
    if (isLoad) {
      listener.onFetched(block, status);
      return;
    }
    uploads--;
    stores[namespaces.of(directory, block).hostClass()]--;
    uploadsOf[transfer.owner]--;
    if (why == EVICT) {
      departingOf[transfer.owner]--;
      evictions[namespaces.of(directory, block).hostClass()]--;
    }
    listener.onUploaded(block, status, why == EVICT);
  }

  /** The expected time to read that many objects, ns, as measured. */
  long estimatedFetchNs(int blocks) {
    return blocks == 0 ? 0 : (long) (fetchNs * (1 + blocks / FETCHES_AT_ONCE));
  }

  // ---- stores

  /** Whether a store of a tenant's could be handed over now, on some device. */
  boolean canStore(int tenant) {
    return poolFree > 0 && lanes.canStore(tenant);
  }

  /** Writes a block from its host slot to its SSD slot; false when that can't be started now. */
  boolean store(int block, boolean evict) {
    if (poolFree == 0) {
      return false;
    }
    Transfer transfer = take(block, Transfer.Kind.STORE, STORE_PRIORITY, evict ? EVICT : PLAIN);
    transfer.generation = ++generation;
    if (!lanes.of(block).offer(transfer)) {
      return takeBack();
    }
    stores[namespaces.of(directory, block).hostClass()]++;
    if (evict) {
      evictions[namespaces.of(directory, block).hostClass()]++;
    }
    return started(block);
  }

  /**
   * A block whose store may be under way is to go: no row of it shall be written any more. One that
   * was written already is the caller's to forget, after this.
   */
  void giveUpStore(int block) {
    for (Transfer transfer : pool) {
      if (transfer.block == block && transfer.kind == Transfer.Kind.STORE) {
        transfer.givenUp = true;
      }
    }
  }

  /** No store so far had a higher count. */
  void continueAfter(long lastStore) {
    generation = lastStore;
  }

  private boolean startChecksum(int block, byte why) {
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

  private Transfer take(int block, Transfer.Kind kind, int priority, byte why) {
    Transfer transfer = pool[stack[--poolFree]];
    fill(transfer, block, kind, priority);
    purpose[transfer.poolIndex] = why;
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

  private void fill(Transfer transfer, int block, Transfer.Kind kind, int priority) {
    describe(transfer, block, kind, priority);
    SlotAllocator hostSlots = host.slots();
    int slot = host.slot(block);
    transfer.slab = slabs.apply(hostSlots.regionOf(slot));
    transfer.slabOffset = hostSlots.offsetOf(slot);
    transfer.slotBytes = hostSlots.slotBytes(hostSlots.classOf(slot));
  }

  /** Fills in everything but where the bytes are in memory. */
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
      int ssdSlot = ssd.slot(block);
      if (ssdSlot != Directory.NONE) {
        transfer.ssdRegion = lanes.regionOnDevice(block);
        transfer.ssdOffset = ssd.slots().offsetOf(ssdSlot);
      }
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

  /** Settles finished transfers. */
  int collect() {
    int count = checksums.collect(onChecksum) + lanes.collect();
    if (objects != null) {
      count += objects.pipeline().collect(onObject);
      writeSpills();
    }
    return count;
  }

  private void settleChecksum(Transfer transfer) {
    int block = transfer.block;
    int checksum = transfer.checksum;
    boolean audit = purpose[transfer.poolIndex] == AUDIT;
    tell(transfer, TierId.HOST);
    checksumsOf[transfer.owner]--;
    giveBack(transfer);
    if (audit) {
      listener.onAudit(block, checksum);
    } else {
      listener.onChecksum(block, checksum);
    }
  }

  private void settleSsd(Transfer transfer) {
    int block = transfer.block;
    Status status = transfer.status;
    boolean evict = purpose[transfer.poolIndex] == EVICT;
    boolean isLoad = transfer.kind == Transfer.Kind.LOAD;
    time(transfer, Latencies.Kind.LOAD_SSD, Latencies.Kind.STORE_SSD);
    tell(transfer, TierId.SSD);
    if (purpose[transfer.poolIndex] == SCRUB) {
      scrubs--;
      giveBack(transfer);
      listener.onScrubbed(block, status);
      return;
    }
    if (purpose[transfer.poolIndex] == SPILL) {
      spillRead(transfer);
      return;
    }
    lanes.at(transfer.device).learn(transfer);
    if (isLoad && status == Status.OK) {
      ssdReadNsPerByte += 0.1 * ((double) transfer.elapsedNs / transfer.length - ssdReadNsPerByte);
    }
    giveBack(transfer);
    if (isLoad) {
      listener.onLoaded(block, status);
      return;
    }
    stores[namespaces.of(directory, block).hostClass()]--;
    if (evict) {
      evictions[namespaces.of(directory, block).hostClass()]--;
    }
    listener.onStored(block, status, evict, transfer.writtenBytes);
  }

  private void tell(Transfer transfer, TierId tier) {
    if (requests.isInterested()) {
      // What is read for a scrub or a spill nobody waits for, nor for what is stored.
      boolean isAwaited =
          transfer.kind == Transfer.Kind.CHECKSUM
              || (transfer.kind == Transfer.Kind.LOAD && purpose[transfer.poolIndex] == PLAIN);
      requests.settled(transfer, tier, isAwaited);
    }
  }

  /** Failed transfers are not timed. */
  private void time(Transfer transfer, Latencies.Kind load, Latencies.Kind store) {
    if (transfer.status == Status.OK) {
      latencies.took(transfer.kind == Transfer.Kind.LOAD ? load : store, transfer.elapsedNs);
    }
  }

  private void giveBack(Transfer transfer) {
    stack[poolFree++] = transfer.poolIndex;
    directory.addUses(transfer.block, -1);
  }

  /** Host slots of a size class that stores under way will free. */
  int evictions(int sizeClass) {
    return evictions[sizeClass];
  }

  /** Host copies of a size class that are being stored in a lower tier, whatever for. */
  int stores(int sizeClass) {
    return stores[sizeClass];
  }

  /** The expected time to read that many bytes from SSD, ns, as measured. */
  long estimatedSsdReadNs(long bytes) {
    return (long) (bytes * ssdReadNsPerByte);
  }

  int checksumsInFlight() {
    return checksums.inFlight();
  }

  /** The devices of the SSD tier. */
  SsdLanes lanes() {
    return lanes;
  }

  /** Whether transfers wait to be settled. */
  boolean hasFinished() {
    return checksums.hasFinished()
        || lanes.hasFinished()
        || (objects != null && objects.pipeline().hasFinished());
  }

  /** Whether nothing is under way that anybody asked for. */
  boolean isIdle() {
    return !lanes.isForgetting()
        && lanes.inFlight() == scrubs
        && checksums.inFlight() == 0
        && objectsInFlight() == 0;
  }
}
