package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.space.TierLine;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.function.IntConsumer;

/**
 * Blocks of lower tiers on their way to the host tier that have no slot there yet: first come,
 * first served within a size class and a priority, so that the places of one request get their
 * slots in order. Confined to the index.
 *
 * <p>Where clients hold every block of a size class, only they can free a slot, and the wait has no
 * end. {@link #isStanding} says when that is so.
 */
public final class Promotions {
  private static final long PREFETCHED = 1L << 48;

  private final Directory directory;
  private final Copies copies;
  private final Evictions evictions;
  private final TierLine host;
  private final Mover mover;
  private final BlockListener listener;
  private final Latencies latencies;
  private final long standstillNs;
  private final ClassQueues queues;
  private final ClassQueues.Server serve = this::serve;
  private final ClassQueues.Server dropUnawaited = this::dropUnawaited;

  /** When a block of each size class last came, got its slot, or waited for something else, ns. */
  private final long[] movedNs;

  Promotions(
      Directory directory,
      Copies copies,
      Evictions evictions,
      TierLine host,
      Mover mover,
      BlockListener listener,
      Latencies latencies,
      long standstillNs,
      ClassQueues queues) {
    this.directory = directory;
    this.copies = copies;
    this.evictions = evictions;
    this.host = host;
    this.mover = mover;
    this.listener = listener;
    this.latencies = latencies;
    this.standstillNs = standstillNs;
    this.queues = queues;
    movedNs = new long[host.slots().classesMax()];
  }

  public int size() {
    return queues.size();
  }

  /** Whether no other block could wait. */
  boolean isFull() {
    return queues.isFull();
  }

  /**
   * Loads a block that has no slot yet, now or as soon as there is room.
   *
   * @param prefetch whether it is wanted even when nobody waits for it
   */
  void add(int block, int priority, boolean prefetch) {
    int sizeClass = copies.hostClass(block);
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

  /** Gives slots to blocks that wait, as far as there are any. */
  void advance() {
    if (queues.size() > 0) {
      queues.serve(host.slots().classes(), serve);
    }
  }

  private boolean serve(long item) {
    int block = (int) item;
    return dropUnawaited(item) || start(block, (int) (item >>> 32) & 0xff);
  }

  /** Gives up a block that was deleted, or for which nobody waits any more; false for others. */
  private boolean dropUnawaited(long item) {
    int block = (int) item;
    boolean isLeaving = host.state(block) == CopyState.LEAVING;
    if (!isLeaving && ((item & PREFETCHED) != 0 || listener.isAwaited(block))) {
      return false;
    }
    directory.set(Directory.FLAG_FETCHING, block, false);
    if (!isLeaving) {
      host.setState(block, CopyState.NONE);
    }
    copies.endUse(block);
    return true;
  }

  private boolean start(int block, int priority) {
    boolean isFetch = directory.has(Directory.FLAG_FETCHING, block);
    int sizeClass = copies.hostClass(block);
    if (isFetch ? !mover.canMoveObject(copies.tenant(block)) : !mover.canLoad(block)) {
      movedNs[sizeClass] = latencies.roundNs();
      return false;
    }
    // From a doubtful slot no GPU would get it: only where nothing else is to be had.
    boolean hasSlot =
        allocate(block, sizeClass, false)
            || (host.slots().hasDoubts()
                && mover.evictions(sizeClass) == 0
                && allocate(block, sizeClass, true));
    if (!hasSlot) {
      return false;
    }
    movedNs[sizeClass] = latencies.roundNs();
    if (!(isFetch ? mover.fetch(block, priority) : mover.load(block, priority))) {
      // Making room may have filled the queue with stores.
      host.takeBack(block);
      return false;
    }
    return true;
  }

  private boolean allocate(int block, int sizeClass, boolean mayDoubt) {
    if (host.allocate(block, sizeClass, SlotAllocator.DAEMON, true, mayDoubt)) {
      return true;
    }
    evictions.makeRoomForWaiting(sizeClass, SlotAllocator.DAEMON, mayDoubt);
    return host.allocate(block, sizeClass, SlotAllocator.DAEMON, true, mayDoubt);
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
