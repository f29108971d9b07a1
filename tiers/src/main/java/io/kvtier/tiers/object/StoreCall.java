package io.kvtier.tiers.object;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One call on an {@link ObjectStore} on its way. It ends once, with a value.
 *
 * <p>A client's threads may still be at work on a call that was given up. So they get the caller's
 * memory as views of a gate, an arena that is closed when the call ends in any way but well: from
 * then on every access through a view throws, and the caller may use its memory for something else.
 * The gate costs nothing where a call goes well; closing it stops all threads for some µs.
 */
public final class StoreCall {
  private final CompletableFuture<StoreResult> result = new CompletableFuture<>();
  private final AtomicBoolean ended = new AtomicBoolean();
  private final Arena gate = Arena.ofShared();
  private volatile @Nullable Runnable abort;
  private volatile @Nullable Future<?> timeout;

  /** A call that has not begun, and expires by itself. */
  StoreCall(ScheduledExecutorService timer, long timeoutNs) {
    if (timeoutNs <= 0) {
      end(new StoreResult.Expired());
      return;
    }
    timeout = timer.schedule(() -> end(new StoreResult.Expired()), timeoutNs, TimeUnit.NANOSECONDS);
    if (ended.get()) {
      dropTimeout();
    }
  }

  /** A call that has ended, or is ended by whoever made it. */
  StoreCall() {}

  /** A call that is over before it began. */
  public static StoreCall of(StoreResult result) {
    StoreCall call = new StoreCall();
    call.end(result);
    return call;
  }

  /** Completes with the outcome, never with an exception; on any thread. */
  public CompletableFuture<StoreResult> result() {
    return result;
  }

  /** Has the outcome given to a consumer, on any thread, at once where there is one. */
  public void whenEnded(Consumer<StoreResult> consumer) {
    var _ = result.thenAccept(consumer);
  }

  /** Gives up; the outcome is there when this returns, and nobody touches the memory any more. */
  public void cancel() {
    if (!end(new StoreResult.Cancelled())) {
      // Another thread may be just about to end it: the gate is closed before the outcome is there.
      var _ = result.join();
    }
  }

  boolean hasEnded() {
    return ended.get();
  }

  /** What to do to make the client's work end, when the call ends before it. */
  void onAbort(Runnable runnable) {
    abort = runnable;
    if (ended.get()) {
      runnable.run();
    }
  }

  /** The caller's memory, which can be accessed until the call has ended. */
  @SuppressWarnings("restricted") // the view ends before the caller gets its memory back
  MemorySegment view(MemorySegment memory) {
    return memory.reinterpret(gate, null);
  }

  /** {@link #view} of several. */
  List<MemorySegment> views(List<MemorySegment> parts) {
    List<MemorySegment> views = new ArrayList<>(parts.size());
    for (MemorySegment part : parts) {
      views.add(view(part));
    }
    return views;
  }

  /**
   * Ends the call, unless it has ended.
   *
   * @return whether it was this that ended it
   */
  boolean end(StoreResult outcome) {
    if (!ended.compareAndSet(false, true)) {
      return false;
    }
    dropTimeout();
    if (!(outcome instanceof StoreResult.Done)) {
      closeGate();
      Runnable toAbort = abort;
      if (toAbort != null) {
        toAbort.run();
      }
    }
    result.complete(outcome);
    return true;
  }

  private void dropTimeout() {
    Future<?> pending = timeout;
    if (pending != null) {
      pending.cancel(false);
    }
  }

  /** Waits where a native call has a view in hand: such calls only compute. */
  private void closeGate() {
    while (true) {
      try {
        gate.close();
        return;
      } catch (IllegalStateException e) {
        Thread.onSpinWait();
      }
    }
  }
}
