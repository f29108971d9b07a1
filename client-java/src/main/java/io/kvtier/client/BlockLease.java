package io.kvtier.client;

import io.kvtier.protocol.Status;

/**
 * One lease at a time, without garbage: acquire, read, release, again. The calling thread waits.
 * Confined to one thread.
 *
 * <pre>{@code
 * if (lease.acquire(namespace, keys, i, options) == Status.OK) {
 *   ... read lease.block()
 *   boolean counts = lease.release();
 * }
 * }</pre>
 */
public interface BlockLease extends AutoCloseable {
  /** Leases one block of a batch of keys; OK when it is leased. */
  Status acquire(Namespace namespace, Keys keys, int index, Options options);

  /** The block that is leased. */
  BlockView block();

  /**
   * Ends the lease without waiting.
   *
   * @return whether the lease still held, so that bytes that were read count
   */
  boolean release();

  /** Ends the lease like {@link #release}, and does not check whether it still held. */
  @Override
  void close();
}
