package io.kvtier.daemon.index.transfer;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.layout.encoding.EncodingErrors;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * The transfers of an index, in a fixed number. Fills a transfer from the record of a block, and
 * knows its purpose. A block with a transfer under way is in use. Confined to the index.
 */
final class TransferPool {
  /**
   * Stands for the object tier where a tier is written. Where a tier is read, it stands for the
   * first source, and the numbers below it for further sources.
   */
  static final int OUTSIDE = -1;

  /** The priority of stores, and of reads that nobody waits for. */
  static final int STORE_PRIORITY = 2;

  /** The purpose of a transfer. */
  enum Purpose {
    PLAIN,
    EVICT,
    AUDIT,
    SCRUB,
    RELAY
  }

  private final Directory directory;
  private final Namespaces namespaces;
  private final Latencies latencies;
  private final ResidentTier first;
  private final IntFunction<MemorySegment> slabs;
  private final Transfer[] pool;
  private final Purpose[] purpose;
  private final int[] from;
  private final int[] to;
  private final int[] spare;
  private int free;
  private long generation;

  /**
   * All transfers are free.
   *
   * @param slabs the memory of the first tier's regions
   */
  TransferPool(
      int transfers, IndexCore core, ResidentTier first, IntFunction<MemorySegment> slabs) {
    directory = core.directory();
    namespaces = core.namespaces();
    latencies = core.latencies();
    this.first = first;
    this.slabs = slabs;
    pool = new Transfer[transfers];
    purpose = new Purpose[transfers];
    from = new int[transfers];
    to = new int[transfers];
    spare = new int[transfers];
    for (int i = 0; i < transfers; i++) {
      pool[i] = new Transfer(i);
      purpose[i] = Purpose.PLAIN;
      spare[free++] = i;
    }
  }

  /** Whether all transfers are under way. */
  boolean isEmpty() {
    return free == 0;
  }

  /** The tenant of a block. */
  int tenantOf(int block) {
    return namespaces.of(directory, block).tenant();
  }

  /** Takes a transfer for the bytes of a block's first slot; there must be one. */
  Transfer takeFirst(int block, Transfer.Kind kind, int priority, Purpose why) {
    SlotAllocator slots = first.slots();
    int slot = first.slot(block);
    int region = slots.regionOf(slot);
    Transfer transfer =
        take(
            block,
            kind,
            priority,
            why,
            slabs.apply(region),
            slots.offsetOf(slot),
            slots.slotBytes(slots.classOf(slot)));
    transfer.lane = slots.laneOf(region);
    return transfer;
  }

  /**
   * Takes a transfer that stores the bytes of a block's first slot.
   *
   * @param target the number of a tier, or {@link #OUTSIDE}
   */
  Transfer takeStore(int block, boolean evict, int target) {
    Purpose why = evict ? Purpose.EVICT : Purpose.PLAIN;
    Transfer transfer = takeFirst(block, Transfer.Kind.STORE, STORE_PRIORITY, why);
    count(transfer);
    setFrom(transfer, 0);
    setTo(transfer, target);
    return transfer;
  }

  /** Takes a transfer to read a block from a tier or a source into some memory. */
  Transfer takeRead(int block, int priority, Purpose why, MemorySegment memory, int bytes) {
    return take(block, Transfer.Kind.LOAD, priority, why, memory, 0, bytes);
  }

  private Transfer take(
      int block,
      Transfer.Kind kind,
      int priority,
      Purpose why,
      MemorySegment memory,
      long offset,
      int bytes) {
    Transfer transfer = pool[spare[--free]];
    purpose[transfer.poolIndex] = why;
    describe(transfer, block, kind, priority);
    transfer.slab = memory;
    transfer.slabOffset = offset;
    transfer.slotBytes = bytes;
    transfer.encoding =
        why == Purpose.AUDIT || kind == Transfer.Kind.LOAD
            ? namespaces.of(directory, block).encoding()
            : null;
    transfer.errors = kind == Transfer.Kind.LOAD ? null : errorsToMeasure(block);
    return transfer;
  }

  /** Where the errors of a block are measured; null: they are not, or there are none. */
  private @Nullable EncodingErrors errorsToMeasure(int block) {
    EncodingErrors errors = namespaces.of(directory, block).errors();
    boolean isMeasured =
        errors != null && directory.has(Directory.FLAG_ENCODED, block) && errors.isNextMeasured();
    return isMeasured ? errors : null;
  }

  /** Fills in everything except the places of the bytes, in memory and on a device. */
  private void describe(Transfer transfer, int block, Transfer.Kind kind, int priority) {
    Namespaces.Namespace namespace = namespaces.of(directory, block);
    transfer.kind = kind;
    transfer.block = block;
    transfer.owner = namespace.tenant();
    transfer.priority = priority;
    transfer.length = namespaces.storedBytes(directory, block);
    transfer.checksum = directory.checksum(block);
    transfer.status = Status.OK;
    transfer.cause = "";
    transfer.givenUp = false;
    transfer.offeredNs = latencies.roundNs();
    if (kind != Transfer.Kind.CHECKSUM) {
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

  /** Turns a finished read into a store. */
  void becomeStore(Transfer transfer) {
    transfer.kind = Transfer.Kind.STORE;
    transfer.offeredNs = latencies.roundNs();
    count(transfer);
  }

  /** Gives a store a higher count than all before it. */
  private void count(Transfer store) {
    store.generation = ++generation;
  }

  /** Sets the highest count of a store so far. */
  void continueAfter(long lastStore) {
    generation = lastStore;
  }

  /** A pipeline has taken the transfer: its block is in use. Returns true. */
  boolean started(Transfer transfer) {
    directory.addUses(transfer.block, 1);
    return true;
  }

  /** No pipeline has taken the transfer that was taken last: it is free again. Returns false. */
  boolean takeBack() {
    free++;
    return false;
  }

  /** A transfer is over: it is free again, and its block is no longer in use on its account. */
  void giveBack(Transfer transfer) {
    transfer.rest = null;
    spare[free++] = transfer.poolIndex;
    directory.addUses(transfer.block, -1);
  }

  /**
   * A copy leaves a tier while its store may be under way: no ledger row of the copy may be written
   * any more.
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

  // ---- what a transfer is for

  Purpose purpose(Transfer transfer) {
    return purpose[transfer.poolIndex];
  }

  /** The number of the tier that is read; {@link #OUTSIDE} and below stand for sources. */
  int from(Transfer transfer) {
    return from[transfer.poolIndex];
  }

  void setFrom(Transfer transfer, int tier) {
    from[transfer.poolIndex] = tier;
  }

  /** The number of the tier that is written; {@link #OUTSIDE} stands for the object tier. */
  int to(Transfer transfer) {
    return to[transfer.poolIndex];
  }

  void setTo(Transfer transfer, int tier) {
    to[transfer.poolIndex] = tier;
  }
}
