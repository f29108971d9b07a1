package io.kvtier.client;

import io.kvtier.protocol.Status;

/**
 * Many single-block acquires in flight at once, without garbage. Offers wait until {@link #flush},
 * which shows them to the daemon together. {@link #drain} hands out the answers in the order of the
 * offers, and releases the leases together. Confined to one thread.
 */
public interface LeasePipeline extends AutoCloseable {
  /** Takes the answers. */
  @FunctionalInterface
  interface Handler {
    /**
     * One block's answer.
     *
     * @param tag the tag that was given with the offer
     * @param block the block, where the status is OK; only during this call
     */
    void onBlock(long tag, Status status, BlockView block);
  }

  /** How many acquires are in flight. */
  int size();

  /**
   * Adds an acquire of one block of a batch of keys.
   *
   * @return OK; BUSY when the pipeline or the ring is full: flush and drain; or why there is no
   *     daemon to ask
   */
  Status offer(Keys keys, int index, long tag);

  /** Shows all offers to the daemon. */
  void flush();

  /**
   * Hands out the answers that have come, up to the first that has not.
   *
   * @param atLeast waits until that many answers are handed out, or nothing is in flight
   * @return how many answers were handed out
   */
  int drain(Handler handler, int atLeast);

  /** Waits for the acquires in flight, and releases their leases. */
  @Override
  void close();
}
