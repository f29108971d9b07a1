package io.kvtier.daemon.http;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.protocol.Counter;

/**
 * The last so many samples of all counters and latencies, taken a fixed time apart, in memory that
 * is taken once. Confined to the event loop.
 */
final class Samples {
  private static final Counter[] COUNTERS = Counter.values();
  private static final Latencies.Kind[] KINDS = Latencies.Kind.values();

  // Of each kind of latency: how many, the median, and what 99 of 100 are below.
  private static final int FIGURES = 3;

  private final int capacity;
  private final int seconds;
  private final long[] timesNs;
  private final long[] values;
  private final long[] latencies;
  private final long[][] countsBefore = new long[KINDS.length][Latencies.BUCKETS];
  private long taken;

  /**
   * No samples.
   *
   * @param seconds between two of them
   */
  Samples(int capacity, int seconds) {
    this.capacity = capacity;
    this.seconds = seconds;
    timesNs = new long[capacity];
    values = new long[capacity * COUNTERS.length];
    latencies = new long[capacity * KINDS.length * FIGURES];
  }

  int seconds() {
    return seconds;
  }

  /** How many there are. */
  int size() {
    return (int) Math.min(taken, capacity);
  }

  /** Takes one. */
  @SuppressWarnings("EnumOrdinal") // places in arrays of this class
  void take(long nowNs, Counters counters, Latencies histograms) {
    int place = (int) (taken % capacity);
    timesNs[place] = nowNs;
    for (int i = 0; i < COUNTERS.length; i++) {
      values[place * COUNTERS.length + i] = counters.get(COUNTERS[i]);
    }
    for (Latencies.Kind kind : KINDS) {
      long[] before = countsBefore[kind.ordinal()];
      long[] counts = histograms.counts(kind);
      long[] change = new long[counts.length];
      for (int i = 0; i < counts.length; i++) {
        change[i] = counts[i] - before[i];
      }
      countsBefore[kind.ordinal()] = counts;
      int at = (place * KINDS.length + kind.ordinal()) * FIGURES;
      latencies[at] = Latencies.total(change);
      latencies[at + 1] = Latencies.quantile(change, 0.5);
      latencies[at + 2] = Latencies.quantile(change, 0.99);
    }
    taken++;
  }

  private int place(int age) {
    return (int) ((taken - 1 - age) % capacity);
  }

  /** When a sample was taken, as {@link System#nanoTime} has it; age 0 is the newest. */
  long timeNs(int age) {
    return timesNs[place(age)];
  }

  /** A counter's value then. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  long value(int age, Counter counter) {
    return values[place(age) * COUNTERS.length + counter.ordinal()];
  }

  /** The time from an older sample to a younger, ns. */
  long elapsedNs(int older, int younger) {
    return timeNs(younger) - timeNs(older);
  }

  /** How much a counter grew from an older sample to a younger, a second. */
  double rate(int older, int younger, Counter counter) {
    double elapsed = elapsedNs(older, younger) / 1e9;
    return elapsed <= 0 ? 0 : (value(younger, counter) - value(older, counter)) / elapsed;
  }

  /** How many operations of a kind ended between a sample and the one before it. */
  long count(int age, Latencies.Kind kind) {
    return figure(age, kind, 0);
  }

  /** Their median, ns; -1 where there were none. */
  long medianNs(int age, Latencies.Kind kind) {
    return figure(age, kind, 1);
  }

  /** What 99 of 100 of them took at most, ns; -1 where there were none. */
  long p99Ns(int age, Latencies.Kind kind) {
    return figure(age, kind, 2);
  }

  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  private long figure(int age, Latencies.Kind kind, int figure) {
    return latencies[(place(age) * KINDS.length + kind.ordinal()) * FIGURES + figure];
  }
}
