package io.kvtier.daemon.http;

import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.prometheus.metrics.model.registry.MultiCollector;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.List;

/**
 * The metric families of parts that not every daemon has, for the reference page: those of GPUs, of
 * tenants, of namespaces that engines used or that have a lossy encoding, and of other nodes.
 */
public final class ReportFamilies {
  private ReportFamilies() {}

  /**
   * The families of one GPU, one tenant, one namespace and one other node, in Prometheus' text
   * format.
   *
   * @param ofGpu what the index reports of a GPU
   * @param ofTenant what the index reports of a tenant
   * @param nodes the figures of other nodes
   */
  public static String text(JsonObject ofGpu, JsonObject ofTenant, JsonObject nodes) {
    Families out = new Families();
    ReportMetrics.gpu(out, ofGpu);
    ReportMetrics.tenant(out, ofTenant);
    NodeMetrics.all(out, nodes);
    ReportMetrics.accounts(out, List.of(new JsonObject().put("namespace", "example")));
    JsonArray error = new JsonArray().add(0.0);
    ReportMetrics.errors(
        out, new JsonObject().put("name", "example").put("encoding_errors", error));
    PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    registry.getPrometheusRegistry().register((MultiCollector) out::snapshots);
    String text = registry.scrape();
    registry.close();
    return text;
  }
}
