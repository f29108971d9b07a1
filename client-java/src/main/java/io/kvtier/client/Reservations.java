package io.kvtier.client;

import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.CompletableFuture;

/**
 * Slots to write blocks into. Write each whole block, then commit; never write to a slot after its
 * commit. Closing gives back what was not committed. The slots stay reserved until then, also when
 * the client is closed meanwhile.
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

  /** How many are reserved. */
  int granted();

  Status status(int index);

  boolean isReserved(int index);

  /** Where to write a reserved block. */
  MemorySegment segment(int index);

  /**
   * Makes the reserved blocks visible.
   *
   * @param commitOptions of which the timeout counts
   * @return per block asked for: OK once it is visible, STALE when the reservation had ended, or
   *     why it was not reserved
   */
  CompletableFuture<BatchResult> commit(Options commitOptions);

  /** As the other, with the timeout that the reservation had. */
  CompletableFuture<BatchResult> commit();

  /** As {@link #commit(Options)}, waiting for it. */
  BatchResult commitAndWait(Options commitOptions);

  /** As the other, with the timeout that the reservation had. */
  BatchResult commitAndWait();

  /** Gives back the slots, without waiting; does nothing after a commit. */
  void abort();

  @Override
  void close();
}
