package io.kvtier.daemon.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.ValueResult;
import io.kvtier.daemon.Daemon;
import io.kvtier.daemon.SmallDaemon;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Status;
import io.vertx.core.json.Json;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.json.schema.OutputUnit;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.slf4j.LoggerFactory;

/**
 * What is promised to those who read answers by machine: the OpenAPI file, and the metrics that
 * alerts and dashboards are made of. A daemon with every part that needs no GPU is held to it.
 */
@Timeout(120)
final class ApiContractTest {
  private static final Path CONFIG = Path.of("..", "config");
  private static final int BLOCK_BYTES = 4096;
  private static final int NAMESPACES = ReportMetrics.NAMESPACES_MAX + 3;

  /** The number of the namespace with a lossy encoding. */
  private static final int LOSSY = 1;

  private static final String ENCODING = "fp8 bf16 4096";
  private static final Pattern METRIC = Pattern.compile("\\b(?:kvtier|process|jvm)_[a-z0-9_]+");

  @TempDir private static Path directory;
  private static Daemon daemon;
  private static KvtierClient client;
  private static final ApiDescription DESCRIPTION = ApiDescription.read();
  private static final HttpClient HTTP = HttpClient.newHttpClient();

  /** A daemon with some blocks in many namespaces, that has logged an error. */
  @BeforeAll
  static void start() throws Exception {
    daemon =
        new Daemon(
            ConfigLoader.load(
                null,
                SmallDaemon.withSsd(
                    directory,
                    "host.policy=auto",
                    "object.store=folder",
                    "object.folder=" + directory.resolve("objects"),
                    "object.directory=" + directory.resolve("object"),
                    "events.endpoint=tcp://127.0.0.1:*",
                    "nodes.peers=127.0.0.1:1",
                    "nodes.security=plaintext_without_tokens",
                    "grpc.enabled=false",
                    "http.port=0")));
    client = KvtierClient.builder().socket(directory.resolve("kvtier.sock")).name("tester").build();
    try (Arena arena = Arena.ofConfined()) {
      List<MemorySegment> block = List.of(arena.allocate(BLOCK_BYTES));
      for (int i = 0; i < NAMESPACES; i++) {
        Map<String, String> properties =
            i == LOSSY ? Map.of(BlockEncoding.PROPERTY, ENCODING) : Map.of();
        Namespace namespace = client.namespace("model-" + i, BLOCK_BYTES, properties);
        // The first have most.
        for (int key = 0; key < NAMESPACES - i; key++) {
          Keys keys = Keys.of(List.of(ByteBuffer.allocate(16).putInt(key).array()));
          assertEquals(Status.OK, client.blocking().put(namespace, keys, block).status());
        }
        Keys first = Keys.of(List.of(ByteBuffer.allocate(16).putInt(0).array()));
        assertEquals(Status.OK, client.blocking().get(namespace, first, block).status());
        if (i == LOSSY) {
          // Measures the errors of its blocks.
          ValueResult flushed = client.blocking().flush(namespace, Options.DEFAULT);
          assertEquals(Status.OK, flushed.status());
        }
      }
    }
    LoggerFactory.getLogger("io.kvtier.SomePart").error("it went wrong");
    awaitSamples();
  }

  private static void awaitSamples() {
    long end = System.nanoTime() + 30_000_000_000L;
    while (new JsonObject(get("/api/v1/history").body()).getJsonArray("times_ms").isEmpty()) {
      assertTrue(System.nanoTime() < end, "no sample was taken");
      LockSupport.parkNanos(50_000_000);
    }
  }

  @AfterAll
  static void stop() {
    client.close();
    daemon.close();
    HTTP.close();
  }

  // ---- helpers

  private static HttpResponse<String> get(String path) {
    try {
      return HTTP.send(
          HttpRequest.newBuilder(URI.create("http://" + daemon.httpAddress() + path)).build(),
          BodyHandlers.ofString());
    } catch (IOException e) {
      throw new AssertionError(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError(e);
    }
  }

  // ---- the OpenAPI file

  static Set<String> paths() {
    return DESCRIPTION.paths();
  }

  /** The parameters that a path needs. */
  private static String query(String path) {
    return path.equals("/api/v1/nodes/find")
        ? "?namespace=model-0&keys=" + "00".repeat(16) + ",00000001" + "00".repeat(12)
        : "";
  }

  @ParameterizedTest
  @MethodSource("paths")
  void answer_ofEachPath_isOfTheTypeAndSchemaThatIsDescribed(String path) {
    HttpResponse<String> response = get(path + query(path));

    assertEquals(200, response.statusCode(), response.body());
    String type = response.headers().firstValue("content-type").orElse("").replaceAll(";.*", "");
    JsonObject content = DESCRIPTION.content(path, "200");
    assertTrue(content.containsKey(type), content::encode);
    if (type.equals("application/json")) {
      JsonObject schema = content.getJsonObject(type).getJsonObject("schema");
      OutputUnit result = DESCRIPTION.validate(schema, Json.decodeValue(response.body()));
      assertTrue(result.getValid(), () -> result.toJson().encodePrettily() + response.body());
    }
  }

  @ParameterizedTest
  @MethodSource("paths")
  void mistake_onEachPathOfTheApi_isAProblemAsDescribed(String path) {
    HttpResponse<String> response = get(path + "?no_such_parameter=1");

    if (path.startsWith("/api/")) {
      assertEquals(400, response.statusCode(), response.body());
      JsonObject schema = new JsonObject().put("$ref", "#/components/schemas/Problem");
      assertTrue(
          DESCRIPTION.validate(schema, Json.decodeValue(response.body())).getValid(),
          response.body());
    } else {
      assertEquals(200, response.statusCode(), response.body());
    }
  }

  @Test
  void routes_areThoseOfTheFile() throws Exception {
    JsonObject problem = new JsonObject(get("/nothing").body());

    String served = problem.getString("detail").replaceAll(".*\\[|\\].*", "");
    Set<String> all = new TreeSet<>(List.of(served.split(", ", -1)));
    // The page for people is none of it.
    all.removeIf(
        path -> path.equals("/") || path.equals("/charts.js") || path.startsWith("/dashboard."));
    assertEquals(new TreeSet<>(paths()), all);
  }

  /** Else a validator that takes everything would show nothing. */
  @Test
  void answerThatLacksAField_isNotOfItsSchema() {
    JsonObject schema =
        DESCRIPTION
            .content("/api/v1/stats", "200")
            .getJsonObject("application/json")
            .getJsonObject("schema");
    JsonObject stats = new JsonObject(get("/api/v1/stats").body());
    assertTrue(DESCRIPTION.validate(schema, stats).getValid());

    stats
        .getJsonArray("tiers")
        .getJsonObject(1)
        .getJsonArray("devices")
        .getJsonObject(0)
        .put("state", "?");
    assertFalse(DESCRIPTION.validate(schema, stats).getValid());
    stats = new JsonObject(get("/api/v1/stats").body());
    stats.getJsonObject("latency").getJsonObject("get").remove("p99_ns");
    assertFalse(DESCRIPTION.validate(schema, stats).getValid());
  }

  @Test
  void servedFile_isThatOfTheDistribution() throws Exception {
    assertEquals(
        Files.readString(CONFIG.resolve("openapi.yaml")), get("/api/v1/openapi.yaml").body());
  }

  // ---- metrics

  private static Set<String> scraped() {
    return get("/metrics")
        .body()
        .lines()
        .filter(line -> !line.startsWith("#"))
        .map(line -> line.replaceAll("[{ ].*", ""))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  private static double value(String series) {
    return get("/metrics")
        .body()
        .lines()
        .filter(line -> line.startsWith(series + " "))
        .mapToDouble(line -> Double.parseDouble(line.substring(series.length() + 1)))
        .findAny()
        .orElseThrow(() -> new AssertionError("no series " + series));
  }

  @Test
  void metrics_haveTheValuesOfTheCounters() {
    JsonObject counters = new JsonObject(get("/api/v1/stats").body()).getJsonObject("counters");

    assertEquals(NAMESPACES, value("kvtier_hits_total{tier=\"host\"}"));
    assertEquals((double) counters.getLong("put_blocks"), value("kvtier_put_blocks_total"));
    assertEquals(
        (double) counters.getLong("host_bytes_used"),
        value("kvtier_tier_used_bytes{tier=\"host\"}"));
    assertEquals(16 << 20, value("kvtier_tier_capacity_bytes{tier=\"host\"}"));
    long encodedBytes = BlockEncoding.of(ENCODING, BLOCK_BYTES).encodedBytes();
    assertEquals(
        (double) BLOCK_BYTES * (NAMESPACES - 1) + encodedBytes,
        value("kvtier_link_bytes_total{direction=\"read\",link=\"host\"}"));
  }

  @Test
  void histogram_ofGets_countsAllOfThemOnce() {
    assertEquals(NAMESPACES, value("kvtier_operation_duration_seconds_count{operation=\"get\"}"));
    assertEquals(
        NAMESPACES,
        value("kvtier_operation_duration_seconds_bucket{operation=\"get\",le=\"+Inf\"}"));
    assertTrue(value("kvtier_operation_duration_seconds_sum{operation=\"get\"}") > 0);
  }

  @Test
  void namespaces_beyondTheLargest_areOneSeries() {
    String page = get("/metrics").body();

    long series = page.lines().filter(line -> line.startsWith("kvtier_namespace_blocks{")).count();
    assertEquals(2 * (ReportMetrics.NAMESPACES_MAX + 1), series);
    assertEquals(
        NAMESPACES,
        value("kvtier_namespace_blocks{namespace=\"model-0\",tenant=\"\",tier=\"host\"}"));
    assertEquals(
        3 + 2 + 1, value("kvtier_namespace_blocks{namespace=\"other\",tenant=\"\",tier=\"host\"}"));
    assertEquals(
        6.0 * BLOCK_BYTES,
        value("kvtier_namespace_bytes{namespace=\"other\",tenant=\"\",tier=\"host\"}"));
  }

  // ---- alerts and dashboards

  private static void strings(Object json, String field, Consumer<String> visitor) {
    switch (json) {
      case JsonObject object ->
          object.forEach(each -> {
            if (each.getKey().equals(field) && each.getValue() instanceof String text) {
              visitor.accept(text);
            } else if (each.getValue() != null) {
              strings(each.getValue(), field, visitor);
            }
          });
      case JsonArray array -> array.forEach(each -> strings(each, field, visitor));
      default -> {}
    }
  }

  private static Set<String> metricsIn(JsonObject file, String... fields) {
    Set<String> metrics = new TreeSet<>();
    for (String field : fields) {
      strings(
          file,
          field,
          text -> {
            for (Matcher name = METRIC.matcher(text); name.find(); ) {
              metrics.add(name.group());
            }
          });
    }
    return metrics;
  }

  @Test
  void everyMetricOfAnAlert_isThere() throws Exception {
    Set<String> used =
        metricsIn(new JsonObject(ApiDescription.yaml("prometheus/kvtier.rules.yml")), "expr");

    assertTrue(used.size() > 15, used.toString());
    used.removeAll(scraped());
    assertEquals(Set.of(), used);
  }

  @Test
  void everyMetricOfTheDashboard_isThere() throws Exception {
    JsonObject dashboard =
        new JsonObject(Files.readString(CONFIG.resolve(Path.of("grafana", "kvtier.json"))));
    Set<String> used = metricsIn(dashboard, "expr", "query");

    assertTrue(used.size() > 30, used.toString());
    used.removeAll(scraped());
    assertEquals(Set.of(), used);
  }

  @Test
  void everyAlert_isExplainedAndTested() throws Exception {
    JsonObject rules = new JsonObject(ApiDescription.yaml("prometheus/kvtier.rules.yml"));
    String tests = Files.readString(CONFIG.resolve("prometheus/kvtier.rules.test.yml"));
    Set<String> headings =
        Files.readAllLines(Path.of("..", "docs", "operate", "alerts.md")).stream()
            .filter(line -> line.startsWith("#"))
            .map(line -> line.replaceAll("^#+ ", "").toLowerCase(Locale.ROOT))
            .collect(Collectors.toSet());
    List<String> alerts = new ArrayList<>();
    strings(rules, "alert", alerts::add);
    List<String> runbooks = new ArrayList<>();
    strings(rules, "runbook", runbooks::add);

    assertTrue(alerts.size() > 10, alerts.toString());
    for (String alert : alerts) {
      String anchor = alert.toLowerCase(Locale.ROOT);
      assertTrue(headings.contains(anchor), alert + " is not in docs/operate/alerts.md");
      assertTrue(runbooks.contains("docs/operate/alerts.md#" + anchor), alert + " has no runbook");
      assertTrue(
          tests.contains("alertname=\"" + alert + "\""), alert + " is shown nowhere to fire");
    }
  }
}
