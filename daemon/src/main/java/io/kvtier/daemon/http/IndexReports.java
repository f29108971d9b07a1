package io.kvtier.daemon.http;

import io.kvtier.daemon.loop.EventLoops;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.json.DecodeException;
import io.vertx.core.json.JsonObject;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The index's report of the daemon's state, as STATS has it. Whoever asks within a quarter of a
 * second gets the same one, so that the index has no more to do for many that ask than for one.
 * Confined to the event loop.
 */
final class IndexReports {
  private static final Logger LOG = LoggerFactory.getLogger(IndexReports.class);
  private static final long FRESH_NS = 250_000_000;
  private static final long TIMEOUT_MS = 1_000;

  /**
   * A report.
   *
   * @param roundTripNs how long the index took to answer
   * @param atNs when it did
   */
  record Report(JsonObject json, long roundTripNs, long atNs) {}

  private final Predicate<Consumer<Supplier<String>>> index;
  private final Runnable indexBell;
  private final Context loop;
  private final long freshNs;
  private final long timeoutMs;
  private @Nullable Report last;
  private @Nullable Promise<Report> awaited;
  private boolean isAsked;

  /**
   * None yet.
   *
   * @param index copies the state, and gives its argument a maker of the JSON on a thread of its
   *     own; false when it takes no question now
   * @param indexBell wakes it
   */
  IndexReports(Predicate<Consumer<Supplier<String>>> index, Runnable indexBell, Context loop) {
    this(index, indexBell, loop, FRESH_NS, TIMEOUT_MS);
  }

  /**
   * The same.
   *
   * @param freshNs how long a report is given to others
   * @param timeoutMs how long the index may take
   */
  IndexReports(
      Predicate<Consumer<Supplier<String>>> index,
      Runnable indexBell,
      Context loop,
      long freshNs,
      long timeoutMs) {
    this.freshNs = freshNs;
    this.timeoutMs = timeoutMs;
    this.index = index;
    this.indexBell = indexBell;
    this.loop = loop;
  }

  /** A report that is fresh; fails with 503 when the index does not answer. */
  Future<Report> fresh() {
    Report known = last;
    if (known != null && System.nanoTime() - known.atNs < freshNs) {
      return Future.succeededFuture(known);
    }
    Promise<Report> promise = awaited;
    if (promise == null) {
      promise = Promise.promise();
      awaited = promise;
      Promise<Report> mine = promise;
      long timer = loop.owner().setTimer(timeoutMs, t -> fail(mine));
      mine.future().onComplete(done -> loop.owner().cancelTimer(timer));
      ask();
    }
    return promise.future();
  }

  /** Asks, unless an earlier question is still open: one waits in the index at most. */
  private void ask() {
    if (isAsked) {
      return;
    }
    long beganNs = System.nanoTime();
    isAsked = index.test(maker -> told(maker, beganNs));
    indexBell.run();
  }

  /** On the index's thread. */
  private void told(Supplier<String> maker, long beganNs) {
    long nowNs = System.nanoTime();
    EventLoops.run(loop, () -> take(maker, beganNs, nowNs));
  }

  private void take(Supplier<String> maker, long beganNs, long nowNs) {
    isAsked = false;
    Promise<Report> promise = awaited;
    awaited = null;
    try {
      Report report = new Report(new JsonObject(maker.get()), nowNs - beganNs, nowNs);
      last = report;
      if (promise != null) {
        promise.tryComplete(report);
      }
    } catch (DecodeException e) {
      LOG.error("the index's report is no JSON", e);
      if (promise != null) {
        promise.tryFail(new ProblemException(500, "the index's report is no JSON: see the log"));
      }
    }
  }

  private void fail(Promise<Report> promise) {
    if (promise.tryFail(
        new ProblemException(503, "the index has not answered within " + timeoutMs + " ms"))) {
      awaited = null;
    }
  }
}
