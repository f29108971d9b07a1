package io.kvtier.client;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import org.jspecify.annotations.Nullable;

/**
 * Many single-block acquires in flight at once, each with an answer of its own, without garbage.
 * Offers gather until {@link #flush}, which shows them to the daemon with one publication and one
 * doorbell; {@link #drain} hands out the answers in the order of the offers, and releases the
 * leases together. Confined to one thread.
 */
public final class LeasePipeline implements AutoCloseable {
  /** Takes the answers. */
  @FunctionalInterface
  public interface Handler {
    /**
     * One block's answer.
     *
     * @param tag what was given with the offer
     * @param block the block, where the status is OK; only during this call
     */
    void onBlock(long tag, Status status, BlockView block);
  }

  private final Operations operations;
  private final Namespace namespace;
  private final Options options;
  private final Request request = new Request(Verb.ACQUIRE, 0);
  private final BlockView block = new BlockView();
  private final int capacity;
  private final @Nullable Call[] calls;
  private final long[] tags;
  private final Call[] read;
  private final long[] ids;
  private final long[] corruptId = new long[1];
  private @Nullable Session session;
  private int head;
  private int size;
  private int readCount;
  private int idCount;

  LeasePipeline(Operations operations, Namespace namespace, int capacity, Options options) {
    if (capacity < 1) {
      throw new IllegalArgumentException("a pipeline takes at least one acquire, not " + capacity);
    }
    this.operations = operations;
    this.namespace = namespace;
    this.options = options;
    this.capacity = capacity;
    this.calls = new Call[capacity];
    this.tags = new long[capacity];
    this.read = new Call[capacity];
    this.ids = new long[capacity];
  }

  /** How many are in flight. */
  public int size() {
    return size;
  }

  /**
   * Adds an acquire of one block of a batch of keys.
   *
   * @return OK; BUSY when the pipeline or the ring is full: flush and drain; or why there is no
   *     daemon to ask
   */
  public Status offer(Keys keys, int index, long tag) {
    keys.checkIndex(index);
    if (size == capacity) {
      return Status.BUSY;
    }
    Session current = session;
    if (size == 0 || current == null) {
      current = operations.connector().current();
      session = current;
      if (current == null) {
        return Status.UNAVAILABLE;
      }
    }
    Namespace.Registration registration = namespace.registration(current);
    if (registration.status() != Status.OK) {
      return registration.status();
    }
    operations.fillAcquire(request, registration.id(), keys, index, options);
    Call call = current.submit(request, false);
    if (call == null) {
      return current.isAlive() ? Status.BUSY : Status.UNAVAILABLE;
    }
    int at = (head + size) % capacity;
    calls[at] = call;
    tags[at] = tag;
    size++;
    return Status.OK;
  }

  /** Shows the daemon all that was offered. */
  public void flush() {
    Session some = session;
    if (some != null) {
      some.flush();
    }
  }

  /**
   * Hands out the answers that are there, up to the first that is not.
   *
   * @param atLeast waits until that many are handed out, or nothing is in flight
   * @return how many were handed out
   */
  public int drain(Handler handler, int atLeast) {
    Session some = session;
    if (some == null || size == 0) {
      return 0;
    }
    some.poll();
    int handedOut = 0;
    try {
      while (size > 0) {
        Call call = calls[head];
        if (call == null) {
          break;
        }
        if (!call.isDone()) {
          if (handedOut >= atLeast) {
            break;
          }
          // No lease is held while waiting.
          giveBack(some);
          some.flush();
          call = some.await(call);
        }
        long tag = tags[head];
        calls[head] = null;
        head = head + 1 == capacity ? 0 : head + 1;
        size--;
        handedOut++;
        read[readCount++] = call;
        handOut(some, call, tag, handler);
      }
    } finally {
      giveBack(some);
    }
    return handedOut;
  }

  private void handOut(Session some, Call call, long tag, Handler handler) {
    Status status = call.blockStatus(0);
    boolean leased = status == Status.OK;
    if (leased) {
      status = block.show(some, call);
    }
    try {
      handler.onBlock(tag, status, block);
    } finally {
      if (leased && block.isCorrupt()) {
        corruptId[0] = call.holdId(0);
        some.giveBackCorrupt(corruptId, 1, call.context);
      } else if (leased) {
        ids[idCount++] = call.holdId(0);
      }
      block.hide();
    }
  }

  private void giveBack(Session some) {
    if (readCount > 0) {
      if (idCount > 0) {
        some.giveBack(Verb.RELEASE, ids, idCount);
      }
      some.free(read, readCount);
      readCount = 0;
      idCount = 0;
    }
  }

  /** Waits for what is in flight, and gives it back. */
  @Override
  public void close() {
    int ignored = drain((tag, status, view) -> {}, Integer.MAX_VALUE);
  }
}
