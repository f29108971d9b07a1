package io.kvtier.daemon.index;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.PresenceCache.Presence;
import java.lang.foreign.MemorySegment;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * How blocks come from the object tier, and how they get there: from the host tier as its admission
 * policy says, and from SSD when they fall out of that. Confined to the index.
 */
final class ObjectMoves implements Mover.ObjectListener, Ingestion.Target {
  /** How long after its refusal a block is not offered again. */
  private static final long REFUSAL_MS = 10_000;

  /** So many are kept from being offered again; of more, the first to be refused is sooner. */
  private static final int REFUSALS_MAX = 1 << 16;

  private final BlockStore store;
  private final ObjectLine objects;
  private final ObjectProbes probes;
  private final Directory directory;
  private final TierLine host;
  private final TierLine ssd;
  private final Counters counters;
  private final Ingestion ingestion;
  private final ObjectProbes.Finder finder = this::found;
  private final ObjectLine.Confirmations confirmations = this::confirmed;
  private final LongSupplier clock;

  /** The refused blocks in the order of their refusals, each with its time in ms. */
  private final LongQueue refusals = new LongQueue(REFUSALS_MAX);

  ObjectMoves(
      BlockStore store, ObjectLine objects, ObjectProbes probes, IndexAgent.Context context) {
    this.store = store;
    this.objects = objects;
    this.probes = probes;
    directory = context.directory();
    host = store.host();
    ssd = store.ssd();
    counters = context.counters();
    clock = context.clock();
    ObjectParts parts = context.objects();
    ingestion = new Ingestion(this, directory, host, parts == null ? "all" : parts.admission());
  }

  Ingestion ingestion() {
    return ingestion;
  }

  // ---- up

  /**
   * Has the block brought up whose key was sought last, and not found, if it may be in the object
   * tier. What is not known of it is found out first.
   *
   * @param prefetch whether it is wanted even when nobody waits for it
   * @return the block, on its way to the host tier, or {@link Directory#NONE}
   */
  int fetchSought(
      Namespaces.Namespace namespace, int group, int keyBytes, int priority, boolean prefetch) {
    Presence presence = objects.presenceOfSought(namespace, keyBytes, group);
    if (presence == Presence.ABSENT || !objects.isOpen() || !store.mayPromote()) {
      return Directory.NONE;
    }
    int block =
        store.records().insertSought(namespace, group, keyBytes, presence == Presence.PRESENT);
    if (block == Directory.NONE) {
      return Directory.NONE;
    }
    directory.setLineage(block, 0, 0);
    directory.addUses(block, 1);
    directory.set(Directory.FLAG_FETCHING, block, true);
    host.setState(block, CopyState.STAGING);
    if (presence == Presence.PRESENT) {
      store.promotions().add(block, priority, prefetch);
    } else if (!probes.probe(block, priority, prefetch)) {
      miss(block);
      return Directory.NONE;
    }
    return block;
  }

  /** Settles what was found out; returns how much that was. */
  int collect() {
    return probes.collect(finder) + objects.collectConfirmed(confirmations);
  }

  private void found(int block, int priority, boolean prefetch, Presence presence) {
    if (host.state(block) == CopyState.LEAVING) {
      directory.set(Directory.FLAG_FETCHING, block, false);
      store.endUse(block);
    } else if (presence == Presence.PRESENT && store.mayPromote()) {
      store.promotions().add(block, priority, prefetch);
    } else {
      miss(block);
    }
  }

  /** A block that was to come does not: out of sight before those who wait are told. */
  private void miss(int block) {
    directory.set(Directory.FLAG_FETCHING, block, false);
    boolean isLeaving = host.state(block) == CopyState.LEAVING;
    host.free(block);
    if (!isLeaving) {
      store.missed(block);
    }
    store.endUse(block);
  }

  @Override
  public void onAnnotation(int block, byte[] annotation, int bytes) {
    if (directory.annotations().bytes(block) == 0
        && !directory.annotations().set(block, MemorySegment.ofArray(annotation), 0, bytes)) {
      counters.add(Counter.ANNOTATIONS_DROPPED, 1);
    }
  }

  @Override
  public void onFetched(int block, Status status) {
    if (status == Status.OK) {
      counters.add(Counter.OBJECT_FETCHED, 1);
      counters.add(Counter.OBJECT_READ_BYTES, store.blockBytes(block));
      directory.set(Directory.FLAG_FETCHING, block, false);
      if (host.state(block) == CopyState.LEAVING) {
        store.endUse(block);
      } else {
        objects.know(block, true);
        directory.addUses(block, -1);
        store.becomeResident(block);
        store.settle(block);
      }
      return;
    }
    counters.add(Counter.CORRUPT, status == Status.CORRUPT ? 1 : 0);
    counters.add(Counter.OBJECT_ERRORS, status == Status.MISS || status == Status.CORRUPT ? 0 : 1);
    if (status == Status.MISS || status == Status.CORRUPT) {
      objects.gone(block);
    } else {
      directory.set(Directory.FLAG_OBJECT, block, false);
    }
    // What was deleted meanwhile was not dropped, though both its copies leave.
    if (ssd.state(block) == CopyState.LEAVING && host.state(block) != CopyState.LEAVING) {
      boolean isDamaged = directory.has(Directory.FLAG_DAMAGED, block);
      store.drops().count(block, isDamaged ? Drops.Reason.DAMAGED : Drops.Reason.UNREADABLE);
    }
    miss(block);
  }

  // ---- down

  @Override
  public boolean isConfigured() {
    return objects.isConfigured();
  }

  @Override
  public int blocksMax() {
    return directory.blocksMax();
  }

  @Override
  public boolean lacks(int block) {
    return !directory.has(
        Directory.FLAG_OBJECT | Directory.FLAG_UPLOADING | Directory.FLAG_REFUSED, block);
  }

  /**
   * The store refused a block. Offered again at every eviction, it would stand in the way of
   * others; never offered again, it would be lost when a store refuses only for a time, as one does
   * whose credentials have expired.
   */
  private void refused(int block) {
    if (refusals.isFull()) {
      endRefusal();
    }
    directory.set(Directory.FLAG_REFUSED, block, true);
    var _ = refusals.offer(nowMs() << Integer.SIZE | block);
  }

  /** The number may be another block's meanwhile: that one is offered sooner, at worst. */
  private void endRefusal() {
    directory.set(Directory.FLAG_REFUSED, (int) refusals.poll(), false);
  }

  /** Milliseconds in 32 bits: far more than a refusal lasts. */
  private long nowMs() {
    return clock.getAsLong() / 1_000_000 & 0xffff_ffffL;
  }

  /** Goes on with what was admitted early, and has blocks offered again after a while. */
  void advance() {
    while (refusals.size() > 0
        && (int) nowMs() - (int) (refusals.peek() >>> Integer.SIZE) >= REFUSAL_MS) {
      endRefusal();
    }
    ingestion.advance();
  }

  @Override
  public boolean isFull(int block) {
    return false;
  }

  @Override
  public boolean start(int block) {
    return startUpload(block, false);
  }

  @Override
  public boolean mayStartSoon() {
    return objects.takesStores();
  }

  /**
   * Why a block that falls out of the tiers above can leave without any more ado; null: it should
   * become an object before, or be seen to be one still.
   */
  Drops.@Nullable Reason reasonAgainst(int block) {
    if (!isConfigured()) {
      return Drops.Reason.NO_ROOM;
    }
    if (directory.has(Directory.FLAG_OBJECT, block) && objects.canConfirm()) {
      return null;
    }
    if (!lacks(block)) {
      return directory.has(Directory.FLAG_REFUSED, block)
          ? Drops.Reason.REFUSED
          : Drops.Reason.NO_ROOM;
    }
    if (!objects.takesStores()) {
      return Drops.Reason.STORE_AWAY;
    }
    if (!ingestion.admitsEvicted(block)) {
      return Drops.Reason.NO_ROOM;
    }
    // Nobody knows for how long: what stands in the way of others can't wait for that.
    return objects.isGoing(block) ? Drops.Reason.BEING_DELETED : null;
  }

  /**
   * Writes a resident block to an object, or has it seen that it is one still.
   *
   * @param evict whether that is to free the host slot
   * @return false when that can't be started now
   */
  boolean startUpload(int block, boolean evict) {
    if (evict && directory.has(Directory.FLAG_OBJECT, block)) {
      return startConfirmation(block, true);
    }
    return mayStore(block) && begun(block, store.mover().upload(block, evict));
  }

  /** The same of a block that is only on SSD. */
  boolean startSpill(int block) {
    if (directory.has(Directory.FLAG_OBJECT, block)) {
      return startConfirmation(block, false);
    }
    return mayStore(block) && begun(block, store.mover().spill(block));
  }

  private boolean startConfirmation(int block, boolean isOnHost) {
    if (!objects.confirm(block, isOnHost)) {
      return false;
    }
    directory.addUses(block, 1);
    store.mover().confirming(block, isOnHost, 1);
    return true;
  }

  /** Of a store that does not answer what was known before is the best that there is. */
  private void confirmed(int block, boolean isOnHost, Presence presence) {
    store.mover().confirming(block, isOnHost, -1);
    directory.addUses(block, -1);
    if (presence == Presence.ABSENT) {
      // Whoever wants its slot asks again: then it is stored, or dropped as one that is nowhere.
      objects.know(block, false);
    } else if (directory.has(Directory.FLAG_OBJECT, block)) {
      boolean leavesHost = host.isEvictable(block);
      boolean leavesSsd = ssd.isEvictable(block) && (leavesHost || !host.isResident(block));
      if (leavesHost && leavesSsd && isOnHost) {
        store.dropHostCopy(block);
        store.dropSsdCopy(block);
        return;
      }
      if (leavesHost && isOnHost) {
        store.dropHostCopy(block);
        return;
      }
      if (leavesSsd && !isOnHost) {
        store.dropSsdCopy(block);
        return;
      }
    }
    store.settle(block);
  }

  private boolean mayStore(int block) {
    return objects.takesStores() && !objects.isGoing(block);
  }

  private boolean begun(int block, boolean isBegun) {
    if (isBegun) {
      directory.set(Directory.FLAG_UPLOADING, block, true);
    }
    return isBegun;
  }

  @Override
  public void onUploaded(int block, Status status, boolean evict) {
    objects.uploadEnded(block);
    boolean isLeaving = host.state(block) == CopyState.LEAVING;
    stored(block, status);
    if (!store.hasSsdClass(block)) {
      store.tellStored(block, isLeaving ? Status.MISS : status);
    }
    if (status == Status.CORRUPT && host.isResident(block)) {
      store.dropDamaged(block);
    } else if (status == Status.OK && evict && host.isEvictable(block)) {
      store.dropHostCopy(block);
    } else {
      store.settle(block);
    }
  }

  @Override
  public void onSpilled(int block, Status status, boolean isRead) {
    objects.uploadEnded(block);
    if (isRead) {
      stored(block, status);
    } else if (status == Status.CORRUPT) {
      counters.add(Counter.CORRUPT, 1);
    } else {
      counters.add(Counter.IO_ERRORS, 1);
    }
    if (status == Status.CORRUPT) {
      store.dropDamagedOnSsd(block);
    } else if (status == Status.OK
        && host.state(block) == CopyState.NONE
        && ssd.isEvictable(block)) {
      counters.add(Counter.SPILLED, 1);
      store.dropSsdCopy(block);
    } else {
      store.settle(block);
    }
  }

  private void stored(int block, Status status) {
    if (status == Status.DENIED) {
      refused(block);
    } else {
      directory.set(Directory.FLAG_REFUSED, block, false);
    }
    if (status == Status.OK) {
      counters.add(Counter.OBJECT_STORED, 1);
      counters.add(Counter.OBJECT_WRITTEN_BYTES, store.blockBytes(block));
      objects.know(block, directory.isLinked(block));
    } else if (status != Status.CORRUPT) {
      counters.add(Counter.OBJECT_ERRORS, 1);
    }
  }

  /** What waits to be written, or to be found out. */
  int waiting() {
    return ingestion.waiting() + probes.waiting() + objects.confirming();
  }
}
