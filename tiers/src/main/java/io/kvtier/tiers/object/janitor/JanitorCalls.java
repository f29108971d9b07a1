package io.kvtier.tiers.object.janitor;

import io.kvtier.tiers.object.ObjectStore;
import io.kvtier.tiers.object.StoreCall;
import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.object.StoredObject;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;

/**
 * A run's calls on the store, one after the other: no more of a second than told, again where
 * another try may help, and none when the run was cancelled or its time is over. For the run's
 * thread, but for {@link #cancel}.
 */
final class JanitorCalls {
  /**
   * What bounds them.
   *
   * @param restNs from the begin of a call to that of the next
   * @param timeoutNs of one call
   * @param tries of one call, the first included
   * @param deletions told of the names of what is deleted, before it is and after
   */
  record Bounds(long restNs, long timeoutNs, int tries, Consumer<List<String>> deletions) {}

  /** What is done with a page of a list. */
  interface PageTaker {
    void take(List<StoredObject> objects) throws RunEnd;
  }

  private static final long RETRY_REST_NS = 200_000_000;

  private final ObjectStore store;
  private final JanitorClock clock;
  private final Bounds bounds;
  private final long endNs;
  private final Thread thread;
  private long nextNs;
  private long made;
  private volatile boolean cancelled;
  private volatile @Nullable StoreCall current;

  /**
   * Has made none.
   *
   * @param thread the run's
   * @param endNs when the run's time is over, by the clock
   */
  JanitorCalls(ObjectStore store, JanitorClock clock, Bounds bounds, Thread thread, long endNs) {
    this.thread = thread;
    this.store = store;
    this.clock = clock;
    this.bounds = bounds;
    this.endNs = endNs;
    nextNs = clock.nanoTime();
  }

  /** Ends the run with its next call, and the call that is under way. */
  void cancel() {
    cancelled = true;
    StoreCall underWay = current;
    if (underWay != null) {
      underWay.cancel();
    }
    LockSupport.unpark(thread);
  }

  /** How many calls there were. */
  long made() {
    return made;
  }

  StoreResult put(String name, List<MemorySegment> parts, boolean ifAbsent) throws RunEnd {
    return ask(timeoutNs -> store.put(name, parts, ifAbsent, timeoutNs));
  }

  StoreResult get(String name, List<MemorySegment> parts) throws RunEnd {
    return ask(timeoutNs -> store.get(name, 0, parts, timeoutNs));
  }

  /** All that is below a prefix, page by page, each just listed when it is taken. */
  void list(String prefix, PageTaker taker) throws RunEnd {
    String after = "";
    boolean more = true;
    while (more) {
      String from = after;
      StoreResult result =
          ask(timeoutNs -> store.list(prefix, from, ObjectStore.NAMES_MAX, timeoutNs));
      if (!(result instanceof StoreResult.Page(List<StoredObject> objects, boolean behind))) {
        throw failure("the list of '" + prefix + "'", result);
      }
      taker.take(objects);
      more = behind && !objects.isEmpty();
      after = objects.isEmpty() ? "" : objects.getLast().name();
    }
  }

  /** What another node deleted meanwhile counts as deleted. */
  void delete(List<String> names) throws RunEnd {
    for (int from = 0; from < names.size(); from += ObjectStore.NAMES_MAX) {
      List<String> some = names.subList(from, Math.min(names.size(), from + ObjectStore.NAMES_MAX));
      bounds.deletions.accept(List.copyOf(some));
      StoreResult result = ask(timeoutNs -> store.delete(some, timeoutNs));
      bounds.deletions.accept(List.copyOf(some));
      if (!(result instanceof StoreResult.Done || result instanceof StoreResult.Absent)) {
        throw failure("a deletion", result);
      }
    }
  }

  /** Returns how many there were. */
  long removeUnfinished(long beganBeforeMs) throws RunEnd {
    StoreResult result = ask(timeoutNs -> store.removeUnfinished(beganBeforeMs, timeoutNs));
    if (result instanceof StoreResult.Done(long count)) {
      return count;
    }
    throw failure("the removal of what was not finished", result);
  }

  static RunEnd failure(String what, StoreResult result) {
    return new RunEnd(JanitorReport.State.FAILED, what + " failed: " + result.words());
  }

  /** Ends with what an answer can be that another try would not change. */
  private StoreResult ask(LongFunction<StoreCall> begin) throws RunEnd {
    StoreResult result = new StoreResult.Cancelled();
    for (int left = bounds.tries(); left > 0; left--) {
      result = askOnce(begin);
      switch (result) {
        case StoreResult.Throttled(long retryAfterNs) ->
            nextNs = clock.nanoTime() + Math.max(retryAfterNs, RETRY_REST_NS);
        case StoreResult.Unavailable _, StoreResult.Expired _ ->
            nextNs = clock.nanoTime() + RETRY_REST_NS;
        case StoreResult.Denied _, StoreResult.Cancelled _ -> {
          checkGoesOn();
          throw failure("a call", result);
        }
        default -> {
          return result;
        }
      }
    }
    checkGoesOn();
    throw failure("the last of " + bounds.tries() + " tries", result);
  }

  private StoreResult askOnce(LongFunction<StoreCall> begin) throws RunEnd {
    checkGoesOn();
    for (long restNs = nextNs - clock.nanoTime(); restNs > 0; restNs = nextNs - clock.nanoTime()) {
      clock.park(Math.min(restNs, endNs - clock.nanoTime()));
      checkGoesOn();
    }
    nextNs = clock.nanoTime() + bounds.restNs();
    made++;
    try {
      StoreCall call = begin.apply(Math.min(bounds.timeoutNs(), endNs - clock.nanoTime()));
      current = call;
      if (cancelled) {
        call.cancel();
      }
      return call.result().join();
    } finally {
      current = null;
      // What the store works on are views that do not keep the memory alive.
      Reference.reachabilityFence(begin);
    }
  }

  private void checkGoesOn() throws RunEnd {
    if (cancelled) {
      throw new RunEnd(JanitorReport.State.CANCELLED, "it was cancelled");
    }
    if (endNs - clock.nanoTime() <= 0) {
      throw new RunEnd(JanitorReport.State.OUT_OF_TIME, "its time was over");
    }
  }
}
