package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.daemon.index.transfer.LowerTier;
import io.kvtier.daemon.index.transfer.LowerTiers;
import io.kvtier.daemon.index.transfer.Mover;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.function.IntConsumer;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/**
 * Blocks of lower tiers and of sources on their way to the first tier that have no slot there yet:
 * first come, first served within a size class and a priority, so that the places of one request
 * get their slots in order. Confined to the index.
 *
 * <p>Where clients hold every block of a size class, only they can free a slot, and the wait has no
 * end. {@link #isStanding} says when that is so.
 */
public final class Promotions {
  private static final long PREFETCHED = 1L << 48;

  private final Directory directory;
  private final Copies copies;
  private final Evictions evictions;
  private final TierStack stack;
  private final ResidentTier first;
  private final LowerTiers lower;
  private final Mover mover;
  private final IntPredicate isAwaited;
  private final Latencies latencies;
  private final long standstillNs;
  private final ClassQueues queues;
  private final ClassQueues.Server serve = this::serve;
  private final ClassQueues.Server dropUnawaited = this::dropUnawaited;

  /**
   * The time of the last progress of each size class, ns: a block came, got its slot, or waited for
   * something other than a slot.
   */
  private final long[] movedNs;

  Promotions(MoveParts parts, Evictions evictions, IntPredicate isAwaited, ClassQueues queues) {
    directory = parts.core().directory();
    latencies = parts.core().latencies();
    standstillNs = parts.core().limits().times().standstillNs();
    copies = parts.copies();
    stack = parts.stack();
    first = stack.first();
    lower = parts.lower();
    mover = parts.mover();
    this.evictions = evictions;
    this.isAwaited = isAwaited;
    this.queues = queues;
    movedNs = new long[first.slots().classesMax()];
  }

  public int size() {
    return queues.size();
  }

  /** Whether no other block could wait. */
  boolean isFull() {
    return queues.isFull();
  }

  /**
   * Loads a block that has no slot yet, now or as soon as a slot is free.
   *
   * @param prefetch whether the block is wanted even when nobody waits for it
   */
  void add(int block, int priority, boolean prefetch) {
    int sizeClass = first.sizeClass(block);
    if (queues.waiting(sizeClass) == 0) {
      movedNs[sizeClass] = latencies.roundNs();
      if (start(block, priority)) {
        return;
      }
    }
    long item = (prefetch ? PREFETCHED : 0) | (long) priority << 32 | block;
    if (!queues.offer(sizeClass, priority, item)) {
      throw new IllegalStateException("the queue of promotions was not full");
    }
  }

  /** Gives free slots to waiting blocks. */
  void advance() {
    if (queues.size() > 0) {
      queues.serve(first.slots().classes(), serve);
    }
  }

  private boolean serve(long item) {
    int block = (int) item;
    return dropUnawaited(item) || start(block, (int) (item >>> 32) & 0xff);
  }

  /** Gives up a block that was deleted, or for which nobody waits any more; false for others. */
  private boolean dropUnawaited(long item) {
    int block = (int) item;
    boolean isLeaving = first.state(block) == CopyState.LEAVING;
    if (!isLeaving && ((item & PREFETCHED) != 0 || isAwaited.test(block))) {
      return false;
    }
    directory.set(Directory.FLAG_FETCHING, block, false);
    if (!isLeaving) {
      first.setState(block, CopyState.NONE);
    }
    copies.endUse(block);
    return true;
  }

  private boolean start(int block, int priority) {
    boolean isFetch = directory.has(Directory.FLAG_FETCHING, block);
    int sizeClass = first.sizeClass(block);
    int source = isFetch ? directory.source(block) : tierOf(block);
    if (isFetch
        ? !mover.outside().canFetch(copies.tenant(block), source)
        : !mover.below().canLoad(block, source)) {
      movedNs[sizeClass] = latencies.roundNs();
      return false;
    }
    // No GPU is given a block of a doubtful slot: such a slot is taken only if no other is free.
    boolean hasSlot =
        allocate(block, sizeClass, false)
            || (first.slots().hasDoubts()
                && mover.departures().evictions(sizeClass) == 0
                && allocate(block, sizeClass, true));
    if (!hasSlot) {
      return false;
    }
    movedNs[sizeClass] = latencies.roundNs();
    if (!(isFetch
        ? mover.outside().fetch(block, source, priority)
        : mover.below().load(block, source, priority))) {
      // The evictions for the slot may have filled the queue with stores.
      first.takeBack(block);
      return false;
    }
    return true;
  }

  /**
   * The lower tier to read a block from: the highest that can be read now, else the highest that
   * has it.
   */
  private int tierOf(int block) {
    ResidentTier readable = readable(block);
    ResidentTier any = readable == null ? stack.storedIn(block) : readable;
    if (any == null) {
      throw new IllegalStateException("block " + block + " is to be read, and no tier has it");
    }
    return any.number();
  }

  /** The highest lower tier that a block can be read from now; null when there is none. */
  @Nullable ResidentTier readable(int block) {
    for (LowerTier tier : lower) {
      if (tier.isReadable(block)) {
        return tier.tier();
      }
    }
    return null;
  }

  private boolean allocate(int block, int sizeClass, boolean mayDoubt) {
    if (first.allocate(
        block, sizeClass, SlotAllocator.DAEMON, true, mayDoubt, SlotAllocator.ANY_LANE)) {
      return true;
    }
    evictions.makeRoomForWaiting(sizeClass, SlotAllocator.DAEMON, mayDoubt);
    return first.allocate(
        block, sizeClass, SlotAllocator.DAEMON, true, mayDoubt, SlotAllocator.ANY_LANE);
  }

  /**
   * Whether blocks of a size class wait for slots that only clients could free, and none has come
   * free for a while.
   */
  public boolean isStanding(int sizeClass, long nowNs) {
    if (queues.waiting(sizeClass) == 0) {
      return false;
    }
    if (evictions.isRoomUnderWay(sizeClass)) {
      movedNs[sizeClass] = nowNs;
    }
    return nowNs - movedNs[sizeClass] >= standstillNs;
  }

  /** The blocks of a size class that wait, in the order in which they get their slots. */
  public void forEach(int sizeClass, IntConsumer visitor) {
    queues.forEach(sizeClass, item -> visitor.accept((int) item));
  }

  /** Gives up the blocks of a size class that nobody waits for any more. */
  public void dropUnawaited(int sizeClass) {
    queues.removeIf(sizeClass, dropUnawaited);
  }
}
