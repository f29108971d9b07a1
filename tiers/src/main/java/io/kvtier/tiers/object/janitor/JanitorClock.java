package io.kvtier.tiers.object.janitor;

import java.util.concurrent.locks.LockSupport;

/** A clock of durations, and how to let time pass. */
interface JanitorClock {
  /** The machine's. */
  JanitorClock SYSTEM =
      new JanitorClock() {
        @Override
        public long nanoTime() {
          return System.nanoTime();
        }

        @Override
        public void park(long ns) {
          LockSupport.parkNanos(ns);
        }
      };

  long nanoTime();

  /** Lets at most so much time pass; less when the thread is unparked. */
  void park(long ns);
}
