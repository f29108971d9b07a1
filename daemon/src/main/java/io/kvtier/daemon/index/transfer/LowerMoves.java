package io.kvtier.daemon.index.transfer;

import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** Loads from lower tiers and stores to them. Confined to the index. */
public final class LowerMoves {
  private final TransferPool pool;
  private final TierStack stack;
  private final LowerTiers lower;
  private final Departures departures;

  /** Reads under way that only verify blocks. */
  private int scrubs;

  LowerMoves(TransferPool pool, TierStack stack, LowerTiers lower, Departures departures) {
    this.pool = pool;
    this.stack = stack;
    this.lower = lower;
    this.departures = departures;
  }

  /** Whether a block's load from a tier could be handed over now. */
  public boolean canLoad(int block, int source) {
    return lower.at(source).lanes().of(block).canLoad(pool.tenantOf(block)) && !pool.isEmpty();
  }

  /** Reads a block from a lower tier to its first slot; false when that can't be started now. */
  public boolean load(int block, int source, int priority) {
    if (pool.isEmpty()) {
      return false;
    }
    Transfer transfer =
        pool.takeFirst(block, Transfer.Kind.LOAD, priority, TransferPool.Purpose.PLAIN);
    return offer(transfer, source) ? pool.started(transfer) : pool.takeBack();
  }

  /**
   * Reads a block from a lower tier into other memory, to verify it; false when that can't be
   * started now.
   */
  public boolean scrub(int block, int source, MemorySegment memory) {
    boolean isStarted = read(block, source, memory, TransferPool.Purpose.SCRUB) != null;
    scrubs += isStarted ? 1 : 0;
    return isStarted;
  }

  /** A read to verify a block is over. */
  void scrubbed() {
    scrubs--;
  }

  /** Reads under way that only verify blocks. */
  int scrubs() {
    return scrubs;
  }

  /** Reads a block from a lower tier into other memory; null when that can't be started now. */
  @Nullable Transfer read(int block, int source, MemorySegment memory, TransferPool.Purpose why) {
    if (pool.isEmpty()) {
      return null;
    }
    int bytes = stack.at(source).payloadBytes(block);
    Transfer transfer = pool.takeRead(block, TransferPool.STORE_PRIORITY, why, memory, bytes);
    boolean isStarted = offer(transfer, source) ? pool.started(transfer) : pool.takeBack();
    return isStarted ? transfer : null;
  }

  /** Hands a load over to a tier's device. */
  private boolean offer(Transfer transfer, int source) {
    pool.setFrom(transfer, source);
    place(transfer, source);
    return lower.at(source).lanes().of(transfer.block).offer(transfer);
  }

  /** Sets the place on the device that a transfer reads or writes. */
  void place(Transfer transfer, int tier) {
    transfer.region = lower.at(tier).lanes().regionOnDevice(transfer.block);
    transfer.offset = stack.at(tier).slots().offsetOf(stack.at(tier).slot(transfer.block));
  }

  /** Whether a store of a tenant's could be handed over to a tier now, on some device. */
  public boolean canStore(int tenant, LowerTier target) {
    return !pool.isEmpty() && target.lanes().canStore(tenant);
  }

  /** Writes a block from its first slot to a lower one; false when that can't be started now. */
  public boolean store(int block, LowerTier target, boolean evict) {
    if (pool.isEmpty()) {
      return false;
    }
    Transfer transfer = pool.takeStore(block, evict, target.number());
    place(transfer, target.number());
    if (!target.lanes().of(block).offer(transfer)) {
      return pool.takeBack();
    }
    departures.store(block, evict, 1);
    return pool.started(transfer);
  }
}
