package io.kvtier.daemon.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.report.HealthReport;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.Words;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Metrics of reports that no daemon of the other tests makes. */
@Timeout(120)
final class MetricsPageTest {
  private final Vertx vertx = Vertx.vertx();
  private final Context loop = vertx.getOrCreateContext();
  private final MemorySegment region =
      Arena.ofAuto().allocate(DaemonRegionDescriptor.REGION_BYTES, 4096);
  private final Counters counters = new Counters(region);
  private JsonObject nodes = new JsonObject();

  @AfterEach
  void stop() throws Exception {
    vertx.close().toCompletionStage().toCompletableFuture().get(60, TimeUnit.SECONDS);
  }

  private static JsonObject peer(int number, String state) {
    JsonObject peer =
        new JsonObject()
            .put("address", "10.0.0." + number + ":7076")
            .put("name", "node-" + number)
            .put("state", state);
    for (String figure :
        List.of(
            "blocks",
            "bytes",
            "pushed_blocks",
            "pushed_bytes",
            "errors",
            "bytes_per_second",
            "round_trip_ns",
            "hedges",
            "hedges_won",
            "stale_frames")) {
      peer.put(figure, number);
    }
    return peer;
  }

  @Test
  void nodes_haveSeriesOfTheirOwn_exceptThisOneAndSpareOnes() throws Exception {
    JsonArray peers = new JsonArray();
    peers.add(peer(1, "self")).add(peer(2, "connected")).add(peer(3, "unreachable"));
    peers.add(peer(4, "spare"));
    nodes = new JsonObject().put("peers", peers).putNull("directory");
    String page = scraped(new JsonObject());
    String connected = "kvtier_peer_connected{address=\"10.0.0.%d:7076\",node=\"node-%d\"} %d.0\n";
    assertTrue(page.contains(connected.formatted(2, 2, 1)), page);
    assertTrue(page.contains(connected.formatted(3, 3, 0)), page);
    assertFalse(page.contains("node-1"), page);
    assertFalse(page.contains("node-4"), page);
    String labels = "{address=\"10.0.0.2:7076\",node=\"node-2\"} 2.0\n";
    assertTrue(page.contains("kvtier_peer_read_bytes_total" + labels), page);
    assertTrue(page.contains("kvtier_peer_hedges_won_total" + labels), page);
    assertFalse(page.contains("kvtier_directory"), page);
  }

  @Test
  void nodesBeyondTheFirst_haveNoSeries() throws Exception {
    JsonArray peers = new JsonArray();
    for (int i = 0; i < NodeMetrics.NODES_MAX + 1; i++) {
      peers.add(peer(i, "connected"));
    }
    nodes = new JsonObject().put("peers", peers).putNull("directory");
    String page = scraped(new JsonObject());
    assertTrue(page.contains("\"node-" + (NodeMetrics.NODES_MAX - 1) + '"'), page);
    assertFalse(page.contains("\"node-" + NodeMetrics.NODES_MAX + '"'), page);
  }

  @Test
  void directory_hasItsFigures() throws Exception {
    JsonObject directory = new JsonObject().put("nodes", 40).put("entries", 7).put("bytes", 1024);
    directory.put("displaced", 3).put("gaps", 2);
    nodes = new JsonObject().put("peers", new JsonArray()).put("directory", directory);
    String page = scraped(new JsonObject());
    assertTrue(page.contains("kvtier_directory_entries 7.0\n"), page);
    assertTrue(page.contains("kvtier_directory_displaced_total 3.0\n"), page);
  }

  @Test
  void bytesOfBlocks_haveASeriesForEachTransportAndDirection() throws Exception {
    JsonObject bytes =
        new JsonObject()
            .put("tcp", new JsonObject().put("received", 1).put("sent", 2))
            .put("ucx", new JsonObject().put("received", 3).put("sent", 4));
    nodes = new JsonObject().put("block_bytes", bytes);
    String page = scraped(new JsonObject());
    String series = "kvtier_node_bytes_total{direction=\"%s\",transport=\"%s\"} %d.0\n";
    assertTrue(page.contains(series.formatted("sent", "tcp", 2)), page);
    assertTrue(page.contains(series.formatted("received", "ucx", 3)), page);
  }

  /** A scrape while the index answers that. */
  private String scraped(JsonObject report) throws Exception {
    return on(
            report,
            reports -> {
              MetricsPage page =
                  new MetricsPage(
                      "1",
                      counters,
                      new Latencies(),
                      new Health(region, reports, () -> HealthReport.WELL),
                      reports,
                      () -> nodes);
              return page.scrape(MetricsFormat.PROMETHEUS).onComplete(done -> page.close());
            })
        .body()
        .toString();
  }

  private interface Asked {
    Future<Answer> of(IndexReports reports);
  }

  private Answer on(JsonObject report, Asked asked) throws Exception {
    IndexReports reports =
        new IndexReports(
            answer -> {
              answer.accept(report::encode);
              return true;
            },
            () -> {},
            loop);
    return Future.<Future<Answer>>future(
            promise -> loop.runOnContext(v -> promise.complete(asked.of(reports))))
        .compose(answer -> answer)
        .toCompletionStage()
        .toCompletableFuture()
        .get(60, TimeUnit.SECONDS);
  }

  private static JsonObject namespace(String tenant, String name, int blocks) {
    JsonObject json = new JsonObject().put("name", name);
    if (!tenant.isEmpty()) {
      json.put("tenant", tenant);
    }
    return json.put("block_bytes", 10).put("host_blocks", blocks).put("ssd_blocks", 0);
  }

  private static JsonObject report(List<JsonObject> namespaces) {
    return new JsonObject()
        .put("namespaces", new JsonArray(namespaces))
        .put("namespaces_total", namespaces.size());
  }

  private static List<String> lines(String page, String name) {
    return page.lines().filter(line -> line.startsWith(name)).toList();
  }

  @Test
  void errorsOfALossyEncoding_haveSeriesByLayer() throws Exception {
    List<JsonObject> namespaces =
        List.of(
            namespace("", "layers", 3).put("encoding_errors", new JsonArray().add(0.025).add(0.03)),
            namespace("", "whole", 2).put("encoding_errors", new JsonArray().add(0.02)),
            namespace("", "raw", 1));

    String page = scraped(report(namespaces));

    assertEquals(
        List.of(
            "kvtier_encoding_error_ratio{layer=\"0\",namespace=\"layers\",tenant=\"\"} 0.025",
            "kvtier_encoding_error_ratio{layer=\"1\",namespace=\"layers\",tenant=\"\"} 0.03",
            "kvtier_encoding_error_ratio{layer=\"all\",namespace=\"whole\",tenant=\"\"} 0.02"),
        lines(page, "kvtier_encoding_error_ratio").stream().sorted().toList());
  }

  @Test
  void namespaces_ofOneNameOfTwoTenants_areSeriesOfTheirOwn() throws Exception {
    List<JsonObject> namespaces =
        List.of(
            namespace("blue", "model", 3),
            namespace("green", "model", 2),
            namespace("", "model", 1));

    String page = scraped(report(namespaces));

    assertTrue(page.contains("kvtier_index_answering 1.0"), page);
    assertEquals(
        List.of(
            "kvtier_namespace_blocks{namespace=\"model\",tenant=\"\",tier=\"host\"} 1.0",
            "kvtier_namespace_blocks{namespace=\"model\",tenant=\"blue\",tier=\"host\"} 3.0",
            "kvtier_namespace_blocks{namespace=\"model\",tenant=\"green\",tier=\"host\"} 2.0"),
        lines(page, "kvtier_namespace_blocks").stream()
            .filter(line -> line.contains("host"))
            .sorted()
            .toList());
  }

  @Test
  void namespaces_calledLikeTheRest_areCountedWithIt() throws Exception {
    List<JsonObject> namespaces = new ArrayList<>();
    namespaces.add(namespace("", "other", 1000));
    namespaces.add(namespace("", "other (a namespace)", 900));
    namespaces.add(namespace("blue", "other", 800));
    for (int i = 0; i < 30; i++) {
      namespaces.add(namespace("", "model-" + i, 100 - i));
    }

    String page = scraped(report(namespaces));

    int rest = 0;
    for (int i = 17; i < 30; i++) {
      rest += 100 - i;
    }
    List<String> series = lines(page, "kvtier_namespace_blocks");
    assertEquals(2 * ReportMetrics.NAMESPACES_MAX, series.size(), page);
    assertTrue(
        series.contains(
            "kvtier_namespace_blocks{namespace=\"other\",tenant=\"\",tier=\"host\"} "
                + (1000.0 + rest)),
        page);
    assertTrue(page.contains("kvtier_namespaces 33.0"), page);
  }

  @Test
  void scrape_thatIsADefect_failsAndIsNoSilentIndex() {
    JsonObject nonsense = report(List.of()).put("tiers", "none");

    ExecutionException e = assertThrows(ExecutionException.class, () -> scraped(nonsense));

    assertTrue(e.getCause() instanceof ClassCastException, e.toString());
  }

  @Test
  void statusAndStats_thatAreDefects_failAndAreNoSilentIndex() {
    JsonObject nonsense = report(List.of()).put("tiers", "none").put("troubles", "none");

    assertThrows(
        ExecutionException.class,
        () ->
            on(
                nonsense,
                reports ->
                    new State(java.nio.file.Path.of("s"), List::of, counters, reports).status()));
    assertThrows(
        ExecutionException.class,
        () ->
            on(
                nonsense,
                reports ->
                    new State(java.nio.file.Path.of("s"), List::of, counters, reports).stats()));
  }

  /** Each has a value of its own, so that one which is missing, or there twice, is seen. */
  @Test
  void counters_areThereOnceEach() {
    Set<Double> expected = new TreeSet<>();
    for (Counter counter : Counter.values()) {
      double value = 1000 + expected.size();
      Words.putLongRelease(region, counter.offset(), (long) value);
      expected.add(counter.key().endsWith("_ns") ? value / 1e9 : value);
    }
    PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    CounterMeters.register(counters, registry);

    List<String> series = registry.scrape().lines().filter(line -> !line.startsWith("#")).toList();

    assertEquals(Counter.values().length, series.size(), series.toString());
    assertEquals(
        expected,
        series.stream()
            .map(line -> Double.valueOf(line.substring(line.lastIndexOf(' ') + 1)))
            .collect(Collectors.toCollection(TreeSet::new)));
    assertFalse(series.stream().anyMatch(line -> line.contains("_total_total")), series.toString());
    registry.close();
  }
}
