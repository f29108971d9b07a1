package io.kvtier.daemon;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.function.LongSupplier;

/**
 * Whether another thread had the processor about the time of a spin, instead of the thread that
 * spins. Reading the processor time of a thread is a system call. So it is read seldom: before a
 * spin, if the last reading is of no use any more, and after a long spin.
 */
final class SpinClock {
  /** A thread whose processor answers interrupts does not wait for so long. */
  private static final long DISPLACED_NS = 500_000;

  /** After this long, interrupts alone may have added up to {@link #DISPLACED_NS}. */
  private static final long READING_NS = 10_000_000;

  private final LongSupplier clock;
  private final LongSupplier processorTime;
  private long spinNs;
  private boolean hasSlept = true;
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
  }

  /** A clock of the thread that calls it. */
  static SpinClock ofThisThread() {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    return new SpinClock(System::nanoTime, threads::getCurrentThreadCpuTime);
  }

  /** The thread has slept. */
  void wake() {
    hasSlept = true;
  }

  /** A spin begins. */
  void begin(long nowNs) {
    spinNs = nowNs;
    if (hasSlept || nowNs - readNs >= READING_NS) {
      hasSlept = false;
      read(nowNs);
    }
  }

  private void read(long nowNs) {
    readNs = nowNs;
    readProcessorNs = processorTime.getAsLong();
  }

  /** Whether another thread had the processor; asked at the end of the spin. */
  boolean isDisplaced() {
    long nowNs = clock.getAsLong();
    if (nowNs - spinNs < DISPLACED_NS) {
      return false;
    }
    long beforeNs = readNs;
    long beforeProcessorNs = readProcessorNs;
    read(nowNs);
    return readNs - beforeNs - (readProcessorNs - beforeProcessorNs) >= DISPLACED_NS;
  }
}
