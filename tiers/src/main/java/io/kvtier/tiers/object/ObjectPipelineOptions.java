package io.kvtier.tiers.object;

import java.util.concurrent.TimeUnit;

/**
 * How an {@link ObjectPipeline} behaves.
 *
 * @param codec as {@link io.kvtier.tiers.codec.BlockCodecs#create} takes it
 * @param breaker when to keep away from the store
 * @param retry when to try again
 */
public record ObjectPipelineOptions(
    Capacity capacity,
    String codec,
    Times times,
    Calls calls,
    Bandwidth bandwidth,
    Breaker breaker,
    Retry retry) {
  /**
   * How much is done at a time.
   *
   * @param depth the most transfers in flight
   * @param workers threads that check, encode, encrypt, sign and begin stores, and decode loads
   */
  public record Capacity(int depth, int workers) {
    public Capacity {
      requirePositive("the depth", depth);
      requirePositive("the workers", workers);
    }
  }

  /**
   * How long transfers take at most, their time in the queue included.
   *
   * @param loadTimeoutNs a load that takes longer is a miss
   * @param hedgeAfterNs a load that has taken that long is begun a second time; 0 for never
   */
  public record Times(long loadTimeoutNs, long storeTimeoutNs, long hedgeAfterNs) {
    public Times {
      requirePositive("the time of a load", loadTimeoutNs);
      requirePositive("the time of a store", storeTimeoutNs);
      if (hedgeAfterNs < 0) {
        throw new IllegalArgumentException(
            "loads are hedged after " + hedgeAfterNs + " ns; expected 0 or more");
      }
    }
  }

  /**
   * How many calls are under way in each direction; the number adapts to the store.
   *
   * @param first at the start
   * @param min the fewest; as many as {@code max} for no adapting
   * @param max the most
   */
  public record Calls(int first, int min, int max) {
    public Calls {
      requirePositive("the fewest calls", min);
      if (first < min || max < first) {
        throw new IllegalArgumentException(
            "the object tier begins with "
                + first
                + " calls, which is not between "
                + min
                + " and "
                + max);
      }
    }

    /** A number of calls that does not adapt. */
    public static Calls fixed(int calls) {
      return new Calls(calls, calls, calls);
    }
  }

  /** The most bytes a second in each direction; 0 for no limit. */
  public record Bandwidth(long loadBytesPerSecond, long storeBytesPerSecond) {
    /** No limits. */
    public static final Bandwidth UNLIMITED = new Bandwidth(0, 0);

    public Bandwidth {
      if (loadBytesPerSecond < 0 || storeBytesPerSecond < 0) {
        throw new IllegalArgumentException(
            "the object tier may move "
                + loadBytesPerSecond
                + " and "
                + storeBytesPerSecond
                + " bytes a second; expected 0 or more");
      }
    }
  }

  /**
   * When a {@link CircuitBreaker} opens, and for how long.
   *
   * @param failures the failures in a row that open the breaker
   * @param openNs the time until the first try
   * @param openNsMax the longest time until a later try
   */
  public record Breaker(int failures, long openNs, long openNsMax) {
    public Breaker {
      requirePositive("the breaker's failures", failures);
      requirePositive("the breaker's open time", openNs);
      requirePositive("the breaker's longest open time", openNsMax);
    }
  }

  /**
   * The bounds of further tries.
   *
   * @param triesMax the most tries of one transfer, the first included
   * @param restNs the longest rest before the second try; it doubles with each further try
   * @param restNsMax the longest rest before any try
   * @param share the further tries that each first try allows
   * @param saved the most further tries that are saved up
   */
  public record Retry(int triesMax, long restNs, long restNsMax, double share, int saved) {
    public Retry {
      requirePositive("the tries", triesMax);
      requirePositive("the rest between tries", restNs);
      requirePositive("the longest rest between tries", restNsMax);
    }
  }

  private static void requirePositive(String what, long value) {
    if (value <= 0) {
      throw new IllegalArgumentException(
          what + " of the object tier: " + value + " is not positive");
    }
  }

  /** For a store within a millisecond or some tens of them. */
  public static ObjectPipelineOptions defaults() {
    return new ObjectPipelineOptions(
        new Capacity(256, 2),
        "none",
        new Times(TimeUnit.SECONDS.toNanos(5), TimeUnit.SECONDS.toNanos(30), 0),
        new Calls(8, 1, 64),
        Bandwidth.UNLIMITED,
        new Breaker(8, TimeUnit.SECONDS.toNanos(1), TimeUnit.SECONDS.toNanos(30)),
        new Retry(4, TimeUnit.MILLISECONDS.toNanos(50), TimeUnit.SECONDS.toNanos(2), 0.1, 20));
  }
}
