package io.kvtier.tiers.object;

import java.util.ArrayDeque;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/** One way of the pipeline, to the store or from it, with its own bounds. For one thread. */
final class ObjectLane {
  private static final int LOAD_LEVELS = 3;

  final CircuitBreaker breaker;
  final ConcurrencyLimit limit;
  final BandwidthCap cap;
  final RetryBudget budget;
  final ObjectLaneLog log;

  /** How long a transfer may take, its time in the queue included. */
  final long timeoutNs;

  private final ObjectPipelineOptions.Retry retry;
  private final ArrayDeque<ObjectOperation>[] waiting;
  private int underWay;

  @SuppressWarnings({"unchecked", "rawtypes"}) // an array of generic queues
  private ObjectLane(
      ObjectPipelineOptions options,
      int levels,
      long timeoutNs,
      long bytesPerSecond,
      long nowNs,
      ObjectLaneLog log) {
    ObjectPipelineOptions.Breaker when = options.breaker();
    ObjectPipelineOptions.Calls calls = options.calls();
    breaker = new CircuitBreaker(when.failures(), when.openNs(), when.openNsMax());
    limit = new ConcurrencyLimit(calls.first(), calls.min(), calls.max(), nowNs);
    cap = new BandwidthCap(bytesPerSecond, nowNs);
    retry = options.retry();
    budget = new RetryBudget(retry.share(), retry.saved());
    this.timeoutNs = timeoutNs;
    this.log = log;
    waiting = new ArrayDeque[levels];
    for (int i = 0; i < levels; i++) {
      waiting[i] = new ArrayDeque<>();
    }
  }

  static ObjectLane ofLoads(ObjectPipelineOptions options, long nowNs, ObjectLaneLog log) {
    return new ObjectLane(
        options,
        LOAD_LEVELS,
        options.times().loadTimeoutNs(),
        options.bandwidth().loadBytesPerSecond(),
        nowNs,
        log);
  }

  static ObjectLane ofStores(ObjectPipelineOptions options, long nowNs, ObjectLaneLog log) {
    return new ObjectLane(
        options,
        1,
        options.times().storeTimeoutNs(),
        options.bandwidth().storeBytesPerSecond(),
        nowNs,
        log);
  }

  void await(ObjectOperation operation) {
    waiting[level(operation)].addLast(operation);
  }

  /** Lets an operation wait once more, before all others of its priority. */
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

  /** The breaker learns of a failure. Operators hear once of a store that is down, and why. */
  void failed(String cause, long nowNs) {
    boolean wasOpen = breaker.isOpen();
    breaker.onFailure(nowNs);
    if (breaker.isOpen()) {
      log.isDown(cause, !wasOpen);
    }
  }

  /** The breaker learns of an answer. */
  void answered() {
    boolean wasOpen = breaker.isOpen();
    breaker.onAnswer();
    if (wasOpen) {
      log.isUp();
    }
  }

  /** Whether the number of tries and the breaker allow a further try. */
  boolean mayTryAgain(int tries, long nowNs) {
    return tries < retry.triesMax() && breaker.state(nowNs) == CircuitBreaker.State.CLOSED;
  }

  /** A random rest before the next try. */
  long restNs(int tries, SplittableRandom random) {
    long most = Math.min(retry.restNsMax(), retry.restNs() << Math.min(30, tries - 1));
    return random.nextLong(Math.max(1, most));
  }
}
