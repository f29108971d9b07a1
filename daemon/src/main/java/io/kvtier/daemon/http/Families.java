package io.kvtier.daemon.http;

import io.prometheus.metrics.model.snapshots.CounterSnapshot;
import io.prometheus.metrics.model.snapshots.CounterSnapshot.CounterDataPointSnapshot;
import io.prometheus.metrics.model.snapshots.GaugeSnapshot;
import io.prometheus.metrics.model.snapshots.GaugeSnapshot.GaugeDataPointSnapshot;
import io.prometheus.metrics.model.snapshots.InfoSnapshot;
import io.prometheus.metrics.model.snapshots.InfoSnapshot.InfoDataPointSnapshot;
import io.prometheus.metrics.model.snapshots.Labels;
import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import java.util.LinkedHashMap;
import java.util.Map;

/** Metrics of one scrape, gathered family by family; of a family with no value nothing is shown. */
final class Families {
  private final Map<String, CounterSnapshot.Builder> counters = new LinkedHashMap<>();
  private final Map<String, GaugeSnapshot.Builder> gauges = new LinkedHashMap<>();
  private final Map<String, InfoSnapshot.Builder> infos = new LinkedHashMap<>();

  /**
   * A counter's value.
   *
   * @param name without its {@code _total}
   * @param labels names and values in turn
   */
  void counter(String name, String help, double value, String... labels) {
    CounterSnapshot.Builder family =
        counters.computeIfAbsent(name, n -> CounterSnapshot.builder().name(n).help(help));
    family.dataPoint(
        CounterDataPointSnapshot.builder()
            .value(Math.max(0, value))
            .labels(Labels.of(labels))
            .build());
  }

  /** A gauge's value. */
  void gauge(String name, String help, double value, String... labels) {
    GaugeSnapshot.Builder family =
        gauges.computeIfAbsent(name, n -> GaugeSnapshot.builder().name(n).help(help));
    family.dataPoint(
        GaugeDataPointSnapshot.builder().value(value).labels(Labels.of(labels)).build());
  }

  /**
   * Texts, as the labels of a gauge that is 1.
   *
   * @param name without its {@code _info}
   */
  void info(String name, String help, String... labels) {
    InfoSnapshot.Builder family =
        infos.computeIfAbsent(name, n -> InfoSnapshot.builder().name(n).help(help));
    family.dataPoint(InfoDataPointSnapshot.builder().labels(Labels.of(labels)).build());
  }

  MetricSnapshots snapshots() {
    MetricSnapshots.Builder all = MetricSnapshots.builder();
    counters.values().forEach(family -> all.metricSnapshot(family.build()));
    gauges.values().forEach(family -> all.metricSnapshot(family.build()));
    infos.values().forEach(family -> all.metricSnapshot(family.build()));
    return all.build();
  }
}
