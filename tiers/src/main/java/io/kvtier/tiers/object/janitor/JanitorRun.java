package io.kvtier.tiers.object.janitor;

/** One task's work, on the janitor's thread. */
interface JanitorRun {
  /** Returns when all is done. */
  void run(JanitorCalls calls, Tally tally) throws RunEnd;
}
