package io.kvtier.tiers.transfer;

import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.jctools.queues.atomic.MpscAtomicArrayQueue;
import org.jctools.queues.atomic.SpmcAtomicArrayQueue;
import org.jspecify.annotations.Nullable;

/**
 * A pipeline of threads that take transfers by priority: loads of every urgency before stores, so
 * that nobody who waits for a block waits behind a write. Offered to and collected from by one
 * thread, the index.
 */
public final class ThreadedPipeline implements Pipeline {
  /** Queues: one for each priority of a load or checksum, and the last for stores. */
  private static final int LEVELS = 4;

  private static final int STORE_LEVEL = 3;

  private final Leg leg;
  private final Runnable finishedBell;
  private final Consumer<Throwable> defect;
  private final int depth;
  private final SpmcAtomicArrayQueue<Transfer>[] queues;
  private final MpscAtomicArrayQueue<Transfer> finished;
  private final Thread[] threads;
  private final IdleWorkers idle;
  private volatile boolean running = true;
  private int inFlight;

  /**
   * Starts the threads.
   *
   * @param depth the most transfers in flight
   * @param finishedBell wakes the collecting thread; called after each transfer
   * @param defect told of what a leg threw, which it never should: its transfer will not come back
   */
  @SuppressWarnings({"unchecked", "rawtypes"}) // an array of generic queues
  public ThreadedPipeline(
      String name,
      int threadCount,
      int depth,
      Leg leg,
      Runnable finishedBell,
      Consumer<Throwable> defect) {
    this.leg = leg;
    this.defect = defect;
    this.finishedBell = finishedBell;
    this.depth = depth;
    queues = new SpmcAtomicArrayQueue[LEVELS];
    for (int i = 0; i < LEVELS; i++) {
      queues[i] = new SpmcAtomicArrayQueue<>(Math.max(2, depth));
    }
    finished = new MpscAtomicArrayQueue<>(Math.max(2, depth));
    idle = new IdleWorkers(threadCount);
    threads = new Thread[threadCount];
    for (int i = 0; i < threadCount; i++) {
      int worker = i;
      threads[i] = Thread.ofPlatform().daemon().name(name + "-" + i).start(() -> work(worker));
    }
  }

  @Override
  public boolean offer(Transfer transfer) {
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
      LockSupport.unpark(threads[sleeper]);
    }
    return true;
  }

  @Override
  public int collect(Consumer<Transfer> sink) {
    int count = 0;
    for (Transfer transfer = finished.poll(); transfer != null; transfer = finished.poll()) {
      inFlight--;
      count++;
      sink.accept(transfer);
    }
    return count;
  }

  @Override
  public boolean hasFinished() {
    return !finished.isEmpty();
  }

  @Override
  public int inFlight() {
    return inFlight;
  }

  private void work(int worker) {
    try {
      serve(worker);
    } catch (Throwable t) {
      defect.accept(t);
    }
  }

  private void serve(int worker) {
    while (running) {
      Transfer transfer = next();
      if (transfer == null) {
        idle.announce(worker);
        transfer = next();
        if (transfer == null) {
          if (running) {
            LockSupport.park(this);
          }
          idle.retract(worker);
          continue;
        }
        idle.retract(worker);
      }
      long start = System.nanoTime();
      leg.run(transfer);
      transfer.elapsedNs = System.nanoTime() - start;
      finished.add(transfer);
      finishedBell.run();
    }
  }

  private @Nullable Transfer next() {
    for (SpmcAtomicArrayQueue<Transfer> queue : queues) {
      Transfer transfer = queue.poll();
      if (transfer != null) {
        return transfer;
      }
    }
    return null;
  }

  @Override
  public void close() {
    running = false;
    for (Thread thread : threads) {
      LockSupport.unpark(thread);
    }
    for (Thread thread : threads) {
      try {
        thread.join(5_000);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return;
      }
    }
  }
}
