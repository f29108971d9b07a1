package io.kvtier.daemon.index.lane;

import io.kvtier.daemon.index.core.LongQueue;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.util.ArrayDeque;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * One device of a lower tier as the index uses it: its pipeline, the share of the pipeline that
 * stores may take, its fences, and the ledger rows that must be deleted before anything new is
 * stored there. Confined to the index.
 *
 * <p>Reads and writes have a fence each: a device that is full, or was mounted read-only, can still
 * be read. Its ledger is a part of the device: rows that can't be written close the fence of
 * writes.
 */
public final class Lane {
  // Stores leave room for loads, because clients wait for loads.
  private static final double STORES_SHARE = 0.75;
  private static final int FORGETS_MAX = 16;
  private static final int PLACES_PER_FORGET = 256;

  private final int number;
  private final Pipeline pipeline;
  private final int depth;
  private final Fence reads = new Fence();
  private final Fence writes = new Fence();
  private final LongSupplier clock;
  private final Consumer<Transfer> onFinished = this::finished;
  private Consumer<Transfer> finished = transfer -> {};
  private final LongQueue rowsToForget;
  private final ArrayDeque<Transfer> spareForgets = new ArrayDeque<>(FORGETS_MAX);

  /** Transfers whose rows the ledger did not delete: they are handed over again. */
  private final ArrayDeque<Transfer> failedForgets = new ArrayDeque<>(FORGETS_MAX);

  private final Tenants tenants;
  private final int[] inFlightOf;
  private final int[] storesOf;
  private int stores;
  private long rowsQueued;
  private long rowsForgotten;

  /**
   * An idle device.
   *
   * @param depth the most loads and stores in flight
   * @param slotsMax the most slots of the device: no more rows can wait to be deleted
   */
  public Lane(
      int number, Pipeline pipeline, Tenants tenants, int depth, int slotsMax, LongSupplier clock) {
    this.clock = clock;
    this.tenants = tenants;
    this.inFlightOf = new int[tenants.count()];
    this.storesOf = new int[tenants.count()];
    this.number = number;
    this.pipeline = pipeline;
    this.depth = depth;
    rowsToForget = new LongQueue(slotsMax);
    for (int i = 0; i < FORGETS_MAX; i++) {
      spareForgets.add(Transfer.forget(PLACES_PER_FORGET));
    }
  }

  public int number() {
    return number;
  }

  /** Whether loads may be started. */
  public boolean isReadable() {
    return reads.isOpen();
  }

  /** Whether nothing may be stored for a while. */
  public boolean isFenced() {
    return !reads.isOpen() || !writes.isOpen();
  }

  /** Whether the device works, as far as is known. */
  public boolean isWell() {
    return reads.isWell() && writes.isWell();
  }

  /** Whether the device counts as gone: blocks do not wait for it. */
  public boolean isGivenUp() {
    return reads.isGivenUp() || writes.isGivenUp();
  }

  /** Whether a single store must show whether the device works again, and none is under way. */
  public boolean isToTry() {
    return !isWell() && canStore();
  }

  /** The state in a word: open, fenced or given_up. */
  public String state() {
    return isGivenUp() ? "given_up" : isWell() ? "open" : "fenced";
  }

  /** Why the device is fenced; empty while it works. */
  public String cause() {
    return writes.isWell() ? reads.cause() : writes.cause();
  }

  /** The cause of a failure of a load or a store not long ago; empty when there was none. */
  public String failure(long nowNs) {
    String ofWrites = writes.failure(nowNs);
    return ofWrites.isEmpty() ? reads.failure(nowNs) : ofWrites;
  }

  /** Opens the fences whose time is over. */
  public void checkFences(long nowNs) {
    reads.check(nowNs);
    writes.check(nowNs);
  }

  /** Learns from the outcome of a load or a store whether the device works. */
  public void learn(Transfer transfer) {
    boolean isLoad = transfer.kind == Transfer.Kind.LOAD;
    switch (transfer.status) {
      case OK -> {
        reads.succeeded();
        if (!isLoad) {
          writes.succeeded();
        }
      }
      // Corrupt bytes do not close a fence: a client may have written to the slab, and one rotten
      // block is no reason to give up the device.
      case CORRUPT -> {}
      default -> (isLoad ? reads : writes).failed(clock.getAsLong(), transfer.cause);
    }
  }

  /** Loads and stores under way. */
  public int inFlight() {
    return pipeline.inFlight();
  }

  /** Whether a load of a tenant's could be handed over now. */
  public boolean canLoad(int tenant) {
    return pipeline.inFlight() < depth && inFlightOf[tenant] < tenants.shareOf(depth, tenant);
  }

  /** Whether a store could be handed over now. */
  public boolean canStore() {
    return !isFenced()
        && stores < (isWell() ? storesMax() : 1)
        && pipeline.inFlight() < depth
        && isForgotten();
  }

  /** Whether a store of a tenant's could be handed over now. */
  public boolean canStore(int tenant) {
    return canStore() && canLoad(tenant) && storesOf[tenant] < tenants.shareOf(storesMax(), tenant);
  }

  private int storesMax() {
    return Math.max(1, (int) (depth * STORES_SHARE));
  }

  /**
   * Hands a load or a store over. A store waits until all queued rows are deleted for good: after a
   * kill, a row that was left would name a slot with other bytes.
   *
   * @return false when the device can't take the transfer now
   */
  public boolean offer(Transfer transfer) {
    boolean isStore = transfer.kind == Transfer.Kind.STORE;
    int tenant = transfer.owner;
    if (isStore ? !canStore(tenant) : !canLoad(tenant)) {
      return false;
    }
    transfer.device = number;
    if (!pipeline.offer(transfer)) {
      return false;
    }
    inFlightOf[tenant]++;
    stores += isStore ? 1 : 0;
    storesOf[tenant] += isStore ? 1 : 0;
    return true;
  }

  /** Hands over loads and stores that are finished; returns how many transfers were. */
  public int collect(Consumer<Transfer> finished) {
    this.finished = finished;
    return pipeline.collect(onFinished);
  }

  private void finished(Transfer transfer) {
    if (transfer.kind == Transfer.Kind.FORGET) {
      forgotten(transfer);
      return;
    }
    int store = transfer.kind == Transfer.Kind.STORE ? 1 : 0;
    stores -= store;
    storesOf[transfer.owner] -= store;
    inFlightOf[transfer.owner]--;
    finished.accept(transfer);
  }

  private void forgotten(Transfer transfer) {
    if (transfer.status == Status.OK) {
      rowsForgotten += transfer.placeCount;
      spareForgets.add(transfer);
    } else {
      writes.failed(clock.getAsLong(), transfer.cause);
      failedForgets.add(transfer);
    }
  }

  public boolean hasFinished() {
    return pipeline.hasFinished();
  }

  // ---- rows

  /** Queues the row of a place, which must be deleted before anything else is stored there. */
  public void forget(long place) {
    if (!rowsToForget.offer(place)) {
      throw new IllegalStateException("more rows to forget than the device has slots");
    }
    rowsQueued++;
  }

  /**
   * Hands the queued rows over. The rows of a fenced device wait until the device may be tried
   * again.
   */
  public void forgetRows() {
    if (!writes.isOpen()) {
      return;
    }
    while (!failedForgets.isEmpty()) {
      failedForgets.element().status = Status.OK;
      if (!pipeline.offer(failedForgets.element())) {
        return;
      }
      var _ = failedForgets.remove();
    }
    while (rowsToForget.size() > 0 && !spareForgets.isEmpty()) {
      Transfer transfer = spareForgets.element();
      transfer.device = number;
      transfer.status = Status.OK;
      int count = Math.min(rowsToForget.size(), PLACES_PER_FORGET);
      for (int i = 0; i < count; i++) {
        transfer.places[i] = rowsToForget.at(i);
      }
      transfer.placeCount = count;
      if (!pipeline.offer(transfer)) {
        return;
      }
      for (int i = 0; i < count; i++) {
        var _ = rowsToForget.poll();
      }
      var _ = spareForgets.remove();
    }
  }

  /** How many rows were queued so far. */
  public long rowsQueued() {
    return rowsQueued;
  }

  /** How many rows are deleted for good. */
  public long rowsForgotten() {
    return rowsForgotten;
  }

  /** Whether all queued rows are deleted for good. */
  public boolean isForgotten() {
    return rowsForgotten == rowsQueued;
  }

  /** Whether anything is under way, after whose end the device may take more. */
  public boolean isBusy() {
    return inFlight() > 0 || isForgetting();
  }

  /** Whether rows are queued, and may be tried. */
  public boolean isForgetting() {
    return !isForgotten() && writes.isOpen();
  }

  @Override
  public String toString() {
    return inFlight()
        + " in flight, "
        + stores
        + " of them stores, "
        + rowsToForget.size()
        + " rows to forget, "
        + (rowsQueued - rowsForgotten - rowsToForget.size())
        + " being forgotten"
        + (isWell() ? "" : ", " + state() + ": " + cause());
  }
}
