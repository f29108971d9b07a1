package io.kvtier.bench;

/** Times an operation again and again for a while, and keeps how long each took. */
final class Sampler {
  /** What is timed. */
  @FunctionalInterface
  interface Operation {
    void run() throws Exception;
  }

  private static final int SAMPLES_MAX = 1 << 18;
  private static final int SAMPLES_MIN = 10;
  private static final double NS_PER_US = 1000;

  private final long[] samples = new long[SAMPLES_MAX];
  private int count;

  /** Takes new samples, one after the other. */
  Sampler time(long durationNs, Operation operation) throws Exception {
    return time(durationNs, 0, operation);
  }

  /** Takes new samples, with a sleep before each. */
  Sampler time(long durationNs, long gapMs, Operation operation) throws Exception {
    count = 0;
    long end = System.nanoTime() + durationNs;
    long before;
    do {
      if (gapMs > 0) {
        Thread.sleep(gapMs);
      }
      before = System.nanoTime();
      operation.run();
      samples[count++] = System.nanoTime() - before;
    } while (count < SAMPLES_MAX && (before - end < 0 || count < SAMPLES_MIN));
    return this;
  }

  /** The time that this fraction of the samples does not exceed, in microseconds. */
  double us(double fraction) {
    return Statistics.percentile(samples, count, fraction) / NS_PER_US;
  }
}
