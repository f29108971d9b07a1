package io.kvtier.daemon.index;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import io.kvtier.policies.EvictionPolicy.VictimFilter;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import java.util.function.LongSupplier;

/**
 * The mechanism under the verbs: which block has a copy where, and the moves between tiers. It acts
 * as the policies decide: takes and frees slots, starts transfers, and settles them when they come
 * back. Confined to the index.
 *
 * <p>A block with a transfer under way, or waited for, is pinned; a pinned or leased block is never
 * a victim. A block that was deleted leaves the directory at once and its slots as soon as nothing
 * holds them.
 */
final class BlockStore {
  /** What the verbs hear of. */
  interface Listener {
    /** The host copy became resident, or failed to: those who wait for the block are answered. */
    void onHostSettled(int block, Status status);

    /** The SSD copy became resident, or failed to. */
    void onStoreSettled(int block, Status status);
  }

  /** The tiers' fixed parts. */
  record Parts(
      Directory directory,
      SlotAllocator host,
      SlotAllocator ssd,
      EvictionPolicy hostPolicy,
      EvictionPolicy ssdPolicy,
      IntFunction<MemorySegment> slabs,
      Pipeline copies,
      Pipeline ssdTransfers,
      Counters counters,
      LongSupplier clock) {}

  /** The limits that configuration sets. */
  record Limits(
      int copyDepth,
      int ssdDepth,
      int waitingPromotionsMax,
      int inlineChecksumBytes,
      double freeTarget) {}

  private static final int WINDOW = 64;
  private static final int SSD_ERRORS_MAX = 8;
  private static final long SSD_FENCE_NS = 5_000_000_000L;
  private static final int EVICTIONS_PER_ROUND = 64;
  private static final int SLOT_HEADER_BYTES = 4096;

  private final Directory directory;
  private final SlotAllocator host;
  private final SlotAllocator ssd;
  private final EvictionPolicy hostPolicy;
  private final EvictionPolicy ssdPolicy;
  private final IntFunction<MemorySegment> slabs;
  private final Pipeline copies;
  private final Pipeline ssdTransfers;
  private final Counters counters;
  private final LongSupplier clock;
  private final Namespaces namespaces;
  private final Listener listener;
  private final Limits limits;

  private final Transfer[] pool;
  private final boolean[] evictAfter;
  private int poolFree;
  private final int[] poolStack;
  private final LongQueue checksumBacklog;
  private final LongQueue wantedPromotions;
  private final int[] demotionsInFlight = new int[64];
  private final int[] waitingForSlot = new int[64];
  private int demotionsTotal;
  private int ssdErrors;
  private long ssdFencedUntilNs;
  private boolean ssdFenced;
  private double ssdReadNsPerByte = 1.0 / 2.0;

  private final Consumer<Transfer> onCopied = this::settleChecksum;
  private final Consumer<Transfer> onSsd = this::settleSsd;
  private int filterClass;
  private long filterSession;
  private final VictimFilter hostVictims = this::isHostVictim;
  private final VictimFilter hostVictimsNear = b -> isHostVictim(b) && suitsSession(b);
  private final VictimFilter hostVictimsAnyClass = this::isEvictableFromHost;
  private final VictimFilter ssdVictims;
  private final VictimFilter ssdVictimsAnyClass = this::isEvictableFromSsd;
  private final VictimFilter ssdOnlyVictims;

  BlockStore(Parts parts, Limits limits, Namespaces namespaces, Listener listener) {
    this.directory = parts.directory;
    this.host = parts.host;
    this.ssd = parts.ssd;
    this.hostPolicy = parts.hostPolicy;
    this.ssdPolicy = parts.ssdPolicy;
    this.slabs = parts.slabs;
    this.copies = parts.copies;
    this.ssdTransfers = parts.ssdTransfers;
    this.counters = parts.counters;
    this.clock = parts.clock;
    this.limits = limits;
    this.namespaces = namespaces;
    this.listener = listener;
    int transfers = limits.copyDepth + limits.ssdDepth;
    pool = new Transfer[transfers];
    evictAfter = new boolean[transfers];
    poolStack = new int[transfers];
    for (int i = 0; i < transfers; i++) {
      pool[i] = new Transfer(i);
      poolStack[poolFree++] = i;
    }
    checksumBacklog = new LongQueue(1 << 16);
    wantedPromotions = new LongQueue(limits.waitingPromotionsMax);
    ssdVictims = b -> isEvictableFromSsd(b) && ssd.classOf(directory.ssdSlot(b)) == filterClass;
    ssdOnlyVictims = b -> isEvictableFromSsd(b) && directory.hostState(b) == CopyState.NONE;
  }

  // ---- what is there
  // -------------------------------------------------------------------------------------------

  boolean isVisible(int block) {
    return directory.hostState(block) == CopyState.RESIDENT
        || directory.ssdState(block) == CopyState.RESIDENT;
  }

  /** The expected time to read that many bytes from SSD, ns, as measured. */
  long estimatedSsdReadNs(long bytes) {
    return (long) (bytes * ssdReadNsPerByte);
  }

  /**
   * The SSD size class of blocks of that many bytes; {@link SlotAllocator#NONE} when they can't go
   * there.
   */
  int ssdClassFor(long blockBytes) {
    return ssd.regions() == 0 ? SlotAllocator.NONE : ssd.sizeClass(ssdBytes(blockBytes));
  }

  /** Whether the block could be written to SSD at all. */
  boolean canStore(int block) {
    return hasSsd() && ssdClass(block) != SlotAllocator.NONE;
  }

  private boolean hasSsd() {
    return ssd.regions() > 0 && !ssdFenced;
  }

  // ---- puts
  // ----------------------------------------------------------------------------------------------------

  /**
   * Gives a fresh block a host slot for a session to write.
   *
   * @return false while there is none: something may have been started that frees one
   */
  boolean reserve(int block, int sizeClass, long session) {
    int slot = host.allocate(sizeClass, session, false, block);
    if (slot == SlotAllocator.NONE) {
      makeRoom(sizeClass, session);
      slot = host.allocate(sizeClass, session, true, block);
    }
    if (slot == SlotAllocator.NONE) {
      return false;
    }
    directory.setHostSlot(block, slot);
    directory.setHostState(block, CopyState.RESERVED);
    return true;
  }

  /** A client gave a reservation back, or died with it. */
  void abandon(int block) {
    freeHostSlot(block);
    settle(block);
  }

  /** The client has written: make the checksum, then show the block. */
  void commit(int block) {
    directory.setHostState(block, CopyState.STAGING);
    directory.addPins(block, 1);
    int length = blockBytes(block);
    // A commit gives its hold back: only the slots bound how many blocks wait for their checksum.
    // Those for which there is no place to wait are checked at once; clients wait meanwhile.
    if (length <= limits.inlineChecksumBytes
        || (!startChecksum(block) && !checksumBacklog.offer(block))) {
      int slot = directory.hostSlot(block);
      int checksum =
          Checksums.of(slabs.apply(host.regionOf(slot)).asSlice(host.offsetOf(slot), length));
      checksummed(block, checksum);
    }
  }

  /**
   * The client has written and made the checksum while it did: whoever reads or moves the block
   * will hold it to that.
   */
  void commitChecksummed(int block, int checksum) {
    directory.setHostState(block, CopyState.STAGING);
    directory.addPins(block, 1);
    checksummed(block, checksum);
  }

  private boolean startChecksum(int block) {
    if (copies.inFlight() >= limits.copyDepth) {
      return false;
    }
    Transfer transfer = take(block, Transfer.Kind.CHECKSUM, 1);
    if (!copies.offer(transfer)) {
      give(transfer);
      return false;
    }
    return true;
  }

  private void settleChecksum(Transfer transfer) {
    int block = transfer.block;
    int checksum = transfer.checksum;
    give(transfer);
    checksummed(block, checksum);
  }

  private void checksummed(int block, int checksum) {
    directory.addPins(block, -1);
    if (directory.hostState(block) == CopyState.LEAVING) {
      settle(block);
      return;
    }
    directory.setChecksum(block, checksum);
    counters.add(Counter.PUT_BLOCKS, 1);
    becomeResident(block);
  }

  private void becomeResident(int block) {
    directory.setHostState(block, CopyState.RESIDENT);
    hostPolicy.onInsert(
        block, blockBytes(block), directory.fingerprint(block), 0, EvictionPolicy.NO_PARENT);
    counters.add(Counter.HOST_WRITTEN_BYTES, blockBytes(block));
    listener.onHostSettled(block, Status.OK);
  }

  // ---- gets
  // ----------------------------------------------------------------------------------------------------

  void lease(int block) {
    directory.addLeases(block, 1);
    hostPolicy.onHit(block);
  }

  void release(int block) {
    directory.addLeases(block, -1);
    settle(block);
  }

  void pin(int block) {
    directory.addPins(block, 1);
  }

  void unpin(int block) {
    directory.addPins(block, -1);
    settle(block);
  }

  /**
   * Brings a block that is only on SSD to the host tier, now or as soon as there is room.
   *
   * @return false when too many wait already
   */
  boolean promote(int block, int priority) {
    if (wantedPromotions.isFull()) {
      return false;
    }
    directory.addPins(block, 1);
    directory.setHostState(block, CopyState.STAGING);
    ssdPolicy.onHit(block);
    if (wantedPromotions.size() > 0 || !startLoad(block, priority)) {
      waitingForSlot[sizeClass(block)]++;
      if (!wantedPromotions.offer((long) priority << 32 | block)) {
        throw new IllegalStateException("the queue of promotions was not full");
      }
    }
    return true;
  }

  private boolean startLoad(int block, int priority) {
    if (ssdTransfers.inFlight() >= limits.ssdDepth) {
      return false;
    }
    int sizeClass = sizeClass(block);
    int slot = host.allocate(sizeClass, SlotAllocator.DAEMON, true, block);
    if (slot == SlotAllocator.NONE) {
      makeRoom(sizeClass, SlotAllocator.DAEMON);
      slot = host.allocate(sizeClass, SlotAllocator.DAEMON, true, block);
      if (slot == SlotAllocator.NONE) {
        return false;
      }
    }
    // Making room may have filled the queue with stores.
    directory.setHostSlot(block, slot);
    Transfer transfer = poolFree == 0 ? null : take(block, Transfer.Kind.LOAD, priority);
    if (transfer == null || !ssdTransfers.offer(transfer)) {
      if (transfer != null) {
        give(transfer);
      }
      host.free(slot);
      directory.setHostSlot(block, Directory.NONE);
      return false;
    }
    return true;
  }

  private void settleLoad(Transfer transfer) {
    int block = transfer.block;
    Status status = transfer.status;
    directory.addPins(block, -1);
    if (status == Status.OK) {
      counters.add(Counter.PROMOTIONS, 1);
      counters.add(Counter.SSD_READ_BYTES, transfer.length);
      ssdReadNsPerByte += 0.1 * ((double) transfer.elapsedNs / transfer.length - ssdReadNsPerByte);
      give(transfer);
      if (directory.hostState(block) == CopyState.LEAVING) {
        settle(block);
      } else {
        becomeResident(block);
      }
      return;
    }
    give(transfer);
    counters.add(status == Status.CORRUPT ? Counter.CORRUPT : Counter.IO_ERRORS, 1);
    boolean leaving = directory.hostState(block) == CopyState.LEAVING;
    freeHostSlot(block);
    if (!leaving) {
      // What can't be read is not there. The block is taken out of sight before those who wait are
      // told.
      listener.onHostSettled(block, Status.MISS);
      forgetSsdCopy(block);
    }
    settle(block);
  }

  private void forgetSsdCopy(int block) {
    if (directory.ssdState(block) == CopyState.RESIDENT) {
      ssdPolicy.onRemove(block, Removal.DELETED);
      directory.setSsdState(block, CopyState.LEAVING);
    }
    if (directory.isLinked(block) && directory.hostState(block) == CopyState.NONE) {
      directory.unlink(block);
      counters.add(Counter.DROPPED, 1);
    }
  }

  // ---- deletion
  // ------------------------------------------------------------------------------------------------

  /** Takes a visible or staging block out of sight; its slots follow when nothing holds them. */
  void delete(int block) {
    directory.unlink(block);
    switch (directory.hostState(block)) {
      case RESIDENT -> {
        hostPolicy.onRemove(block, Removal.DELETED);
        directory.setHostState(block, CopyState.LEAVING);
      }
      case STAGING -> directory.setHostState(block, CopyState.LEAVING);
      case NONE, RESERVED, LEAVING -> {}
    }
    switch (directory.ssdState(block)) {
      case RESIDENT -> {
        ssdPolicy.onRemove(block, Removal.DELETED);
        directory.setSsdState(block, CopyState.LEAVING);
      }
      case STAGING -> directory.setSsdState(block, CopyState.LEAVING);
      case NONE, RESERVED, LEAVING -> {}
    }
    counters.add(Counter.DELETED, 1);
    listener.onHostSettled(block, Status.MISS);
    settle(block);
  }

  /** Frees what a block no longer needs, once nothing holds it. */
  private void settle(int block) {
    if (directory.pins(block) > 0 || directory.leases(block) > 0) {
      return;
    }
    if (directory.hostState(block) == CopyState.LEAVING) {
      freeHostSlot(block);
    }
    if (directory.ssdState(block) == CopyState.LEAVING) {
      freeSsdSlot(block);
    }
    if (directory.hostState(block) == CopyState.NONE
        && directory.ssdState(block) == CopyState.NONE) {
      if (directory.isLinked(block)) {
        directory.unlink(block);
      }
      directory.free(block);
    }
  }

  private void freeHostSlot(int block) {
    int slot = directory.hostSlot(block);
    if (slot != Directory.NONE) {
      host.free(slot);
      directory.setHostSlot(block, Directory.NONE);
    }
    directory.setHostState(block, CopyState.NONE);
  }

  private void freeSsdSlot(int block) {
    ssd.free(directory.ssdSlot(block));
    directory.setSsdSlot(block, Directory.NONE);
    directory.setSsdState(block, CopyState.NONE);
  }

  // ---- eviction
  // ------------------------------------------------------------------------------------------------

  private boolean isEvictableFromHost(int block) {
    return directory.hostState(block) == CopyState.RESIDENT
        && directory.pins(block) == 0
        && directory.leases(block) == 0;
  }

  private boolean isHostVictim(int block) {
    return isEvictableFromHost(block) && host.classOf(directory.hostSlot(block)) == filterClass;
  }

  private boolean suitsSession(int block) {
    long granted = host.grantedTo(host.regionOf(directory.hostSlot(block)));
    return filterSession == SlotAllocator.DAEMON
        || granted == filterSession
        || granted == SlotAllocator.DAEMON;
  }

  private boolean isEvictableFromSsd(int block) {
    return directory.ssdState(block) == CopyState.RESIDENT && directory.pins(block) == 0;
  }

  /**
   * Evicts one block of a size class, or starts to.
   *
   * @return true when a slot was freed at once
   */
  private boolean makeRoom(int sizeClass, long session) {
    if (host.regionsOfClass(sizeClass) == 0) {
      drainSomeRegion();
      return false;
    }
    filterClass = sizeClass;
    filterSession = session;
    int looks = WINDOW + demotionsTotal;
    int victim = hostPolicy.victim(hostVictimsNear, looks);
    if (victim == EvictionPolicy.NONE) {
      victim = hostPolicy.victim(hostVictims, looks);
    }
    if (victim == EvictionPolicy.NONE) {
      // Every block that is about to go is of another size: the memory belongs to this one now.
      drainSomeRegion();
      victim = hostPolicy.victim(hostVictims, Integer.MAX_VALUE);
    }
    return victim != EvictionPolicy.NONE && evictFromHost(victim);
  }

  private boolean evictFromHost(int block) {
    if (directory.ssdState(block) == CopyState.RESIDENT
        || !hasSsd()
        || ssdClass(block) == SlotAllocator.NONE) {
      dropHostCopy(block);
      return true;
    }
    if (directory.ssdState(block) == CopyState.NONE
        && !startStore(block, true)
        && ssdTransfers.inFlight() == 0) {
      // No slot on SSD, and nothing under way that would free one: the lower tier has no room.
      dropHostCopy(block);
      return true;
    }
    return false;
  }

  private void dropHostCopy(int block) {
    hostPolicy.onRemove(block, Removal.EVICTED);
    freeHostSlot(block);
    counters.add(Counter.EVICTIONS, 1);
    if (directory.ssdState(block) == CopyState.NONE) {
      counters.add(Counter.DROPPED, 1);
    }
    settle(block);
  }

  /** Writes a resident block to SSD; false when that can't be started now. */
  boolean startStore(int block, boolean evict) {
    if (ssdTransfers.inFlight() >= limits.ssdDepth || poolFree == 0) {
      return false;
    }
    int slot = allocateSsd(ssdClass(block), block);
    if (slot == SlotAllocator.NONE) {
      return false;
    }
    directory.setSsdSlot(block, slot);
    directory.setSsdState(block, CopyState.STAGING);
    directory.addPins(block, 1);
    Transfer transfer = take(block, Transfer.Kind.STORE, 2);
    evictAfter[transfer.poolIndex] = evict;
    if (!ssdTransfers.offer(transfer)) {
      give(transfer);
      directory.addPins(block, -1);
      freeSsdSlot(block);
      return false;
    }
    if (evict) {
      demotionsInFlight[sizeClass(block)]++;
      demotionsTotal++;
    }
    return true;
  }

  private void settleStore(Transfer transfer) {
    int block = transfer.block;
    boolean evict = evictAfter[transfer.poolIndex];
    Status status = transfer.status;
    int length = transfer.length;
    give(transfer);
    if (evict) {
      demotionsInFlight[sizeClass(block)]--;
      demotionsTotal--;
    }
    directory.addPins(block, -1);
    if (directory.ssdState(block) == CopyState.LEAVING) {
      listener.onStoreSettled(block, Status.MISS);
      settle(block);
      return;
    }
    if (status == Status.OK) {
      ssdErrors = 0;
      directory.setSsdState(block, CopyState.RESIDENT);
      ssdPolicy.onInsert(block, length, directory.fingerprint(block), 0, EvictionPolicy.NO_PARENT);
      counters.add(Counter.SSD_WRITTEN_BYTES, length);
      counters.add(Counter.DEMOTIONS, 1);
      listener.onStoreSettled(block, Status.OK);
      if (evict && isEvictableFromHost(block)) {
        dropHostCopy(block);
      }
      return;
    }
    freeSsdSlot(block);
    listener.onStoreSettled(block, status);
    if (status == Status.CORRUPT) {
      // The bytes in the slab are no longer those that were accepted: nobody shall read them again.
      counters.add(Counter.CORRUPT, 1);
      delete(block);
    } else {
      counters.add(Counter.IO_ERRORS, 1);
      if (++ssdErrors >= SSD_ERRORS_MAX) {
        ssdFenced = true;
        ssdFencedUntilNs = clock.getAsLong() + SSD_FENCE_NS;
      }
    }
  }

  private void settleSsd(Transfer transfer) {
    if (transfer.kind == Transfer.Kind.LOAD) {
      settleLoad(transfer);
    } else {
      settleStore(transfer);
    }
  }

  private int allocateSsd(int ssdClass, int block) {
    int slot = ssd.allocate(ssdClass, SlotAllocator.DAEMON, true, block);
    if (slot != SlotAllocator.NONE) {
      return slot;
    }
    filterClass = ssdClass;
    int looks = WINDOW + ssdTransfers.inFlight();
    int victim = ssdPolicy.victim(ssdVictims, looks);
    if (victim == EvictionPolicy.NONE) {
      drainSomeFile(looks);
      slot = ssd.allocate(ssdClass, SlotAllocator.DAEMON, true, block);
      if (slot != SlotAllocator.NONE) {
        return slot;
      }
      victim = ssdPolicy.victim(ssdVictims, Integer.MAX_VALUE);
    }
    if (victim != EvictionPolicy.NONE) {
      dropSsdCopy(victim);
    }
    return ssd.allocate(ssdClass, SlotAllocator.DAEMON, true, block);
  }

  private void dropSsdCopy(int block) {
    ssdPolicy.onRemove(block, Removal.EVICTED);
    freeSsdSlot(block);
    if (directory.hostState(block) == CopyState.NONE) {
      counters.add(Counter.DROPPED, 1);
    }
    settle(block);
  }

  /** A size class whose own blocks are all newer than the next to go takes over a file. */
  private void drainSomeFile(int looks) {
    int oldest = ssdPolicy.victim(ssdVictimsAnyClass, looks);
    if (oldest != EvictionPolicy.NONE && ssd.draining() == SlotAllocator.NONE) {
      ssd.drain(ssd.regionOf(directory.ssdSlot(oldest)));
    }
    drainSsd();
  }

  private void drainSsd() {
    int region = ssd.draining();
    if (region == SlotAllocator.NONE) {
      return;
    }
    int slots = ssd.slotsOf(region);
    for (int i = 0; i < slots && ssd.draining() == region; i++) {
      int block = ssd.blockAt(region, i);
      if (block != SlotAllocator.NONE && isEvictableFromSsd(block)) {
        dropSsdCopy(block);
      }
    }
  }

  /**
   * A size class without a region needs one: the region of the block that would go next is emptied.
   */
  private void drainSomeRegion() {
    if (host.draining() != SlotAllocator.NONE) {
      return;
    }
    int oldest = hostPolicy.victim(hostVictimsAnyClass, Integer.MAX_VALUE);
    if (oldest != EvictionPolicy.NONE) {
      host.drain(host.regionOf(directory.hostSlot(oldest)));
      drainHost();
    }
  }

  private void drainHost() {
    int region = host.draining();
    if (region == SlotAllocator.NONE) {
      return;
    }
    int slots = host.slotsOf(region);
    for (int i = 0; i < slots && host.draining() == region; i++) {
      int block = host.blockAt(region, i);
      if (block != SlotAllocator.NONE && isEvictableFromHost(block)) {
        evictFromHost(block);
      }
    }
  }

  /**
   * Makes room in the directory by forgetting the block that would leave the lowest tier next.
   *
   * @return false when nothing can go
   */
  boolean forgetOne() {
    int victim = ssdPolicy.victim(ssdOnlyVictims, WINDOW);
    if (victim != EvictionPolicy.NONE) {
      dropSsdCopy(victim);
      return true;
    }
    victim = hostPolicy.victim(hostVictimsAnyClass, WINDOW);
    if (victim != EvictionPolicy.NONE && ssd.regions() == 0) {
      dropHostCopy(victim);
      return true;
    }
    return false;
  }

  // ---- writers
  // -------------------------------------------------------------------------------------------------

  /**
   * A reader must verify: another session could have written to the block's slot since its checksum
   * was made.
   */
  boolean mustVerify(int block, long reader) {
    return host.isWritableByOthers(host.regionOf(directory.hostSlot(block)), reader);
  }

  // ---- each round
  // ----------------------------------------------------------------------------------------------

  /** Settles finished transfers. */
  int collect() {
    int work = copies.collect(onCopied);
    work += ssdTransfers.collect(onSsd);
    return work;
  }

  /** Starts what waited for room: checksums, promotions, and evictions ahead of need. */
  void maintain(long nowNs) {
    if (ssdFenced && nowNs >= ssdFencedUntilNs) {
      ssdFenced = false;
      ssdErrors = 0;
    }
    while (checksumBacklog.size() > 0 && copies.inFlight() < limits.copyDepth && poolFree > 0) {
      int block = (int) checksumBacklog.poll();
      if (directory.hostState(block) == CopyState.LEAVING) {
        directory.addPins(block, -1);
        settle(block);
      } else if (!startChecksum(block)) {
        checksumBacklog.offer(block);
        break;
      }
    }
    long classesWithoutRoom = 0; // where one found no slot, the others would only look in vain
    for (int waiting = wantedPromotions.size(); waiting > 0; waiting--) {
      long wanted = wantedPromotions.poll();
      int block = (int) wanted;
      int sizeClass = sizeClass(block);
      if (directory.hostState(block) == CopyState.LEAVING) {
        waitingForSlot[sizeClass]--;
        directory.addPins(block, -1);
        settle(block);
      } else if ((classesWithoutRoom & 1L << sizeClass) == 0
          && startLoad(block, (int) (wanted >>> 32))) {
        waitingForSlot[sizeClass]--;
      } else {
        classesWithoutRoom |= 1L << sizeClass;
        wantedPromotions.offer(wanted);
        if (ssdTransfers.inFlight() >= limits.ssdDepth) {
          break;
        }
      }
    }
    drainHost();
    drainSsd();
    if (hasSsd() && host.unassignedRegions() == 0) {
      for (int sizeClass = 0; sizeClass < host.classes(); sizeClass++) {
        evictAhead(sizeClass);
      }
    }
  }

  private void evictAhead(int sizeClass) {
    int regions = host.regionsOfClass(sizeClass);
    if (regions == 0) {
      return;
    }
    long slots = (long) regions * host.slotsPerRegion(sizeClass);
    int target =
        (int) Math.min(slots / 4, Math.max(1, (long) (slots * limits.freeTarget)))
            + waitingForSlot[sizeClass];
    for (int i = 0; i < EVICTIONS_PER_ROUND; i++) {
      if (host.freeOfClass(sizeClass) + demotionsInFlight[sizeClass] >= target
          || ssdTransfers.inFlight() >= limits.ssdDepth) {
        return;
      }
      int before = demotionsInFlight[sizeClass];
      if (!makeRoom(sizeClass, SlotAllocator.DAEMON) && demotionsInFlight[sizeClass] == before) {
        return;
      }
    }
  }

  /**
   * Whether a slot of a size class may come free without anybody's doing: something can be evicted,
   * or is on its way out or in.
   */
  boolean isRoomComing(int sizeClass) {
    filterClass = sizeClass;
    return !isIdle()
        || host.draining() != SlotAllocator.NONE
        || hostPolicy.victim(hostVictims, Integer.MAX_VALUE) != EvictionPolicy.NONE;
  }

  /**
   * Somebody waits for a slot of a size class, or no longer does: counts toward what is evicted
   * ahead.
   */
  void addWaiting(int sizeClass, int delta) {
    waitingForSlot[sizeClass] += delta;
  }

  /** Whether transfers wait to be settled. */
  boolean hasFinished() {
    return copies.hasFinished() || ssdTransfers.hasFinished();
  }

  boolean isIdle() {
    return copies.inFlight() == 0
        && ssdTransfers.inFlight() == 0
        && checksumBacklog.size() == 0
        && wantedPromotions.size() == 0;
  }

  // ---- transfers
  // -----------------------------------------------------------------------------------------------

  private Transfer take(int block, Transfer.Kind kind, int priority) {
    Transfer transfer = pool[poolStack[--poolFree]];
    transfer.kind = kind;
    transfer.block = block;
    transfer.priority = priority;
    transfer.namespaceId = directory.namespaceId(block);
    transfer.group = directory.group(block);
    transfer.keyBytes = directory.keyBytes(block);
    directory.copyKey(block, transfer.key);
    int hostSlot = directory.hostSlot(block);
    transfer.slab = slabs.apply(host.regionOf(hostSlot));
    transfer.slabOffset = host.offsetOf(hostSlot);
    transfer.slotBytes = host.slotBytes(host.classOf(hostSlot));
    transfer.length = blockBytes(block);
    transfer.checksum = directory.checksum(block);
    transfer.status = Status.OK;
    int ssdSlot = directory.ssdSlot(block);
    if (ssdSlot != Directory.NONE) {
      transfer.ssdRegion = ssd.regionOf(ssdSlot);
      transfer.ssdOffset = ssd.offsetOf(ssdSlot);
    }
    return transfer;
  }

  private void give(Transfer transfer) {
    poolStack[poolFree++] = transfer.poolIndex;
  }

  private int sizeClass(int block) {
    return namespaceOf(block).hostClass();
  }

  private int ssdClass(int block) {
    return namespaceOf(block).ssdClass();
  }

  private int blockBytes(int block) {
    return (int) namespaceOf(block).blockBytes();
  }

  private Namespaces.Namespace namespaceOf(int block) {
    Namespaces.Namespace namespace = namespaces.byId(directory.namespaceId(block));
    if (namespace == null) {
      throw new IllegalStateException("block " + block + " is of no namespace");
    }
    return namespace;
  }

  /** The bytes that a block takes on SSD: its own, and the page that names it. */
  static long ssdBytes(long blockBytes) {
    return SLOT_HEADER_BYTES + blockBytes;
  }

  // ---- checks
  // --------------------------------------------------------------------------------------------------

  /** Gauges of slots and bytes. */
  void publishGauges() {
    counters.set(Counter.GAUGE_BLOCKS, directory.size());
    counters.set(Counter.GAUGE_HOST_SLOTS_TOTAL, host.slotsTotal());
    counters.set(Counter.GAUGE_HOST_SLOTS_FREE, host.slotsFree());
    counters.set(Counter.GAUGE_HOST_SLOTS_RESIDENT, hostPolicy.size());
    counters.set(Counter.GAUGE_HOST_SLOTS_IN_FLIGHT, inFlight(host, hostPolicy));
    counters.set(Counter.GAUGE_SSD_SLOTS_TOTAL, ssd.slotsTotal());
    counters.set(Counter.GAUGE_SSD_SLOTS_FREE, ssd.slotsFree());
    counters.set(Counter.GAUGE_SSD_SLOTS_RESIDENT, ssdPolicy.size());
    counters.set(Counter.GAUGE_SSD_SLOTS_IN_FLIGHT, inFlight(ssd, ssdPolicy));
    counters.set(Counter.GAUGE_HOST_BYTES_USED, host.bytesUsed());
    counters.set(Counter.GAUGE_SSD_BYTES_USED, ssd.bytesUsed());
  }

  /** Slots that are neither free nor hold a resident block. */
  static int inFlight(SlotAllocator tier, EvictionPolicy policy) {
    return tier.slotsTotal() - tier.slotsFree() - policy.size();
  }

  /** Checks that directory, slots and policies agree; for tests. */
  void checkInvariants() {
    directory.checkInvariants();
    host.checkInvariants();
    ssd.checkInvariants();
    hostPolicy.checkInvariants();
    ssdPolicy.checkInvariants();
    int hostResident = 0;
    int hostSlots = 0;
    int ssdResident = 0;
    int ssdSlots = 0;
    for (int block = 0; block < directory.highWater(); block++) {
      if (!directory.isUsed(block)) {
        continue;
      }
      hostResident += directory.hostState(block) == CopyState.RESIDENT ? 1 : 0;
      ssdResident += directory.ssdState(block) == CopyState.RESIDENT ? 1 : 0;
      hostSlots += directory.hostSlot(block) != Directory.NONE ? 1 : 0;
      ssdSlots += directory.ssdSlot(block) != Directory.NONE ? 1 : 0;
      int slot = directory.hostSlot(block);
      if (slot != Directory.NONE && host.blockInSlot(slot) != block) {
        throw new IllegalStateException("host slot of block " + block + " is not its own");
      }
      slot = directory.ssdSlot(block);
      if (slot != Directory.NONE && ssd.blockInSlot(slot) != block) {
        throw new IllegalStateException("SSD slot of block " + block + " is not its own");
      }
    }
    if (hostResident != hostPolicy.size() || ssdResident != ssdPolicy.size()) {
      throw new IllegalStateException(
          "policies track "
              + hostPolicy.size()
              + " and "
              + ssdPolicy.size()
              + " blocks, resident are "
              + hostResident
              + " and "
              + ssdResident);
    }
    if (hostSlots != host.slotsTotal() - host.slotsFree()
        || ssdSlots != ssd.slotsTotal() - ssd.slotsFree()) {
      throw new IllegalStateException("slots in use are not those of the blocks");
    }
  }

  /** The state in words, for whoever looks for a defect. */
  @Override
  public String toString() {
    StringBuilder out = new StringBuilder(256);
    out.append("copies ")
        .append(copies.inFlight())
        .append(", ssd ")
        .append(ssdTransfers.inFlight());
    out.append(", backlog ")
        .append(checksumBacklog.size())
        .append(", wanted ")
        .append(wantedPromotions.size());
    for (int i = 0; i < host.classes(); i++) {
      out.append("; host class ").append(i).append(": regions ").append(host.regionsOfClass(i));
      out.append(", free ")
          .append(host.freeOfClass(i))
          .append(", leaving ")
          .append(demotionsInFlight[i]);
      out.append(", waiting ").append(waitingForSlot[i]);
    }
    for (int i = 0; i < ssd.classes(); i++) {
      out.append("; SSD class ").append(i).append(": regions ").append(ssd.regionsOfClass(i));
      out.append(", free ").append(ssd.freeOfClass(i));
    }
    out.append("; draining ").append(host.draining()).append(" and ").append(ssd.draining());
    for (int block = 0; block < directory.highWater(); block++) {
      if (directory.isUsed(block) && (directory.pins(block) > 0 || directory.leases(block) > 0)) {
        out.append("; block ").append(block).append(" is ").append(directory.hostState(block));
        out.append('/')
            .append(directory.ssdState(block))
            .append(", pins ")
            .append(directory.pins(block));
        out.append(", leases ")
            .append(directory.leases(block))
            .append(", class ")
            .append(sizeClass(block));
      }
    }
    return out.toString();
  }
}
