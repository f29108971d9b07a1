package io.kvtier.tiers.transfer;

import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A pipeline of threads, each of which carries out one transfer at a time, by priority. Offered to
 * and collected from by one thread, the index.
 */
public final class ThreadedPipeline extends QueuedPipeline {
  private static final Logger LOG = LoggerFactory.getLogger(ThreadedPipeline.class);
  private static final long CLOSE_MS = 5_000;

  /**
   * The threads.
   *
   * @param name the beginning of their names
   * @param atStart what each of them does first
   */
  public record Workers(String name, int count, Runnable atStart) {}

  private final Leg leg;
  private final Runnable atStart;
  private final Consumer<Throwable> defect;
  private final TransferQueues queues;
  private final Thread[] threads;
  private volatile boolean running = true;

  /**
   * Starts the threads.
   *
   * @param depth the most transfers in flight
   * @param lastLeg where stores go on to, or null when the leg does all
   * @param finishedBell wakes the collecting thread; called after each transfer
   * @param defect told of what a leg threw, which it never should: its transfer will not come back
   */
  public ThreadedPipeline(
      String name,
      int threadCount,
      int depth,
      Leg leg,
      @Nullable LastLeg lastLeg,
      Runnable finishedBell,
      Consumer<Throwable> defect) {
    this(new Workers(name, threadCount, () -> {}), depth, leg, lastLeg, finishedBell, defect);
  }

  /**
   * Starts the threads.
   *
   * @param depth the most transfers in flight
   * @param lastLeg where stores go on to, or null when the leg does all
   * @param finishedBell wakes the collecting thread; called after each transfer
   * @param defect told of what a leg threw, which it never should: its transfer will not come back
   */
  public ThreadedPipeline(
      Workers workers,
      int depth,
      Leg leg,
      @Nullable LastLeg lastLeg,
      Runnable finishedBell,
      Consumer<Throwable> defect) {
    this.leg = leg;
    atStart = workers.atStart();
    this.defect = defect;
    threads = new Thread[workers.count()];
    queues =
        new TransferQueues(
            depth,
            workers.count(),
            worker -> LockSupport.unpark(threads[worker]),
            lastLeg,
            finishedBell);
    for (int i = 0; i < workers.count(); i++) {
      int worker = i;
      threads[i] =
          Thread.ofPlatform().daemon().name(workers.name() + "-" + i).start(() -> work(worker));
    }
  }

  @Override
  protected TransferQueues queues() {
    return queues;
  }

  private void work(int worker) {
    try {
      atStart.run();
      serve(worker);
    } catch (Throwable t) {
      defect.accept(t);
    }
  }

  private void serve(int worker) {
    while (running) {
      Transfer transfer = queues.poll();
      if (transfer == null) {
        queues.announceIdle(worker);
        transfer = queues.poll();
        if (transfer == null) {
          if (running) {
            LockSupport.park(this);
          }
          queues.retractIdle(worker);
          continue;
        }
        queues.retractIdle(worker);
      }
      long start = System.nanoTime();
      leg.run(transfer);
      transfer.elapsedNs = System.nanoTime() - start;
      if (queues.finish(transfer)) {
        queues.ringFinished();
      }
    }
  }

  @Override
  public void close() {
    running = false;
    for (Thread thread : threads) {
      LockSupport.unpark(thread);
    }
    for (Thread thread : threads) {
      if (!Joining.within(thread, CLOSE_MS)) {
        LOG.warn("{} does not end", thread.getName());
      }
    }
  }
}
