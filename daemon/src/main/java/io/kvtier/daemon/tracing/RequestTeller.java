package io.kvtier.daemon.tracing;

import io.kvtier.daemon.index.report.RequestTold;
import io.kvtier.protocol.TraceContext;
import io.kvtier.tiers.transfer.Inbox;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
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

  /** How long it sleeps while it gathers: spans are in no hurry, and waking it costs who tells. */
  private static final long NAP_NS = TimeUnit.MILLISECONDS.toNanos(20);

  /** Once it is to end, it goes on sending for so long, and loses the rest. */
  private static final long LAST_NS = TimeUnit.SECONDS.toNanos(1);

  private static final long CLOSE_MS = SpanSender.TIMEOUT.plusSeconds(2).toMillis();

  private final Inbox<RequestTold> told;
  private final @Nullable SpanSender sender;
  private final Consumer<Throwable> whenBroken;
  private final List<RequestTold.Span> spans = new ArrayList<>();
  private final Thread thread;
  private long sendsAtNs;
  private boolean isInVain;
  private volatile long endedAtNs;

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
          break;
        } else if (spans.isEmpty()) {
          boolean _ = told.await(Long.MAX_VALUE);
        } else {
          long left = sendsAtNs - System.nanoTime();
          if (left <= 0) {
            send();
          } else {
            LockSupport.parkNanos(this, Math.min(left, NAP_NS));
          }
        }
      }
      if (sender != null) {
        sender.close();
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
      if (told.hasEnded() && (isInVain || System.nanoTime() - endedAtNs >= LAST_NS)) {
        sender.lose(spans.size());
      } else {
        isInVain = !sender.send(spans);
      }
    }
    spans.clear();
  }

  /**
   * Tells what was handed over, and ends. Where the collector is slow, or away, it does not wait
   * for that: what is left is counted as lost.
   */
  @Override
  public void close() {
    endedAtNs = System.nanoTime();
    told.end();
    try {
      thread.join(CLOSE_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
