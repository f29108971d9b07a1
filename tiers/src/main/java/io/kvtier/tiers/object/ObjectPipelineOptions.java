package io.kvtier.tiers.object;

import java.util.concurrent.TimeUnit;

/**
 * How an {@link ObjectPipeline} behaves.
 *
 * @param depth the most transfers in flight
 * @param workers threads that check, encode, encrypt, sign and begin what goes up, and decode what
 *     comes down
 * @param codec as {@link io.kvtier.tiers.codec.BlockCodecs#create} takes it
 * @param loadTimeoutNs a load is a miss when it takes longer, its time in the queue included
 * @param callsFirst calls under way each way, to begin with
 * @param callsMin the fewest that they may become; as many as the most for no adapting
 * @param callsMax the most
 * @param loadBytesPerSecond the most; 0 for no limit
 * @param storeBytesPerSecond the same for stores
 * @param hedgeAfterNs a load that has taken that long is begun a second time; 0 for never
 * @param breaker when to keep away from the store
 * @param retry when to try again
 */
public record ObjectPipelineOptions(
    int depth,
    int workers,
    String codec,
    long loadTimeoutNs,
    long storeTimeoutNs,
    int callsFirst,
    int callsMin,
    int callsMax,
    long loadBytesPerSecond,
    long storeBytesPerSecond,
    long hedgeAfterNs,
    Breaker breaker,
    Retry retry) {
  /**
   * When a {@link CircuitBreaker} opens, and for how long.
   *
   * @param failures so many in a row open it
   * @param openNs until the first try
   * @param openNsMax until a later one at most
   */
  public record Breaker(int failures, long openNs, long openNsMax) {
    public Breaker {
      requirePositive("the breaker's failures", failures);
      requirePositive("the breaker's open time", openNs);
      requirePositive("the breaker's longest open time", openNsMax);
    }
  }

  /**
   * What bounds second tries.
   *
   * @param triesMax of one transfer, the first included
   * @param restNs at most before the second try, twice that before the third, ...
   * @param restNsMax at most before any
   * @param share how many second tries each first one pays
   * @param saved how many can be saved
   */
  public record Retry(int triesMax, long restNs, long restNsMax, double share, int saved) {
    public Retry {
      requirePositive("the tries", triesMax);
      requirePositive("the rest between tries", restNs);
      requirePositive("the longest rest between tries", restNsMax);
    }
  }

  public ObjectPipelineOptions {
    requirePositive("the depth", depth);
    requirePositive("the workers", workers);
    requirePositive("the time of a load", loadTimeoutNs);
    requirePositive("the time of a store", storeTimeoutNs);
    requirePositive("the fewest calls", callsMin);
    if (callsFirst < callsMin || callsMax < callsFirst) {
      throw new IllegalArgumentException(
          "the object tier begins with "
              + callsFirst
              + " calls, which is not between "
              + callsMin
              + " and "
              + callsMax);
    }
    if (loadBytesPerSecond < 0 || storeBytesPerSecond < 0 || hedgeAfterNs < 0) {
      throw new IllegalArgumentException(
          "less than nothing: "
              + loadBytesPerSecond
              + " and "
              + storeBytesPerSecond
              + " bytes a second, hedged after "
              + hedgeAfterNs
              + " ns");
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
        256,
        2,
        "none",
        TimeUnit.SECONDS.toNanos(5),
        TimeUnit.SECONDS.toNanos(30),
        8,
        1,
        64,
        0,
        0,
        0,
        new Breaker(8, TimeUnit.SECONDS.toNanos(1), TimeUnit.SECONDS.toNanos(30)),
        new Retry(4, TimeUnit.MILLISECONDS.toNanos(50), TimeUnit.SECONDS.toNanos(2), 0.1, 20));
  }
}
