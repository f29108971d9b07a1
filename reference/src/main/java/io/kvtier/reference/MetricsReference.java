package io.kvtier.reference;

import static io.kvtier.reference.Markdown.code;
import static io.kvtier.reference.Markdown.escaped;

import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.daemon.Daemon;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.daemon.http.ReportFamilies;
import io.kvtier.protocol.Counter;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The page of all metrics, from a scrape of a daemon with every part: SSD, an object store and
 * events. The families of GPUs and tenants come from entries of the report that are made up.
 */
final class MetricsReference {
  private static final Pattern LABEL = Pattern.compile("(\\w+)=\"((?:[^\"\\\\]|\\\\.)*)\"");
  private static final Set<String> PARTS = Set.of("_bucket", "_count", "_sum", "_max", "_created");
  // More values than these are examples, and not a list.
  private static final int VALUES_MAX = 12;
  // What is called otherwise on each machine.
  private static final Set<String> FREE =
      Set.of(
          "namespace",
          "tenant",
          "gpu",
          "version",
          "java",
          "le",
          "device",
          "factor",
          "policy",
          "id");

  /** A family of metrics, with the values of each label. */
  static final class Family {
    private final String name;
    private String type = "";
    private String help = "";
    private final Map<String, Set<String>> labels = new TreeMap<>();

    private Family(String name) {
      this.name = name;
    }

    private String labelText() {
      List<String> texts = new ArrayList<>();
      labels.forEach((label, values) ->
          texts.add(
              FREE.contains(label) || values.size() > VALUES_MAX
                  ? code(label)
                  : code(label) + ": " + String.join(", ", values)));
      return String.join("; ", texts);
    }
  }

  private MetricsReference() {}

  static String text(Path scratch) throws Exception {
    Map<String, Family> families = families(scrape(scratch) + ofOtherMachines());
    Markdown page = new Markdown("Metrics");
    page.paragraph(
        "The daemon shows its metrics at `/metrics` of the listener that `http.host` and `http.port`"
            + " name, in Prometheus' text format. A family without a value is left out: a daemon"
            + " without an object store has no `kvtier_object_` family.");
    page.heading(2, "Of kvtier", "of-kvtier");
    table(page, families.values().stream().filter(one -> isOurs(one.name)).toList());
    page.heading(2, "Of the process and its Java runtime", "of-the-process");
    table(page, families.values().stream().filter(one -> !isOurs(one.name)).toList());
    page.heading(2, "Counters of the daemon's memory", "counters");
    page.paragraph(
        "`kvtier stats --json`, the `STATS` verb and the gRPC method `Stats` name the counters so. They"
            + " stand in this order in the memory that each client maps.");
    page.table(
        List.of("Name", "Meaning"),
        Arrays.stream(Counter.values())
            .map(one -> List.of(code(one.key()), escaped(one.meaning())))
            .toList());
    return page.toString();
  }

  private static boolean isOurs(String name) {
    return name.startsWith("kvtier_");
  }

  private static void table(Markdown page, List<Family> families) {
    page.table(
        List.of("Name", "Type", "Meaning", "Labels"),
        families.stream()
            .map(one -> List.of(code(one.name), one.type, escaped(one.help), one.labelText()))
            .toList());
  }

  /** The families of a text in Prometheus' format, by name. */
  static Map<String, Family> families(String text) {
    Map<String, Family> families = new TreeMap<>();
    for (String line : text.lines().toList()) {
      String[] words = line.split(" ", 4);
      if (line.startsWith("# HELP ")) {
        families.computeIfAbsent(words[2], Family::new).help = words.length > 3 ? words[3] : "";
      } else if (line.startsWith("# TYPE ")) {
        families.computeIfAbsent(words[2], Family::new).type = words[3];
      } else if (!line.isBlank() && !line.startsWith("#")) {
        String series = line.split("[{ ]", 2)[0];
        Family family = families.get(familyOf(series, families.keySet()));
        Matcher label = LABEL.matcher(line);
        while (family != null && label.find()) {
          family.labels.computeIfAbsent(label.group(1), one -> new TreeSet<>()).add(label.group(2));
        }
      }
    }
    return families;
  }

  private static String familyOf(String series, Set<String> known) {
    for (String part : PARTS) {
      if (!known.contains(series) && series.endsWith(part)) {
        return series.substring(0, series.length() - part.length());
      }
    }
    return series;
  }

  /** A scrape of a daemon with every part that needs no GPU. */
  private static String scrape(Path scratch) throws Exception {
    Path file = scratch.resolve("kvtier.yaml");
    String settings =
        String.format(
            """
            socket: {path: %1$s/sock}
            host: {bytes: 32MiB, slab_bytes: 4MiB, keep: 0, huge_pages: false, policy: auto}
            ssd: {bytes: 64MiB, file_bytes: 8MiB, directory: %1$s/ssd, write_bytes_per_day: 1TiB}
            object: {store: folder, folder: %1$s/objects, directory: %1$s/ledger}
            limits: {blocks: 10000}
            grpc: {enabled: false}
            gpu: {enabled: off}
            http: {port: 0}
            events: {endpoint: "tcp://127.0.0.1:*"}
            """,
            scratch);
    Files.writeString(file, settings);
    try (Daemon daemon = new Daemon(ConfigLoader.load(file, List.of()));
        KvtierClient client = KvtierClient.builder().socket(scratch.resolve("sock")).build();
        HttpClient http = HttpClient.newHttpClient()) {
      client.connect();
      Namespace namespace = client.namespace("example", 4096, Map.of());
      // The first request registers the namespace.
      var _ = client.blocking().lookup(namespace, Keys.of(new byte[] {1}));
      URI metrics = URI.create("http://" + daemon.httpAddress() + "/metrics");
      HttpResponse<String> page =
          http.send(HttpRequest.newBuilder(metrics).build(), BodyHandlers.ofString());
      if (page.statusCode() != 200) {
        throw new IOException("the scrape was refused: " + page.body());
      }
      return page.body();
    }
  }

  private static String ofOtherMachines() {
    JsonObject speeds =
        new JsonObject().put("raw_bytes_per_second", 0).put("encoded_bytes_per_second", 0);
    JsonObject gpu =
        new JsonObject()
            .put("uuid", "GPU-UUID")
            .put("regions", 1)
            .put("staging_bytes", 0)
            .put("offloaded_bytes", 0)
            .put("onboarded_bytes", 0)
            .put("peer_bytes", 0)
            .put("errors", 0)
            .put(
                "encoding",
                new JsonObject().put("form", "encoded").put("read", speeds).put("write", speeds));
    JsonObject peer =
        new JsonObject()
            .put("address", "10.0.0.8:7076")
            .put("name", "example")
            .put("state", "connected");
    for (String figure :
        List.of(
            "round_trip_ns",
            "bytes_per_second",
            "blocks",
            "bytes",
            "pushed_blocks",
            "pushed_bytes",
            "errors",
            "hedges",
            "hedges_won",
            "stale_frames")) {
      peer.put(figure, 0);
    }
    JsonObject directory = new JsonObject();
    for (String figure : List.of("nodes", "entries", "bytes", "displaced", "gaps")) {
      directory.put(figure, 0);
    }
    JsonObject nodes =
        new JsonObject()
            .put(
                "block_bytes",
                new JsonObject().put("tcp", new JsonObject().put("received", 0).put("sent", 0)))
            .put("peers", new JsonArray().add(peer))
            .put("directory", directory);
    return ReportFamilies.text(gpu, new JsonObject().put("name", "example"), nodes);
  }
}
