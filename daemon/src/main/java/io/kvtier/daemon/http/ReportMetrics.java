package io.kvtier.daemon.http;

import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.core.TierTraits;
import io.prometheus.metrics.model.registry.MultiCollector;
import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Metrics from the index's report: devices, the object store, GPUs, namespaces. If the index does
 * not answer, the only metric says so. Confined to the event loop.
 */
final class ReportMetrics implements MultiCollector {
  /** Maximum namespaces with their own series: the ones with the most bytes. */
  static final int NAMESPACES_MAX = 20;

  private static final Owner OTHERS = new Owner("", "other");

  private static final List<String> COUNTS =
      List.of("hits", "misses", "saved_tokens", "saved_prefill_ns", "spent_load_ns");

  // These fields are levels; all others are counts.
  private static final Set<String> OBJECT_LEVELS = Set.of("keys_known", "deletions_waiting");

  private final String version;
  private final Health health;
  private @Nullable JsonObject report;

  ReportMetrics(String version, Health health) {
    this.version = version;
    this.health = health;
  }

  /** Sets the report for the next scrape; null if the index did not answer. */
  void show(@Nullable JsonObject latest) {
    report = latest;
  }

  @Override
  public MetricSnapshots collect() {
    Families out = new Families();
    out.info(
        "kvtier_build",
        "The daemon\'s version",
        "version",
        version,
        "java",
        String.valueOf(Runtime.version().feature()));
    out.gauge(
        "kvtier_index_heartbeat_age_seconds",
        "Time since the last sign of life of the index",
        health.heartbeatAgeNs() / 1e9);
    JsonObject shown = report;
    out.gauge("kvtier_index_answering", "Whether the index answers: 0 or 1", shown == null ? 0 : 1);
    if (shown != null) {
      Trouble.objects(shown, "tiers").forEach(tier -> tier(out, tier));
      object(out, shown.getJsonObject("object"));
      Trouble.objects(shown, "gpus").forEach(gpu -> gpu(out, gpu));
      events(out, shown.getJsonObject("events"));
      namespaces(out, Trouble.objects(shown, "namespaces"), shown.getLong("namespaces_total", 0L));
      accounts(out, Trouble.objects(shown, "accounts"));
      Trouble.objects(shown, "tenants").forEach(tenant -> tenant(out, tenant));
      troubles(out, Trouble.of(shown));
    }
    return out.snapshots();
  }

  private static void troubles(Families out, List<Trouble> troubles) {
    for (String part : List.of("host", "ssd", "object", "gpu", "puts")) {
      out.gauge(
          "kvtier_troubles",
          "What does not do what it is there for, by part",
          (double) troubles.stream().filter(one -> one.part().startsWith(part + "/")).count(),
          "part",
          part);
    }
  }

  private static void tier(Families out, JsonObject tier) {
    String name = tier.getString("tier");
    out.info(
        "kvtier_tier_policy",
        "A tier\'s eviction policy",
        "tier",
        name,
        "policy",
        tier.getString("policy"));
    for (JsonObject device : Trouble.objects(tier, "devices")) {
      String number = String.valueOf(device.getInteger("device"));
      for (String state : List.of("open", "fenced", "given_up")) {
        out.gauge(
            "kvtier_device_state",
            "The state of each device of a tier: 1 for the one that it is in",
            state.equals(device.getString("state")) ? 1 : 0,
            "tier",
            name,
            "device",
            number,
            "state",
            state);
      }
      out.gauge(
          "kvtier_pipeline_in_flight",
          "Transfers under way",
          device.getLong("in_flight", 0L),
          "pipeline",
          name,
          "device",
          number);
    }
    Long scrub = tier.getLong("scrub_bytes_per_second");
    if (scrub != null) {
      out.gauge(
          "kvtier_scrub_limit_bytes_per_second",
          "The most that is read a second to verify what is stored; 0: nothing is",
          scrub);
    }
    for (JsonObject other : Trouble.objects(tier, "what_if")) {
      long references = other.getLong("references", 0L);
      out.gauge(
          "kvtier_whatif_prefix_hit_ratio",
          "What a tier of another size or policy would have hit; not a number before it has seen"
              + " requests",
          references == 0 ? Double.NaN : (double) other.getLong("prefix_hits", 0L) / references,
          "tier",
          name,
          "policy",
          other.getString("policy"),
          "factor",
          String.format(Locale.ROOT, "%.4g", other.getDouble("factor", 0.0)));
    }
  }

  static void tenant(Families out, JsonObject tenant) {
    String name = tenant.getString("name");
    for (TierTraits known : KnownTiers.ALL) {
      String tier = known.name();
      out.gauge(
          "kvtier_tenant_used_bytes",
          "Bytes of slots in use by each tenant",
          (double) tenant.getLong(tier + "_bytes_used", 0L),
          "tenant",
          name,
          "tier",
          tier);
      out.gauge(
          "kvtier_tenant_capacity_bytes",
          "All bytes of a tier that are a tenant's",
          (double) tenant.getLong(tier + "_bytes_capacity", 0L),
          "tenant",
          name,
          "tier",
          tier);
    }
    out.gauge(
        "kvtier_tenant_blocks",
        "Blocks of each tenant in the directory",
        (double) tenant.getLong("blocks", 0L),
        "tenant",
        name);
    JsonObject retained = tenant.getJsonObject("retained", new JsonObject());
    out.gauge(
        "kvtier_tenant_retained_bytes",
        "Bytes of blocks that each tenant retains",
        (double) retained.getLong("bytes", 0L),
        "tenant",
        name);
    out.gauge(
        "kvtier_tenant_retained_quota_bytes",
        "The most bytes that each tenant may retain",
        (double) retained.getLong("bytes_max", 0L),
        "tenant",
        name);
    counts(out, "kvtier_tenant_", ", of each tenant", tenant, "tenant", name);
  }

  private static void object(Families out, @Nullable JsonObject object) {
    if (object == null) {
      return;
    }
    reachable(out, "load", object.getBoolean("takes_loads", true), object);
    reachable(out, "store", object.getBoolean("takes_stores", true), object);
    reachable(out, "probe", true, object);
    object.forEach(field -> {
      if (field.getValue() instanceof Number value) {
        String help = "Of the object tier: " + field.getKey().replace('_', ' ');
        if (OBJECT_LEVELS.contains(field.getKey())) {
          out.gauge("kvtier_object_" + field.getKey(), help, value.doubleValue());
        } else {
          out.counter("kvtier_object_" + field.getKey(), help, value.doubleValue());
        }
      }
    });
  }

  private static void reachable(Families out, String way, boolean isOpen, JsonObject object) {
    boolean isWell = isOpen && object.getString(way + "_trouble", "").isEmpty();
    out.gauge(
        "kvtier_object_reachable",
        "Whether the object store answers, by what is asked of it: 0 or 1",
        isWell ? 1 : 0,
        "way",
        way);
  }

  static void gpu(Families out, JsonObject gpu) {
    String uuid = gpu.getString("uuid");
    out.gauge("kvtier_gpu_regions", "Open regions of engines", gpu.getLong("regions"), "gpu", uuid);
    out.gauge(
        "kvtier_gpu_staging_bytes",
        "Device memory that copies pass through",
        gpu.getLong("staging_bytes"),
        "gpu",
        uuid);
    String help =
        "Bytes copied from each GPU (read), to it (write), and to it from other regions (peer)";
    out.counter(
        "kvtier_gpu_copied_bytes",
        help,
        gpu.getLong("offloaded_bytes"),
        "gpu",
        uuid,
        "direction",
        "read");
    out.counter(
        "kvtier_gpu_copied_bytes",
        help,
        gpu.getLong("onboarded_bytes"),
        "gpu",
        uuid,
        "direction",
        "write");
    out.counter(
        "kvtier_gpu_copied_bytes",
        help,
        gpu.getLong("peer_bytes"),
        "gpu",
        uuid,
        "direction",
        "peer");
    out.counter("kvtier_gpu_copy_errors", "Copies that failed", gpu.getLong("errors"), "gpu", uuid);
    out.gauge(
        "kvtier_gpu_fenced",
        "Whether nothing is copied any more: 0 or 1",
        gpu.getString("fence") == null ? 0 : 1,
        "gpu",
        uuid);
    if (gpu.getValue("encoding") instanceof JsonObject encoding) {
      encoding(out, uuid, encoding);
    }
  }

  private static void encoding(Families out, String uuid, JsonObject encoding) {
    out.gauge(
        "kvtier_gpu_encodes",
        "Whether the GPU encodes blocks of the region that was opened last, of those with an"
            + " encoding: 0 or 1. Only with gpu.encode: auto",
        "encoded".equals(encoding.getString("form")) ? 1 : 0,
        "gpu",
        uuid);
    for (String direction : List.of("read", "write")) {
      JsonObject speeds = encoding.getJsonObject(direction);
      for (String form : List.of("raw", "encoded")) {
        out.gauge(
            "kvtier_gpu_measured_bytes_per_second",
            "Speed of copies of raw and encoded blocks, measured when the GPU came into use, in"
                + " bytes of raw blocks. Only with gpu.encode: auto",
            speeds.getLong(form + "_bytes_per_second"),
            "gpu",
            uuid,
            "direction",
            direction,
            "form",
            form);
      }
    }
  }

  private static void events(Families out, @Nullable JsonObject events) {
    if (events != null) {
      events.forEach(field -> {
        if (field.getValue() instanceof Number value) {
          out.counter(
              "kvtier_events_" + field.getKey(),
              "Of the events for routers: " + field.getKey(),
              value.doubleValue());
        }
      });
    }
  }

  /**
   * Adds the accounts of namespaces, and the one of all others. An account whose name equals that
   * one's name is added to it.
   */
  static void accounts(Families out, List<JsonObject> accounts) {
    Map<Owner, JsonObject> all = new LinkedHashMap<>();
    for (JsonObject account : accounts) {
      String namespace = account.getString("namespace");
      Owner owner =
          namespace == null ? OTHERS : new Owner(account.getString("tenant", ""), namespace);
      all.merge(owner, account, ReportMetrics::sum);
    }
    all.forEach((owner, account) ->
        counts(
            out,
            "kvtier_namespace_",
            ", of the first 20 namespaces that engines used, and of the others together",
            account,
            "namespace",
            owner.namespace,
            "tenant",
            owner.tenant));
  }

  private static JsonObject sum(JsonObject one, JsonObject other) {
    JsonObject sum = new JsonObject();
    for (String count : COUNTS) {
      sum.put(count, one.getLong(count, 0L) + other.getLong(count, 0L));
    }
    return sum;
  }

  /** What gets found and what engines saved. */
  private static void counts(
      Families out, String prefix, String where, JsonObject counts, String... labels) {
    out.counter(
        prefix + "hits", "Blocks asked for by gets and found" + where, of(counts, "hits"), labels);
    out.counter(
        prefix + "misses",
        "Blocks asked for by gets and not found" + where,
        of(counts, "misses"),
        labels);
    out.counter(
        prefix + "saved_tokens",
        "Tokens that engines loaded and did not compute, as they report" + where,
        of(counts, "saved_tokens"),
        labels);
    out.counter(
        prefix + "saved_prefill_seconds",
        "Time that computing these tokens would have taken" + where,
        of(counts, "saved_prefill_ns") / 1e9,
        labels);
    out.counter(
        prefix + "spent_load_seconds",
        "Time that the loads of these tokens took" + where,
        of(counts, "spent_load_ns") / 1e9,
        labels);
  }

  private static double of(JsonObject counts, String name) {
    return counts.getLong(name, 0L);
  }

  /** The tenant and the namespace of a series. */
  private record Owner(String tenant, String namespace) {}

  /** The blocks of a namespace, by tier. */
  private record Held(long hostBlocks, long ssdBlocks, long hostBytes, long ssdBytes) {
    private long bytes() {
      return hostBytes + ssdBytes;
    }

    private Held plus(Held other) {
      return new Held(
          hostBlocks + other.hostBlocks,
          ssdBlocks + other.ssdBlocks,
          hostBytes + other.hostBytes,
          ssdBytes + other.ssdBytes);
    }
  }

  /**
   * Adds series for the largest namespaces, and one series for all others. A namespace whose name
   * equals that series' name is added to it.
   */
  private static void namespaces(Families out, List<JsonObject> namespaces, long total) {
    out.gauge("kvtier_namespaces", "Registered namespaces", (double) total);
    Map<Owner, Held> all = new HashMap<>();
    for (JsonObject one : namespaces) {
      long hostBlocks = one.getLong("host_blocks", 0L);
      long ssdBlocks = one.getLong("ssd_blocks", 0L);
      long blockBytes = one.getLong("block_bytes", 0L);
      all.merge(
          new Owner(one.getString("tenant", ""), one.getString("name", "")),
          new Held(hostBlocks, ssdBlocks, hostBlocks * blockBytes, ssdBlocks * blockBytes),
          Held::plus);
    }
    List<Map.Entry<Owner, Held>> sorted = new ArrayList<>(all.entrySet());
    sorted.sort(
        Map.Entry.<Owner, Held>comparingByValue(Comparator.comparingLong(Held::bytes).reversed())
            .thenComparing(one -> one.getKey().tenant())
            .thenComparing(one -> one.getKey().namespace()));
    Map<Owner, Held> shown = new LinkedHashMap<>();
    for (Map.Entry<Owner, Held> one : sorted) {
      shown.merge(
          shown.size() < NAMESPACES_MAX ? one.getKey() : OTHERS, one.getValue(), Held::plus);
    }
    shown.forEach((owner, held) -> {
      String blocks = "Blocks of the namespaces with most bytes; of the others together";
      String bytes = "Bytes of the namespaces with most; of the others together";
      namespace(out, "kvtier_namespace_blocks", blocks, owner, "host", held.hostBlocks);
      namespace(out, "kvtier_namespace_blocks", blocks, owner, "ssd", held.ssdBlocks);
      namespace(out, "kvtier_namespace_bytes", bytes, owner, "host", held.hostBytes);
      namespace(out, "kvtier_namespace_bytes", bytes, owner, "ssd", held.ssdBytes);
    });
    for (JsonObject one : namespaces) {
      Owner owner = new Owner(one.getString("tenant", ""), one.getString("name", ""));
      if (shown.containsKey(owner)) {
        errors(out, one);
      }
    }
  }

  /** The errors of a namespace with a lossy encoding; nothing of any other. */
  static void errors(Families out, JsonObject namespace) {
    JsonArray means = namespace.getJsonArray("encoding_errors", new JsonArray());
    for (int layer = 0; layer < means.size(); layer++) {
      out.gauge(
          "kvtier_encoding_error_ratio",
          "Mean relative error of blocks in a lossy encoding, by layer: sums of differences by sums"
              + " of magnitudes",
          means.getDouble(layer),
          "namespace",
          namespace.getString("name", ""),
          "tenant",
          namespace.getString("tenant", ""),
          "layer",
          means.size() == 1 ? "all" : String.valueOf(layer));
    }
  }

  private static void namespace(
      Families out, String name, String help, Owner owner, String tier, long value) {
    out.gauge(
        name,
        help,
        (double) value,
        "namespace",
        owner.namespace,
        "tenant",
        owner.tenant,
        "tier",
        tier);
  }
}
