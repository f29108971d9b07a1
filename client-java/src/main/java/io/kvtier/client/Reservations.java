package io.kvtier.client;

import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.CompletableFuture;

/**
 * Slots to write blocks into. Write each whole block, then commit. Never write to a slot after its
 * commit. Closing gives back slots that were not committed. The slots stay reserved until then,
 * also if the client is closed before.
 */
public interface Reservations extends AutoCloseable {
  /** OK when the operation was carried out, whatever its blocks say; otherwise why not. */
  Status status();

  /** Why the operation was not carried out, in words. */
  String detail();

  /** The blocks' outcomes; OK: reserved. EXISTS and PENDING: nothing to do. */
  Blocks blocks();

  /** How many blocks were asked for. */
  int count();

  /** How many blocks are reserved. */
  int granted();

  Status status(int index);

  boolean isReserved(int index);

  /** Where to write a reserved block. */
  MemorySegment segment(int index);

  /**
   * Makes the reserved blocks visible.
   *
   * @param commitOptions only the timeout counts
   * @return for each block asked for: OK when it is visible, STALE if the reservation had ended, or
   *     why it was not reserved
   */
  CompletableFuture<BatchResult> commit(Options commitOptions);

  /** {@link #commit(Options)} with the options of the reservation. */
  CompletableFuture<BatchResult> commit();

  /** {@link #commit(Options)}, and waits for the answer. */
  BatchResult commitAndWait(Options commitOptions);

  /** {@link #commitAndWait(Options)} with the options of the reservation. */
  BatchResult commitAndWait();

  /** Gives back the slots without waiting. Does nothing after a commit. */
  void abort();

  @Override
  void close();
}
