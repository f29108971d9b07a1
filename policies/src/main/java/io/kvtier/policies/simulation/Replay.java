package io.kvtier.policies.simulation;

import io.kvtier.policies.EvictionPolicies;
import java.util.List;

/**
 * Replays a trace from a cold start. A request touches its blocks one by one in the given order; a
 * miss is inserted at once, after an eviction where the cache is full. Prefix hits are the leading
 * run of resident blocks as the request begins.
 */
public final class Replay {
  /** The clairvoyant optimum: see {@link ClairvoyantCache}. */
  public static final String OPTIMUM = "opt";

  /** A cache that holds every block of the trace. */
  public static final String INFINITE = "infinite";

  /** The names of the yardsticks. */
  public static final List<String> YARDSTICKS = List.of(INFINITE, OPTIMUM);

  private final Trace trace;
  private final Order order;
  private final int warmupRequests;

  /**
   * A replay that can be run with many policies.
   *
   * @param warmupRequests how many requests are replayed before anything is counted
   */
  public Replay(Trace trace, Order order, int warmupRequests) {
    this.trace = trace;
    this.order = order;
    this.warmupRequests = warmupRequests;
  }

  /**
   * Replays the trace through a policy or a yardstick.
   *
   * @param policy a specification, as {@link EvictionPolicies} reads it, or a yardstick's name
   */
  public Outcome run(String policy, int capacityBlocks) {
    int capacity = policy.equals(INFINITE) ? Math.max(1, trace.distinct()) : capacityBlocks;
    Cache cache =
        switch (policy) {
          case OPTIMUM -> new ClairvoyantCache(trace, order, capacity);
          case INFINITE -> withPolicy("fifo", capacity);
          default -> withPolicy(policy, capacity);
        };
    long references = 0;
    long blockHits = 0;
    long prefixHits = 0;
    long evictionsBefore = 0;
    long started = System.nanoTime();
    for (int request = 0; request < trace.requests(); request++) {
      if (request == warmupRequests) {
        references = 0;
        blockHits = 0;
        prefixHits = 0;
        evictionsBefore = cache.evictions();
      }
      int start = trace.start(request);
      int end = trace.start(request + 1);
      int run = start;
      while (run < end && cache.isResident(trace.block(run))) {
        run++;
      }
      prefixHits += run - start;
      references += end - start;
      for (int i = start; i < end; i++) {
        int reference = order == Order.HEAD_FIRST ? i : start + end - 1 - i;
        if (cache.touch(trace.block(reference))) {
          blockHits++;
        }
      }
    }
    long nanoseconds = System.nanoTime() - started;
    if (warmupRequests >= trace.requests()) {
      references = 0;
      blockHits = 0;
      prefixHits = 0;
      evictionsBefore = cache.evictions();
    }
    return new Outcome(
        policy,
        order,
        capacity,
        new Outcome.Counts(references, blockHits, prefixHits, cache.evictions() - evictionsBefore),
        new Outcome.Cost(
            YARDSTICKS.contains(policy) ? 0 : cache.metadataBytes(),
            trace.references(),
            nanoseconds));
  }

  private Cache withPolicy(String policy, int capacity) {
    return new PolicyCache(trace, EvictionPolicies.create(policy, capacity, capacity), capacity);
  }

  /** What is replayed against. */
  interface Cache {
    boolean isResident(int block);

    /** Uses a block, and inserts it where it is missing; answers whether it was there. */
    boolean touch(int block);

    long evictions();

    long metadataBytes();
  }
}
