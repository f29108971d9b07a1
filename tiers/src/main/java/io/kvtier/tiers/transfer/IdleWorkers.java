package io.kvtier.tiers.transfer;

import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.AtomicIntegerArray;

/**
 * Which of a pipeline's threads sleep, or are about to. A worker announces itself, looks for work
 * once more, and only then sleeps; who brings work queues it first, and then takes a sleeper to
 * wake. One of the two sees the other.
 */
public final class IdleWorkers {
  /** All are awake. */
  public static final int NONE = -1;

  private final AtomicIntegerArray idle;

  /** That many, all awake. */
  public IdleWorkers(int workers) {
    idle = new AtomicIntegerArray(workers);
  }

  /** The worker will sleep if its next look finds no work. */
  public void announce(int worker) {
    idle.set(worker, 1);
  }

  /** The worker is awake. */
  public void retract(int worker) {
    idle.set(worker, 0);
  }

  /** A worker to wake for what was queued before, or {@link #NONE} when all are awake. */
  public int takeOne() {
    // The queue publishes with release only: without the fence this look could come before the
    // work is visible, and the worker's last look too.
    VarHandle.fullFence();
    for (int i = 0; i < idle.length(); i++) {
      if (idle.get(i) == 1 && idle.compareAndSet(i, 1, 0)) {
        return i;
      }
    }
    return NONE;
  }
}
