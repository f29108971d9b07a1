package io.kvtier.tiers.ledger;

import io.kvtier.tiers.transfer.LastLeg;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.jctools.queues.atomic.MpscAtomicArrayQueue;

/**
 * The thread on which a device's ledger is written: takes whatever has come meanwhile as one group.
 * A ledger that stalls holds up nobody's reads.
 */
public final class LedgerThread implements LastLeg, AutoCloseable {
  private static final int GROUP_MAX = 256;
  private static final long RETRY_NS = 100_000_000;

  private final LedgerLeg leg;
  private final Consumer<Throwable> defect;
  private final MpscAtomicArrayQueue<Transfer> queue;
  private final Thread thread;
  private Consumer<Transfer> done = transfer -> {};
  private volatile boolean sleeps;
  private volatile boolean running = true;

  /**
   * A thread that is yet to be started.
   *
   * @param capacity the most transfers that can be on their way
   */
  public LedgerThread(String name, LedgerLeg leg, int capacity, Consumer<Throwable> defect) {
    this.leg = leg;
    this.defect = defect;
    queue = new MpscAtomicArrayQueue<>(Math.max(2, capacity));
    thread = Thread.ofPlatform().daemon().name(name).unstarted(this::work);
  }

  @Override
  public int capacity() {
    return queue.capacity();
  }

  @Override
  public void start(Consumer<Transfer> whenDone) {
    done = whenDone;
    thread.start();
  }

  @Override
  public boolean offer(Transfer transfer) {
    if (!queue.offer(transfer)) {
      return false;
    }
    // The volatile read must not come before the transfer is visible.
    VarHandle.fullFence();
    if (sleeps) {
      LockSupport.unpark(thread);
    }
    return true;
  }

  private void work() {
    try {
      List<Transfer> group = new ArrayList<>(GROUP_MAX);
      while (true) {
        for (Transfer next = queue.poll(); next != null; next = queue.poll()) {
          group.add(next);
          if (group.size() == GROUP_MAX) {
            break;
          }
        }
        if (group.isEmpty()) {
          if (!running) {
            return;
          }
          if (sleep()) {
            continue;
          }
        }
        leg.run(group, done);
        group.clear();
      }
    } catch (Throwable t) {
      defect.accept(t);
    }
  }

  /** Sleeps until something comes; false when it is time to try again what is owed. */
  private boolean sleep() {
    sleeps = true;
    try {
      VarHandle.fullFence();
      if (!queue.isEmpty() || !running) {
        return true;
      }
      if (!leg.isOwing()) {
        LockSupport.park(this);
        return true;
      }
      LockSupport.parkNanos(this, RETRY_NS);
      return false;
    } finally {
      sleeps = false;
    }
  }

  /** Enters what is on its way, and ends. */
  @Override
  public void close() {
    running = false;
    LockSupport.unpark(thread);
    boolean interrupted = false;
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
