package io.kvtier.daemon.tracing;

import io.kvtier.daemon.index.RequestTold;
import io.kvtier.protocol.TraceContext;
import io.kvtier.tiers.transfer.Inbox;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The thread that takes what is told of requests: it writes the lines, and gathers spans for a
 * moment and sends them. While it does, what comes waits in the queue.
 */
public final class RequestTeller implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(RequestTeller.class);
  private static final int SPANS_AT_ONCE = 512;
  private static final long GATHER_NS = TimeUnit.MILLISECONDS.toNanos(200);
  private static final long CLOSE_MS = 15_000;

  private final Inbox<RequestTold> told;
  private final @Nullable SpanSender sender;
  private final Consumer<Throwable> whenBroken;
  private final List<RequestTold.Span> spans = new ArrayList<>();
  private final Thread thread;
  private long sendsAtNs;

  /**
   * Starts.
   *
   * @param sender null: there are no spans
   */
  public RequestTeller(
      Inbox<RequestTold> told, @Nullable SpanSender sender, Consumer<Throwable> whenBroken) {
    this.told = told;
    this.sender = sender;
    this.whenBroken = whenBroken;
    thread = Thread.ofPlatform().daemon().name("kvtier-requests").start(this::run);
  }

  private void run() {
    try {
      while (true) {
        RequestTold next = told.poll();
        if (next != null) {
          take(next);
        } else if (told.hasEnded()) {
          send();
          return;
        } else if (spans.isEmpty()) {
          boolean _ = told.await(Long.MAX_VALUE);
        } else {
          long left = sendsAtNs - System.nanoTime();
          if (left <= 0) {
            send();
          } else {
            boolean _ = told.await(left);
          }
        }
      }
    } catch (Throwable t) {
      whenBroken.accept(t);
    }
  }

  private void take(RequestTold next) {
    switch (next) {
      case RequestTold.Line(long high, long low, boolean isWarning, String text) ->
          write(isWarning, "request {}: {}", TraceContext.traceId(high, low), text);
      // A cause of its own to the log: whoever may do nothing does not silence the others.
      case RequestTold.Refusal(long high, long low, boolean isWarning, String what) ->
          write(isWarning, "request {}: refused: {}", TraceContext.traceId(high, low), what);
      case RequestTold.Span span -> {
        if (spans.isEmpty()) {
          sendsAtNs = System.nanoTime() + GATHER_NS;
        }
        spans.add(span);
        if (spans.size() >= SPANS_AT_ONCE) {
          send();
        }
      }
    }
  }

  private static void write(boolean isWarning, String format, String id, String text) {
    if (isWarning) {
      LOG.warn(format, id, text);
    } else {
      LOG.info(format, id, text);
    }
  }

  private void send() {
    if (sender != null && !spans.isEmpty()) {
      sender.send(spans);
    }
    spans.clear();
  }

  /** Tells what was handed over, and ends. */
  @Override
  public void close() {
    told.end();
    try {
      thread.join(CLOSE_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    if (sender != null) {
      sender.close();
    }
  }
}
