package io.kvtier.tiers.transfer;

import java.util.function.Consumer;

/**
 * Where a pipeline's stores go on to when they are written, and what is to be forgotten goes at
 * once; on a thread of its own. What is done is handed back to the pipeline.
 */
public interface LastLeg {
  /** The most transfers that can be on their way. */
  int capacity();

  /**
   * Begins; called once, by the pipeline, which takes from then on what is done, on any thread.
   *
   * @param afterSome called when one or several are done
   */
  void start(Consumer<Transfer> done, Runnable afterSome);

  /**
   * Takes a transfer; from any thread, in the order in which they come.
   *
   * @return false when there is no room
   */
  boolean offer(Transfer transfer);
}
