package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Sleeping and waking on a 32-bit word of shared memory, across processes ({@code futex(2)}).
 * Spurious returns are normal: the caller re-checks its condition.
 */
public final class Futex {
  private static final long SYS_FUTEX = Machine.current().futexCall();
  private static final int FUTEX_WAIT = 0;
  private static final int FUTEX_WAKE = 1;
  private static final ThreadLocal<MemorySegment> TIMEOUT =
      ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(16, 8));

  private Futex() {}

  /**
   * Sleeps while the word holds {@code expected}, for at most {@code timeoutNs} nanoseconds.
   *
   * @param word a mapped segment that stays alive during the call
   * @param offset the word's byte offset, a multiple of 4
   */
  public static void await(MemorySegment word, long offset, int expected, long timeoutNs) {
    MemorySegment timeout = TIMEOUT.get();
    timeout.set(JAVA_LONG, 0, timeoutNs / 1_000_000_000L);
    timeout.set(JAVA_LONG, 8, timeoutNs % 1_000_000_000L);
    try {
      long ignored =
          (long)
              Libc.FUTEX_UNCHECKED.invokeExact(
                  SYS_FUTEX, word.address() + offset, FUTEX_WAIT, expected, timeout, 0L, 0);
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** Wakes at most {@code waiters} sleepers on the word. */
  public static void wake(MemorySegment word, long offset, int waiters) {
    try {
      long ignored =
          (long)
              Libc.FUTEX_UNCHECKED.invokeExact(
                  SYS_FUTEX,
                  word.address() + offset,
                  FUTEX_WAKE,
                  waiters,
                  MemorySegment.NULL,
                  0L,
                  0);
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }
}
