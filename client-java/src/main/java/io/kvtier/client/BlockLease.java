package io.kvtier.client;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;

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
public final class BlockLease implements AutoCloseable {
  private final Operations operations;
  private final Request request = new Request(Verb.ACQUIRE, 0);
  private final BlockView block = new BlockView();

  BlockLease(Operations operations) {
    this.operations = operations;
  }

  /** Leases one block of a batch of keys; OK when it is leased. */
  public Status acquire(Namespace namespace, Keys keys, int index, Options options) {
    if (block.isShown()) {
      throw new IllegalStateException("this holds a lease already: release it first");
    }
    keys.checkIndex(index);
    Session current = operations.connector().current();
    if (current == null) {
      current = operations.connector().session(operations.deadlineNs(options));
    }
    if (current == null) {
      return Status.UNAVAILABLE;
    }
    Namespace.Registration registration = namespace.registration(current);
    if (registration.status() != Status.OK) {
      return registration.status();
    }
    operations.fillAcquire(request, registration.id(), keys, index, options);
    Call submitted = current.submit(request, true);
    if (submitted == null) {
      return current.isAlive() ? Status.BUSY : Status.UNAVAILABLE;
    }
    Call answered = current.await(submitted);
    Status status = answered.blockStatus(0);
    if (status != Status.OK) {
      current.free(answered);
      return status;
    }
    status = block.show(current, answered);
    if (status != Status.OK) {
      current.release(answered, false);
    }
    return status;
  }

  /** The block that is leased. */
  public BlockView block() {
    return block;
  }

  /**
   * Ends the lease without waiting.
   *
   * @return whether it still held, so that what was read counts
   */
  public boolean release() {
    boolean counts = !block.hasEnded();
    close();
    return counts;
  }

  /** As {@link #release}, for less: what was read is not looked at again. */
  @Override
  public void close() {
    Session session = block.session();
    Call call = block.callOrNull();
    if (session != null && call != null) {
      boolean corrupt = block.isCorrupt();
      block.hide();
      session.release(call, corrupt);
    }
  }
}
