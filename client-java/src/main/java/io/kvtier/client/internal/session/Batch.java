package io.kvtier.client.internal.session;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * The calls of one operation: one, or several where its keys are too many for one request. The
 * receiver answers an asynchronous batch. The thread that submitted another batch waits for it.
 */
public abstract class Batch {
  private final int count;
  private final int chunk;
  private final Call[] calls;
  private final AtomicInteger open;

  /**
   * A batch whose calls are to be submitted.
   *
   * @param count the keys or ids of all calls
   * @param chunk the keys or ids of each call but the last
   */
  protected Batch(int count, int chunk) {
    this.count = count;
    this.chunk = chunk;
    int chunks = Math.max(1, Math.ceilDiv(count, chunk));
    this.calls = new Call[chunks];
    this.open = new AtomicInteger(chunks);
  }

  /** Whether the receiver answers this batch. */
  protected abstract boolean isAsync();

  /** Hands the answer of an asynchronous batch over. */
  protected abstract void tellDone();

  /** The keys or ids of all calls. */
  public final int count() {
    return count;
  }

  /** The keys or ids of each call but the last. */
  public final int chunk() {
    return chunk;
  }

  /** The keys or ids of one call. */
  public final int chunkCount(int index) {
    return Math.min(chunk, count - index * chunk);
  }

  /** How many calls there are. */
  public final int calls() {
    return calls.length;
  }

  public final Call call(int index) {
    return calls[index];
  }

  /** Sets a call, or the answer that stands for it. */
  public final void call(int index, Call call) {
    calls[index] = call;
  }

  Call[] array() {
    return calls;
  }

  /** Counts one call as answered; true for the last. */
  boolean closeOne() {
    return open.decrementAndGet() == 0;
  }
}
