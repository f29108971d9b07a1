package io.kvtier.tiers.transfer;

import io.kvtier.protocol.Status;
import java.util.function.Consumer;
import java.util.function.IntConsumer;
import org.jctools.queues.atomic.MpscAtomicArrayQueue;
import org.jctools.queues.atomic.SpmcAtomicArrayQueue;
import org.jspecify.annotations.Nullable;

/**
 * What stands between the index and a pipeline's workers: bounded queues by priority, loads of
 * every urgency before stores, so that nobody who waits for a block waits behind a write; the way
 * back; and who sleeps. One thread, the index, offers and collects. Workers are any number.
 */
public final class TransferQueues {
  /** Queues: one for each priority of a load or checksum, and the last for stores. */
  private static final int LEVELS = 4;

  private static final int STORE_LEVEL = 3;

  private final int depth;
  private final IntConsumer wake;
  private final @Nullable LastLeg lastLeg;
  private final Runnable finishedBell;
  private final SpmcAtomicArrayQueue<Transfer>[] queues;
  private final MpscAtomicArrayQueue<Transfer> finished;
  private final IdleWorkers idle;
  private int inFlight;

  /**
   * Empty queues.
   *
   * @param depth the most transfers that were taken and not given back
   * @param wake wakes the worker of that number
   * @param lastLeg where stores go on to, or null when the workers do all
   * @param finishedBell wakes the collecting thread
   */
  @SuppressWarnings({"unchecked", "rawtypes"}) // an array of generic queues
  public TransferQueues(
      int depth, int workers, IntConsumer wake, @Nullable LastLeg lastLeg, Runnable finishedBell) {
    this.depth = depth;
    this.lastLeg = lastLeg;
    this.wake = wake;
    this.finishedBell = finishedBell;
    queues = new SpmcAtomicArrayQueue[LEVELS];
    for (int i = 0; i < LEVELS; i++) {
      queues[i] = new SpmcAtomicArrayQueue<>(Math.max(2, depth));
    }
    int onLastLeg = lastLeg == null ? 0 : lastLeg.capacity();
    finished = new MpscAtomicArrayQueue<>(Math.max(2, depth + onLastLeg));
    idle = new IdleWorkers(workers);
    if (lastLeg != null) {
      lastLeg.start(finished::add, this::ringFinished);
    }
  }

  /** {@link Pipeline#offer}. */
  public boolean offer(Transfer transfer) {
    if (transfer.kind == Transfer.Kind.FORGET) {
      return lastLeg != null && lastLeg.offer(transfer);
    }
    if (inFlight == depth) {
      return false;
    }
    int level =
        transfer.kind == Transfer.Kind.STORE
            ? STORE_LEVEL
            : Math.min(transfer.priority, STORE_LEVEL - 1);
    if (!queues[level].offer(transfer)) {
      return false;
    }
    inFlight++;
    int sleeper = idle.takeOne();
    if (sleeper != IdleWorkers.NONE) {
      wake.accept(sleeper);
    }
    return true;
  }

  /** {@link Pipeline#collect}. */
  public int collect(Consumer<Transfer> sink) {
    int count = 0;
    for (Transfer transfer = finished.poll(); transfer != null; transfer = finished.poll()) {
      inFlight -= transfer.kind == Transfer.Kind.FORGET ? 0 : 1;
      count++;
      sink.accept(transfer);
    }
    return count;
  }

  /** {@link Pipeline#hasFinished}. */
  public boolean hasFinished() {
    return !finished.isEmpty();
  }

  /** {@link Pipeline#inFlight}. */
  public int inFlight() {
    return inFlight;
  }

  /** The next transfer for a worker, or null. */
  public @Nullable Transfer poll() {
    Transfer transfer = pollUrgent();
    return transfer == null ? pollStore() : transfer;
  }

  /** The next transfer that is no store, or null. */
  public @Nullable Transfer pollUrgent() {
    for (int i = 0; i < STORE_LEVEL; i++) {
      Transfer transfer = queues[i].poll();
      if (transfer != null) {
        return transfer;
      }
    }
    return null;
  }

  /** The next store, or null. */
  public @Nullable Transfer pollStore() {
    return queues[STORE_LEVEL].poll();
  }

  /**
   * A worker hands on a transfer whose outcome is in it.
   *
   * @return whether it is finished: {@link #ringFinished} must follow; else it is on its last leg
   */
  public boolean finish(Transfer transfer) {
    LastLeg next = lastLeg;
    if (next == null || transfer.kind != Transfer.Kind.STORE || transfer.status != Status.OK) {
      finished.add(transfer);
      return true;
    }
    if (!next.offer(transfer)) {
      throw new IllegalStateException("the last leg has no room for all that can come");
    }
    return false;
  }

  /** Wakes the collecting thread for one or several finished transfers. */
  public void ringFinished() {
    finishedBell.run();
  }

  /** A worker will sleep if its next look finds no work; whoever brings some wakes it. */
  public void announceIdle(int worker) {
    idle.announce(worker);
  }

  /** A worker is awake. */
  public void retractIdle(int worker) {
    idle.retract(worker);
  }
}
