package io.kvtier.tiers.object;

import java.util.ArrayDeque;
import org.jspecify.annotations.Nullable;

/** One way of the pipeline, to the store or from it, with its own bounds. For one thread. */
final class ObjectLane {
  final CircuitBreaker breaker;
  final ConcurrencyLimit limit;
  final BandwidthCap cap;
  final RetryBudget budget;

  /** Why the breaker is open; empty while it is closed. Any thread may read it. */
  volatile String trouble = "";

  private final ArrayDeque<ObjectOperation>[] waiting;
  private int underWay;

  @SuppressWarnings({"unchecked", "rawtypes"}) // an array of generic queues
  ObjectLane(ObjectPipelineOptions options, int levels, long bytesPerSecond, long nowNs) {
    ObjectPipelineOptions.Breaker when = options.breaker();
    breaker = new CircuitBreaker(when.failures(), when.openNs(), when.openNsMax());
    limit =
        new ConcurrencyLimit(options.callsFirst(), options.callsMin(), options.callsMax(), nowNs);
    cap = new BandwidthCap(bytesPerSecond, nowNs);
    budget = new RetryBudget(options.retry().share(), options.retry().saved());
    waiting = new ArrayDeque[levels];
    for (int i = 0; i < levels; i++) {
      waiting[i] = new ArrayDeque<>();
    }
  }

  void await(ObjectOperation operation) {
    waiting[level(operation)].addLast(operation);
  }

  /** It has waited before. */
  void awaitAgain(ObjectOperation operation) {
    waiting[level(operation)].addFirst(operation);
  }

  private int level(ObjectOperation operation) {
    return Math.clamp(operation.transfer().priority, 0, waiting.length - 1);
  }

  void giveUp(ObjectOperation operation) {
    waiting[level(operation)].remove(operation);
  }

  boolean hasWaiting() {
    return peek() != null;
  }

  private @Nullable ArrayDeque<ObjectOperation> peek() {
    for (ArrayDeque<ObjectOperation> queue : waiting) {
      if (!queue.isEmpty()) {
        return queue;
      }
    }
    return null;
  }

  @Nullable ObjectOperation poll() {
    ArrayDeque<ObjectOperation> queue = peek();
    return queue == null ? null : queue.pollFirst();
  }

  boolean hasRoom() {
    return underWay < limit.limit();
  }

  int underWay() {
    return underWay;
  }

  void began() {
    underWay++;
  }

  void ended() {
    underWay--;
  }
}
