package io.kvtier.client.internal.local;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.Options;
import io.kvtier.client.RequestContext;
import io.kvtier.client.internal.shared.CopyArguments;
import io.kvtier.client.internal.shared.Outcome;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.BlockCoder;
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
  private static final Copies COPIES = Copies.OF_THIS_MACHINE;
  private static final BlockCoder CODER = BlockCoder.OF_THIS_MACHINE;

  private final Operations operations;
  private final Submitter submitter;
  private final Registrar namespace;
  private final Keys keys;
  private final List<MemorySegment> destinations;
  private final Options options;
  private final long deadlineNs;

  /** The trace context of all windows, also of those that another thread begins. */
  private final @Nullable TraceContext context = RequestContext.current();

  private final int windowBlocks;
  private final Outcome outcome;

  // Under this object's lock.
  private final List<Window> inFlight = new ArrayList<>();
  private int next;

  /** One past the last block that is asked for. */
  private int end;

  /** A window that is being acquired. */
  private record Window(int from, Operation acquire) {}

  Get(
      Operations operations,
      Registrar namespace,
      Keys keys,
      List<MemorySegment> destinations,
      Options options) {
    this.operations = operations;
    this.submitter = operations.submitter();
    this.namespace = namespace;
    this.keys = keys;
    this.destinations = destinations;
    this.options = options;
    this.deadlineNs = operations.submitter().deadlineNs(options);
    this.windowBlocks =
        Math.clamp(WINDOW_BYTES / namespace.properties().blockBytes(), 1, Protocol.KEYS_MAX);
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
        settle(first, submitter.await(first.acquire, this::leases));
      }
    } finally {
      // Only after misuse: what is in flight is waited for, and given back.
      if (!ahead.isEmpty()) {
        endAt(0);
      }
      for (Window window : ahead) {
        submitter.await(window.acquire, this::leases).close();
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
    OperationFuture<LocalLeases> acquired =
        submitter.async(
            listener -> {
              window[0] = start(from, listener);
              return window[0].acquire;
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

  private static void closeUnread(CompletableFuture<LocalLeases> acquired) {
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

  private Window start(int from, @Nullable Consumer<Operation> listener) {
    Operation acquire =
        Operations.in(
            context,
            () ->
                operations.keys(
                    Verb.ACQUIRE,
                    namespace,
                    keys.slice(from, to(from)),
                    CopyArguments.at(options, keys, from),
                    deadlineNs,
                    listener));
    Window window = new Window(from, acquire);
    boolean wanted;
    synchronized (this) {
      wanted = from < end;
      inFlight.add(window);
    }
    if (!wanted) {
      acquire.cancel();
    }
    return window;
  }

  private LocalLeases leases(Operation acquired) {
    return new LocalLeases(operations, acquired, options, null);
  }

  private void settle(Window window, LocalLeases leases) {
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
            status == Status.OK ? copyOut(leases, i, destinations.get(from + i)) : status,
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

  /**
   * Copies one leased block out, and says whether the copy counts. After the last copy it counts no
   * longer if the leases are cut off.
   */
  private Status copyOut(LocalLeases leases, int index, MemorySegment destination) {
    MemorySegment source = leases.segment(index);
    BlockEncoding encoding = leases.isEncoded(index) ? namespace.properties().encoding() : null;
    long bytes = encoding == null ? source.byteSize() : encoding.rawBytes();
    if (bytes > destination.byteSize()) {
      return Status.TOO_LARGE;
    }
    boolean matches = true;
    if (encoding != null) {
      matches = leases.matches(index, CODER.decode(encoding, source, destination));
    } else if (leases.mustVerify(index)) {
      // The copy is verified, not the source: it is what the caller keeps.
      matches = leases.matches(index, COPIES.copyWithChecksum(source, destination));
    } else {
      COPIES.copy(source, destination);
    }
    if (leases.seemsEnded()) {
      return Status.STALE;
    }
    return matches ? Status.OK : Status.CORRUPT;
  }

  /** Ends the get before a block: acquires of later blocks are cancelled. */
  private void endAt(int block) {
    List<Window> unwanted;
    synchronized (this) {
      end = Math.min(end, block);
      unwanted = inFlight.stream().filter(window -> window.from >= end).toList();
    }
    for (Window window : unwanted) {
      window.acquire.cancel();
    }
  }

  private synchronized BatchResult result() {
    outcome.rest(end, Status.MISS);
    return outcome.result();
  }
}
