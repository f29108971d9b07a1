package io.kvtier.daemon.index;

import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.function.IntConsumer;

/**
 * Blocks of lower tiers on their way to the host tier that have no slot there yet: first come,
 * first served within a size class and a priority, so that the places of one request get their
 * slots in order. Confined to the index.
 *
 * <p>A slot may be long in coming: where clients hold every block of a size class, only they can
 * free one. This class knows when that is so; {@link Shortages} tells who waits.
 */
final class Promotions {
  private static final long PREFETCHED = 1L << 48;

  private final BlockStore store;
  private final Directory directory;
  private final TierLine host;
  private final Mover mover;
  private final BlockStore.Listener listener;
  private final Latencies latencies;
  private final long standstillNs;
  private final ClassQueues queues;
  private final ClassQueues.Server serve = this::serve;
  private final ClassQueues.Server dropUnawaited = this::dropUnawaited;

  /** When a block of each size class last came, got its slot, or waited for something else, ns. */
  private final long[] movedNs;

  Promotions(
      BlockStore store,
      Directory directory,
      TierLine host,
      Mover mover,
      BlockStore.Listener listener,
      Latencies latencies,
      IndexAgent.Limits limits) {
    this.store = store;
    this.directory = directory;
    this.host = host;
    this.mover = mover;
    this.listener = listener;
    this.latencies = latencies;
    standstillNs = limits.standstillNs();
    int classes = host.slots().classesMax();
    queues = new ClassQueues(classes, RequestDescriptor.PRIORITY_LOW + 1, limits.holdsMax());
    movedNs = new long[classes];
  }

  int size() {
    return queues.size();
  }

  /** How many wait for a slot of a size class. */
  int waiting(int sizeClass) {
    return queues.waiting(sizeClass);
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
    int sizeClass = store.hostClass(block);
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
    store.endUse(block);
    return true;
  }

  private boolean start(int block, int priority) {
    boolean isFetch = directory.has(Directory.FLAG_FETCHING, block);
    int sizeClass = store.hostClass(block);
    if (isFetch ? !mover.canMoveObject(store.tenant(block)) : !mover.canLoad(block)) {
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
    store.makeRoomForWaiting(sizeClass, SlotAllocator.DAEMON, mayDoubt);
    return host.allocate(block, sizeClass, SlotAllocator.DAEMON, true, mayDoubt);
  }

  /**
   * Whether blocks of a size class wait for slots that only clients could free, and none has come
   * free for a while.
   */
  boolean isStanding(int sizeClass, long nowNs) {
    if (queues.waiting(sizeClass) == 0) {
      return false;
    }
    if (store.isRoomUnderWay(sizeClass)) {
      movedNs[sizeClass] = nowNs;
    }
    return nowNs - movedNs[sizeClass] >= standstillNs;
  }

  /** The blocks of a size class that wait, in the order in which they get their slots. */
  void forEach(int sizeClass, IntConsumer visitor) {
    queues.forEach(sizeClass, item -> visitor.accept((int) item));
  }

  /** Gives up the blocks of a size class that nobody waits for any more. */
  void dropUnawaited(int sizeClass) {
    queues.removeIf(sizeClass, dropUnawaited);
  }
}
