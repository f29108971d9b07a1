package io.kvtier.daemon.http;

import io.kvtier.daemon.index.core.Latencies;
import io.prometheus.metrics.model.registry.MultiCollector;
import io.prometheus.metrics.model.snapshots.ClassicHistogramBuckets;
import io.prometheus.metrics.model.snapshots.HistogramSnapshot;
import io.prometheus.metrics.model.snapshots.HistogramSnapshot.HistogramDataPointSnapshot;
import io.prometheus.metrics.model.snapshots.Labels;
import io.prometheus.metrics.model.snapshots.MetricSnapshots;

/**
 * The histograms of latencies, with a bucket for each power of two of nanoseconds from a
 * microsecond to half a minute: their limits are limits of the histograms' own, so nothing is
 * counted in a wrong one.
 */
final class LatencyMetrics implements MultiCollector {
  private static final int POWER_MIN = 10;
  private static final int POWER_MAX = 35;

  private final Latencies latencies;

  LatencyMetrics(Latencies latencies) {
    this.latencies = latencies;
  }

  @Override
  public MetricSnapshots collect() {
    HistogramSnapshot.Builder operations =
        HistogramSnapshot.builder()
            .name("kvtier_operation_duration_seconds")
            .help("How long clients' requests took in the daemon, waits included");
    HistogramSnapshot.Builder transfers =
        HistogramSnapshot.builder()
            .name("kvtier_transfer_duration_seconds")
            .help("How long transfers of a block took in their pipeline");
    for (Latencies.Kind kind : Latencies.Kind.values()) {
      switch (kind) {
        case GET, RESERVE, COMMIT, OFFLOAD, ONBOARD ->
            operations.dataPoint(point(kind, Labels.of("operation", kind.key())));
        case LOAD_SSD -> transfers.dataPoint(point(kind, transfer("ssd", "load")));
        case STORE_SSD -> transfers.dataPoint(point(kind, transfer("ssd", "store")));
        case LOAD_OBJECT -> transfers.dataPoint(point(kind, transfer("object", "load")));
        case LOAD_NODE -> transfers.dataPoint(point(kind, transfer("node", "load")));
        case DELIVER_NODE -> transfers.dataPoint(point(kind, transfer("node", "deliver")));
        case STORE_OBJECT -> transfers.dataPoint(point(kind, transfer("object", "store")));
      }
    }
    return MetricSnapshots.of(operations.build(), transfers.build());
  }

  private static Labels transfer(String pipeline, String direction) {
    return Labels.of("pipeline", pipeline, "direction", direction);
  }

  private HistogramDataPointSnapshot point(Latencies.Kind kind, Labels labels) {
    long[] counts = latencies.counts(kind);
    int buckets = POWER_MAX - POWER_MIN + 2;
    double[] limits = new double[buckets];
    long[] within = new long[buckets];
    int bucket = 0;
    for (int i = 0; i < buckets; i++) {
      boolean isLast = i == buckets - 1;
      long limitNs = isLast ? Long.MAX_VALUE : 1L << (POWER_MIN + i);
      limits[i] = isLast ? Double.POSITIVE_INFINITY : limitNs / 1e9;
      for (; bucket < counts.length && Latencies.limitOf(bucket) <= limitNs; bucket++) {
        within[i] += counts[bucket];
      }
    }
    return HistogramDataPointSnapshot.builder()
        .classicHistogramBuckets(ClassicHistogramBuckets.of(limits, within))
        .sum(latencies.sumNs(kind) / 1e9)
        .labels(labels)
        .build();
  }
}
