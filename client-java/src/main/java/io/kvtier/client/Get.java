package io.kvtier.client;

import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One get: its windows are acquired, some ahead, copied out and released. With {@link
 * Options#leadingRun} the first window with a block that is nowhere is the last: those ahead of it
 * are cancelled, and what was copied from them meanwhile does not count.
 *
 * <p>Windows may be settled by several threads, in any order.
 */
final class Get {
  // Small, as a get of more blocks than host memory has slots must not wait for its own leases.
  private static final long WINDOW_BYTES = 4L << 20;
  private static final int WINDOWS_AHEAD = 4;

  private final Operations operations;
  private final Namespace namespace;
  private final Keys keys;
  private final List<MemorySegment> destinations;
  private final Options options;
  private final long deadlineNs;

  /** What all windows are acquired in, also those that another thread begins. */
  private final @Nullable TraceContext context = RequestContext.current();

  private final int windowBlocks;
  private final Outcome outcome;

  // Under this object's lock.
  private final List<Window> inFlight = new ArrayList<>();
  private int next;

  /** From here on nothing is asked for any longer. */
  private int end;

  /** A window that is being acquired. */
  private record Window(int from, Batch batch) {}

  Get(
      Operations operations,
      Namespace namespace,
      Keys keys,
      List<MemorySegment> destinations,
      Options options) {
    this.operations = operations;
    this.namespace = namespace;
    this.keys = keys;
    this.destinations = destinations;
    this.options = options;
    this.deadlineNs = operations.deadlineNs(options);
    this.windowBlocks = Math.clamp(WINDOW_BYTES / namespace.blockBytes(), 1, Protocol.KEYS_MAX);
    this.outcome = new Outcome(keys.count());
    this.end = keys.count();
  }

  /** Carries the get out in the calling thread. */
  BatchResult run() {
    ArrayDeque<Window> ahead = new ArrayDeque<>();
    try {
      while (true) {
        for (int from = 0; ahead.size() < WINDOWS_AHEAD && from >= 0; ) {
          from = claim();
          if (from >= 0) {
            ahead.add(start(from, null));
          }
        }
        Window first = ahead.poll();
        if (first == null) {
          return result();
        }
        settle(first, operations.await(first.batch, this::leases));
      }
    } finally {
      // Only after misuse: what is in flight is waited for, and given back.
      if (!ahead.isEmpty()) {
        endAt(0);
      }
      for (Window window : ahead) {
        operations.await(window.batch, this::leases).close();
      }
    }
  }

  /**
   * Carries the get out while nobody waits.
   *
   * @param copies runs the copies
   */
  CompletableFuture<BatchResult> start(Executor copies) {
    OperationFuture<BatchResult> future = new OperationFuture<>();
    future.onCancel(() -> endAt(0));
    AtomicInteger lanes = new AtomicInteger(WINDOWS_AHEAD);
    for (int i = 0; i < WINDOWS_AHEAD; i++) {
      startNext(future, lanes, copies);
    }
    return future;
  }

  /** One window after the other, until there is none. */
  private void startNext(
      OperationFuture<BatchResult> future, AtomicInteger lanes, Executor copies) {
    int from = claim();
    if (from < 0) {
      if (lanes.decrementAndGet() == 0) {
        future.answer(result());
      }
      return;
    }
    Window[] window = new Window[1];
    OperationFuture<Leases> acquired =
        operations.async(
            listener -> {
              window[0] = start(from, listener);
              return window[0].batch;
            },
            this::leases);
    CompletableFuture<Void> ignored =
        acquired
            .thenAcceptAsync(leases -> settle(window[0], leases), copies)
            .whenComplete((nothing, failure) -> {
              if (failure != null) {
                endAt(0);
                future.completeExceptionally(failure);
                closeUnread(acquired);
              }
              startNext(future, lanes, copies);
            });
  }

  private static void closeUnread(CompletableFuture<Leases> acquired) {
    if (acquired.isDone() && !acquired.isCompletedExceptionally()) {
      acquired.join().close();
    }
  }

  /** The first block of the next window, or -1 when there is none. */
  private synchronized int claim() {
    if (next >= end) {
      return -1;
    }
    int from = next;
    next = to(from);
    return from;
  }

  private int to(int from) {
    return Math.min(keys.count(), from + windowBlocks);
  }

  private Window start(int from, @Nullable Consumer<Batch> listener) {
    Batch batch =
        RequestContext.resume(
            context,
            () ->
                operations.keys(
                    Verb.ACQUIRE,
                    namespace,
                    keys.slice(from, to(from)),
                    Transfers.at(options, keys, from),
                    deadlineNs,
                    listener));
    Window window = new Window(from, batch);
    boolean wanted;
    synchronized (this) {
      wanted = from < end;
      inFlight.add(window);
    }
    if (!wanted) {
      batch.cancel();
    }
    return window;
  }

  private Leases leases(Batch batch) {
    return Leases.read(operations, batch, options);
  }

  private void settle(Window window, Leases leases) {
    try (leases) {
      int from = window.from;
      synchronized (this) {
        inFlight.remove(window);
        if (from >= end) {
          return;
        }
      }
      if (options.leadingRun() && leases.blocks().count(Status.MISS) > 0) {
        endAt(from + leases.count());
      }
      outcome.note(leases.status(), leases.detail());
      for (int i = 0; i < leases.count(); i++) {
        Status status = leases.status(i);
        outcome.set(
            from + i,
            status == Status.OK ? Transfers.copyOut(leases, i, destinations.get(from + i)) : status,
            leases.blocks().tier(i));
      }
      if (leases.isCutOff()) {
        for (int i = 0; i < leases.count(); i++) {
          if (leases.status(i) == Status.OK) {
            outcome.set(from + i, Status.STALE, leases.blocks().tier(i));
          }
        }
      }
    }
  }

  /** Nothing from that block on is wanted: what is asked for already is cancelled. */
  private void endAt(int block) {
    List<Window> unwanted;
    synchronized (this) {
      end = Math.min(end, block);
      unwanted = inFlight.stream().filter(window -> window.from >= end).toList();
    }
    for (Window window : unwanted) {
      window.batch.cancel();
    }
  }

  private synchronized BatchResult result() {
    outcome.rest(end, Status.MISS);
    return outcome.result();
  }
}
