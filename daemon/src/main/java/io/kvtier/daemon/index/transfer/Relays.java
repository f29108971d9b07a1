package io.kvtier.daemon.index.transfer;

import io.kvtier.daemon.index.lane.Lane;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Iterator;
import org.jspecify.annotations.Nullable;

/**
 * Copies of lower tiers on their way further down: each is read into a buffer, and written from
 * there to a lower tier or to an object. Confined to the index.
 */
public final class Relays {
  private final TransferPool pool;
  private final TierStack stack;
  private final LowerTiers lower;
  private final LowerMoves below;
  private final SourceMoves outside;
  private final RelayBuffers buffers;
  private final ArrayDeque<Transfer> toWrite = new ArrayDeque<>();
  private final ArrayDeque<Transfer> toEnd = new ArrayDeque<>();
  private int count;

  Relays(
      TransferPool pool,
      TierStack stack,
      LowerTiers lower,
      LowerMoves below,
      SourceMoves outside,
      RelayBuffers buffers) {
    this.pool = pool;
    this.stack = stack;
    this.lower = lower;
    this.below = below;
    this.outside = outside;
    this.buffers = buffers;
  }

  /** Writes a lower tier's copy to a tier further down; false when that can't be started now. */
  public boolean toTier(int block, int source, int target) {
    return start(block, source, target);
  }

  /** Writes a lower tier's copy to an object; false when that can't be started now. */
  public boolean toObject(int block, int source) {
    return start(block, source, TransferPool.OUTSIDE);
  }

  private boolean start(int block, int source, int target) {
    int tenant = pool.tenantOf(block);
    boolean isTaken =
        target == TransferPool.OUTSIDE
            ? outside.canUpload(tenant)
            : below.canStore(tenant, lower.at(target));
    MemorySegment buffer = isTaken ? buffers.take(stack.at(source).payloadBytes(block)) : null;
    if (buffer == null) {
      return false;
    }
    Transfer transfer = below.read(block, source, buffer, TransferPool.Purpose.RELAY);
    if (transfer == null) {
      buffers.give(buffer);
      return false;
    }
    pool.setTo(transfer, target);
    count(tenant, target, 1);
    return true;
  }

  private void count(int tenant, int target, int more) {
    count += more;
    if (target == TransferPool.OUTSIDE) {
      outside.countUpload(tenant, true, more);
    }
  }

  /** How many relays are under way. */
  public int count() {
    return count;
  }

  /** A copy was read: it is written, now or when there is a place for the write. */
  void read(Transfer transfer) {
    pool.becomeStore(transfer);
    if (pool.to(transfer) != TransferPool.OUTSIDE) {
      below.place(transfer, pool.to(transfer));
    }
    toWrite.add(transfer);
    advance();
  }

  /** Writes the copies that were read, as far as pipelines take them. */
  void advance() {
    if (toWrite.isEmpty()) {
      return;
    }
    for (Iterator<Transfer> each = toWrite.iterator(); each.hasNext(); ) {
      Transfer transfer = each.next();
      int target = pool.to(transfer);
      if (target == TransferPool.OUTSIDE
          ? outside.write(transfer)
          : writeBelow(transfer, lower.at(target))) {
        each.remove();
      }
    }
  }

  private boolean writeBelow(Transfer transfer, LowerTier target) {
    Lane lane = target.lanes().of(transfer.block);
    if (lane.isFenced()) {
      // Nobody knows how long the fence stays closed: the relay ends, and the copy stays where it
      // is.
      transfer.status = Status.IO_ERROR;
      toEnd.add(transfer);
      return true;
    }
    return lane.offer(transfer);
  }

  /** The next relay that a fence has ended; null when there is none. */
  @Nullable Transfer pollFenced() {
    return toEnd.poll();
  }

  /** Whether a fence has ended any relay. */
  boolean hasFenced() {
    return !toEnd.isEmpty();
  }

  /** A relay is over, well or not: its buffer is free again. */
  void ended(Transfer transfer) {
    count(transfer.owner, pool.to(transfer), -1);
    buffers.give(transfer.slab);
  }
}
