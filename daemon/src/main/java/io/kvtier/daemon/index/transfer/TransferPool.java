package io.kvtier.daemon.index.transfer;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.util.function.IntFunction;

/**
 * The transfers of an index, of which there is a fixed number: fills them with what is known of a
 * block, and knows what each one is for. A block with a transfer under way is in use. Confined to
 * the index.
 */
final class TransferPool {
  /**
   * In place of the number of a tier that is written: the object tier. In place of one that is
   * read: the first source, and the numbers below are those of the further ones.
   */
  static final int OUTSIDE = -1;

  /** The priority of stores, and of reads that nobody waits for. */
  static final int STORE_PRIORITY = 2;

  /** Why a transfer is made. */
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
    return take(
        block,
        kind,
        priority,
        why,
        slabs.apply(slots.regionOf(slot)),
        slots.offsetOf(slot),
        slots.slotBytes(slots.classOf(slot)));
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
    return transfer;
  }

  /** Fills in everything but where the bytes are, in memory and on a device. */
  private void describe(Transfer transfer, int block, Transfer.Kind kind, int priority) {
    Namespaces.Namespace namespace = namespaces.of(directory, block);
    transfer.kind = kind;
    transfer.block = block;
    transfer.owner = namespace.tenant();
    transfer.priority = priority;
    transfer.length = (int) namespace.blockBytes();
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

  /** What was read becomes a write of its own. */
  void becomeStore(Transfer transfer) {
    transfer.kind = Transfer.Kind.STORE;
    transfer.offeredNs = latencies.roundNs();
    count(transfer);
  }

  /** Gives a store a higher count than all before it. */
  void count(Transfer store) {
    store.generation = ++generation;
  }

  /** No store so far had a higher count. */
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

  /** The number of the tier that is read, or {@link #OUTSIDE} and below: of a source. */
  int from(Transfer transfer) {
    return from[transfer.poolIndex];
  }

  void setFrom(Transfer transfer, int tier) {
    from[transfer.poolIndex] = tier;
  }

  /** The number of the tier that is written, or {@link #OUTSIDE}: the object tier. */
  int to(Transfer transfer) {
    return to[transfer.poolIndex];
  }

  void setTo(Transfer transfer, int tier) {
    to[transfer.poolIndex] = tier;
  }
}
