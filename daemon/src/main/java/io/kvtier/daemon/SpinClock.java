package io.kvtier.daemon;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.function.LongSupplier;

/**
 * Whether another thread had the processor during a spin, instead of the thread that spins. The
 * thread's processor time is read only after sleeps and long spins, because that takes longer than
 * a look for work.
 */
final class SpinClock {
  /** Longer than a thread waits whose processor only answers interrupts. */
  private static final long DISPLACED_NS = 500_000;

  private final LongSupplier clock;
  private final LongSupplier processorTime;
  private long spinNs;
  private long readNs;
  private long readProcessorNs;

  /**
   * A clock of one thread.
   *
   * @param processorTime for how long the thread has had a processor, ns
   */
  SpinClock(LongSupplier clock, LongSupplier processorTime) {
    this.clock = clock;
    this.processorTime = processorTime;
    wake();
  }

  /** A clock of the thread that calls it. */
  static SpinClock ofThisThread() {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    return new SpinClock(System::nanoTime, threads::getCurrentThreadCpuTime);
  }

  /** The thread has slept. */
  void wake() {
    readNs = clock.getAsLong();
    readProcessorNs = processorTime.getAsLong();
  }

  /** A spin begins. */
  void begin(long nowNs) {
    spinNs = nowNs;
  }

  /** Whether another thread had the processor since the spin began. */
  boolean isDisplaced() {
    if (clock.getAsLong() - spinNs < DISPLACED_NS) {
      return false;
    }
    long beforeNs = readNs;
    long beforeProcessorNs = readProcessorNs;
    wake();
    return readNs - beforeNs - (readProcessorNs - beforeProcessorNs) >= DISPLACED_NS;
  }
}
