package io.kvtier.daemon.http;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Latencies;
import io.micrometer.core.instrument.binder.jvm.JvmGcMetrics;
import io.micrometer.core.instrument.binder.jvm.JvmMemoryMetrics;
import io.micrometer.core.instrument.binder.jvm.JvmThreadMetrics;
import io.micrometer.core.instrument.binder.system.ProcessorMetrics;
import io.micrometer.core.instrument.binder.system.UptimeMetrics;
import io.micrometer.core.instrument.config.MeterFilter;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.vertx.core.Future;
import io.vertx.core.json.JsonObject;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * All metrics, in Prometheus' text format or as OpenMetrics. Nothing is counted here: values are
 * read when they are scraped. Confined to the event loop.
 */
final class MetricsPage implements AutoCloseable {
  private final IndexReports reports;
  private final PrometheusMeterRegistry registry =
      new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
  private final JvmGcMetrics collections = new JvmGcMetrics();
  private final ReportMetrics ofReport;

  /**
   * Registers all meters.
   *
   * @param nodes the figures of other nodes
   */
  MetricsPage(
      String version,
      Counters counters,
      Latencies latencies,
      Health health,
      IndexReports reports,
      Supplier<JsonObject> nodes) {
    this.reports = reports;
    ofReport = new ReportMetrics(version, health);
    // Under names that are no metrics' by Prometheus' rules; the first is there by its usual one.
    registry.config().meterFilter(MeterFilter.denyNameStartsWith("process.cpu.time"));
    registry.config().meterFilter(MeterFilter.denyNameStartsWith("system.cpu.count"));
    CounterMeters.register(counters, registry);
    registry.getPrometheusRegistry().register(new LatencyMetrics(latencies));
    registry.getPrometheusRegistry().register(ofReport);
    registry.getPrometheusRegistry().register(new NodeMetrics(nodes));
    registry.getPrometheusRegistry().register(new ProcessMetrics());
    new JvmMemoryMetrics().bindTo(registry);
    new JvmThreadMetrics().bindTo(registry);
    new ProcessorMetrics().bindTo(registry);
    new UptimeMetrics().bindTo(registry);
    collections.bindTo(registry);
  }

  /** A scrape; also of an index that does not answer, as then it matters. */
  Future<Answer> scrape(MetricsFormat format) {
    return reports
        .fresh()
        .map(report -> page(format, report))
        .recover(cause ->
            cause instanceof ProblemException
                ? Future.succeededFuture(page(format, null))
                : Future.failedFuture(cause));
  }

  private Answer page(MetricsFormat format, IndexReports.@Nullable Report report) {
    ofReport.show(report == null ? null : report.json());
    return Answer.text(format.type(), registry.scrape(format.type()));
  }

  @Override
  public void close() {
    collections.close();
    registry.close();
  }
}
