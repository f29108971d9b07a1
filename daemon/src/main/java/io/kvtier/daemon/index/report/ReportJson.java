package io.kvtier.daemon.index.report;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.daemon.index.core.Accounts;
import io.kvtier.policies.WhatIf;
import io.kvtier.protocol.Counter;
import io.kvtier.tiers.gpu.CopyStrategy;
import io.kvtier.tiers.gpu.EncodingChoice;
import io.kvtier.tiers.gpu.FormSpeeds;
import io.kvtier.tiers.gpu.GpuReport;
import io.kvtier.tiers.host.NumaReport;
import io.kvtier.tiers.object.janitor.JanitorReport;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A {@link Report} as one JSON object of limited size. The object is in ASCII, so that each
 * character is one byte. Lists are cut where the object would be too long: namespaces with fewest
 * bytes, size classes with fewest regions, and the last sessions are left out. The field {@code
 * ..._total} of a list has the count of all entries.
 */
public final class ReportJson {
  /** Room for the end of each list and of the object. */
  private static final int LISTS_END_BYTES = 64;

  private final JsonObject out = new JsonObject();

  /** The length of the object so far. */
  private int length = "{}".length();

  private ReportJson() {}

  /** Makes the JSON of a report, of at most a number of bytes. */
  public static String of(Report report, int bytesMax) {
    return new ReportJson().add(report, bytesMax);
  }

  private String add(Report report, int bytesMax) {
    add(report.identity());
    add(report.work());
    JsonArray tiers = new JsonArray();
    for (Report.Tier tier : report.storage().tiers()) {
      tiers.add(json(tier, bytesMax / 8));
    }
    put("tiers", tiers);
    put("retained", json(report.storage().retained()));
    add(report.storage());
    JsonArray troubles = new JsonArray();
    for (HealthReport.Trouble trouble : report.health().troubles()) {
      troubles.add(
          new JsonObject()
              .add("part", trouble.part())
              .add("reason", trouble.reason())
              .add("cure", trouble.cure()));
    }
    put("troubles", troubles);
    Report.Clients clients = report.clients();
    list("accounts", bytesMax / 2, clients.accounts(), ReportJson::json);
    list("namespaces", bytesMax * 3 / 4, clients.namespaces(), ReportJson::json);
    if (clients.tenants() != null) {
      list("tenants", bytesMax - LISTS_END_BYTES, clients.tenants(), ReportJson::json);
    }
    list("sessions", bytesMax - LISTS_END_BYTES, clients.sessions(), ReportJson::json);
    return ascii(out.toString());
  }

  private void put(String name, JsonValue value) {
    out.add(name, value);
    length += "\"\":,".length() + name.length() + ascii(value.toString()).length();
  }

  /** Adds the entries that fit below a length of the object, and the count of all entries. */
  private <T> void list(String name, int lengthMax, List<T> items, Function<T, JsonObject> json) {
    put(name + "_total", Json.value(items.size()));
    put(name, fitting(items, json, lengthMax - length - name.length()));
  }

  private static <T> JsonArray fitting(List<T> items, Function<T, JsonObject> json, int lengthMax) {
    JsonArray array = new JsonArray();
    int left = lengthMax;
    for (T item : items) {
      JsonObject object = json.apply(item);
      left -= ascii(object.toString()).length() + ",".length();
      if (left < 0) {
        break;
      }
      array.add(object);
    }
    return array;
  }

  private void add(Report.Identity identity) {
    put("version", Json.value(identity.version()));
    put("pid", Json.value(ProcessHandle.current().pid()));
    put("generation", Json.value(Long.toHexString(identity.generation())));
    put("uptime_s", Json.value(identity.uptimeS()));
    put("draining", Json.value(identity.drains()));
    put("node", Json.value(identity.node()));
  }

  private void add(Report.Work work) {
    JsonObject counters = new JsonObject();
    for (Counter counter : Counter.values()) {
      counters.add(counter.key(), work.counters().getOrDefault(counter, 0L));
    }
    put("counters", counters);
    JsonObject drops = new JsonObject();
    work.drops().forEach(drops::add);
    put("drops", drops);
    JsonObject latencies = new JsonObject();
    for (Report.Latency latency : work.latencies()) {
      JsonObject one =
          new JsonObject().add("count", latency.count()).add("sum_ns", latency.sumNs());
      for (Report.Quantile quantile : Report.Quantile.values()) {
        long ns = latency.quantilesNs().getOrDefault(quantile, -1L);
        one.add(quantile.key(), ns < 0 ? Json.NULL : Json.value(ns));
      }
      latencies.add(latency.kind(), one);
    }
    put("latency", latencies);
  }

  private static JsonObject json(Report.Tier tier, int classesLengthMax) {
    Report.Space space = tier.space();
    JsonObject json =
        new JsonObject()
            .add("tier", tier.name())
            .add("bytes_capacity", space.bytesCapacity())
            .add("bytes_used", space.bytesUsed())
            .add("slots_total", space.slotsTotal())
            .add("slots_free", space.slotsFree())
            .add("slots_resident", space.slotsResident())
            .add("slots_in_flight", space.slotsInFlight())
            .add("policy", tier.policy());
    JsonArray whatIf = new JsonArray();
    for (WhatIf other : tier.whatIf()) {
      whatIf.add(
          new JsonObject()
              .add("policy", other.policy())
              .add("factor", other.factor())
              .add("offered", other.offered())
              .add("references", other.references())
              .add("block_hits", other.blockHits())
              .add("prefix_hits", other.prefixHits()));
    }
    json.add("what_if", whatIf);
    json.add("size_classes_total", tier.sizeClasses().size());
    json.add("size_classes", fitting(tier.sizeClasses(), ReportJson::json, classesLengthMax));
    if (tier.trouble() != null) {
      json.add("trouble", tier.trouble());
    }
    if (tier.lower() != null) {
      add(json, tier.lower());
    }
    return json;
  }

  private static JsonObject json(Report.SizeClass sizeClass) {
    return new JsonObject()
        .add("slot_bytes", sizeClass.slotBytes())
        .add("regions", sizeClass.regions())
        .add("slots_free", sizeClass.slotsFree());
  }

  private static void add(JsonObject json, Report.Lower lower) {
    json.add("admission", lower.admission())
        .add("directory", lower.directory())
        .add("engine", lower.engine())
        .add("direct_io", lower.directIo())
        .add("scrub_bytes_per_second", lower.scrubBytesPerSecond());
    JsonArray devices = new JsonArray();
    for (int i = 0; i < lower.devices().size(); i++) {
      Report.Device device = lower.devices().get(i);
      devices.add(
          new JsonObject()
              .add("device", i)
              .add("state", device.state())
              .add("cause", device.cause())
              .add("in_flight", device.inFlight()));
    }
    json.add("devices", devices);
  }

  private void add(Report.Storage storage) {
    if (storage.object() != null) {
      JsonObject object = new JsonObject().add("admission", storage.object().admission());
      storage.object().fields().forEach((name, value) -> object.add(name, json(value)));
      put("object", object);
    }
    JsonArray gpus = new JsonArray();
    for (GpuReport gpu : storage.gpus()) {
      gpus.add(json(gpu));
    }
    put("gpus", gpus);
    if (storage.numa() != null) {
      put("numa", json(storage.numa()));
    }
    if (storage.events() != null) {
      JsonObject events = new JsonObject();
      storage.events().forEach((name, value) -> events.add(name, json(value)));
      put("events", events);
    }
  }

  private static JsonObject json(NumaReport numa) {
    JsonArray nodes = new JsonArray();
    for (NumaReport.Node node : numa.nodes()) {
      JsonArray gpus = new JsonArray();
      node.home().gpus().forEach(gpus::add);
      nodes.add(
          new JsonObject()
              .add("node", node.home().node())
              .add("slab_bytes", node.slabBytes())
              .add("taken_bytes", node.takenBytes())
              .add("processors", node.home().cpus().cardinality())
              .add("gpus", gpus));
    }
    return new JsonObject()
        .add("nodes", nodes)
        .add("elsewhere_bytes", numa.elsewhereBytes())
        .add("trouble", numa.trouble());
  }

  private static JsonObject json(GpuReport gpu) {
    JsonObject copied = new JsonObject();
    for (Map.Entry<CopyStrategy, Long> each : gpu.copied().bytesByStrategy().entrySet()) {
      copied.add(each.getKey().name().toLowerCase(Locale.ROOT), each.getValue());
    }
    return new JsonObject()
        .add("gpu", gpu.device().ordinal())
        .add("uuid", gpu.device().uuid())
        .add("name", gpu.device().name())
        .add("regions", gpu.regions())
        .add("staging_bytes", gpu.memory().stagingBytes())
        .add("context_bytes", gpu.memory().contextBytes())
        .add("offloaded_bytes", gpu.copied().offloadedBytes())
        .add("onboarded_bytes", gpu.copied().onboardedBytes())
        .add("peer_bytes", gpu.copied().peerBytes())
        .add("errors", gpu.errors())
        .add("copied_bytes", copied)
        .add("encoding", encoding(gpu.encoding()))
        .add("fence", Json.value(gpu.fence()));
  }

  private static JsonValue encoding(@Nullable EncodingChoice choice) {
    if (choice == null) {
      return Json.NULL;
    }
    return new JsonObject()
        .add("form", choice.isEncoded() ? "encoded" : "raw")
        .add("read", json(choice.offload()))
        .add("write", json(choice.onboard()));
  }

  private static JsonObject json(FormSpeeds speeds) {
    return new JsonObject()
        .add("raw_bytes_per_second", (long) (speeds.rawBytesPerNs() * 1e9))
        .add("encoded_bytes_per_second", (long) (speeds.encodedBytesPerNs() * 1e9));
  }

  private static JsonValue json(Object value) {
    return switch (value) {
      case Boolean truth -> Json.value(truth);
      case Integer number -> Json.value(number);
      case Long number -> Json.value(number);
      case Double number -> Json.value(number);
      case JanitorReport task -> Json.parse(task.json());
      default -> Json.value(value.toString());
    };
  }

  private static JsonObject json(Accounts.Account account) {
    JsonObject json = new JsonObject();
    if (!account.tenant().isEmpty()) {
      json.add("tenant", account.tenant());
    }
    if (account.namespace() != null) {
      json.add("namespace", account.namespace());
    }
    account.counts().forEach((column, count) -> json.add(column.key(), count));
    return json;
  }

  private static JsonObject json(Report.Namespace namespace) {
    JsonObject json = new JsonObject().add("id", namespace.id()).add("name", namespace.name());
    if (namespace.tenant() != null) {
      json.add("tenant", namespace.tenant());
    }
    JsonObject properties = new JsonObject();
    namespace.properties().forEach(properties::add);
    json.add("fingerprint", namespace.fingerprint()).add("block_bytes", namespace.blockBytes());
    namespace.blocks().forEach((tier, blocks) -> json.add(tier + "_blocks", blocks));
    if (!namespace.errors().isEmpty()) {
      JsonArray errors = new JsonArray();
      namespace.errors().forEach(error -> errors.add(Math.round(error * 1e6) / 1e6));
      json.add("encoding_errors", errors);
    }
    return json.add("properties", properties);
  }

  private static JsonObject json(Report.Tenant tenant) {
    JsonObject json = new JsonObject().add("name", tenant.name());
    tenant
        .tiers()
        .forEach((tier, share) ->
            json.add(tier + "_bytes_used", share.bytesUsed())
                .add(tier + "_bytes_capacity", share.bytesCapacity()));
    tenant.counts().forEach((column, count) -> json.add(column.key(), count));
    return json.add("blocks", tenant.blocks()).add("retained", json(tenant.retained()));
  }

  private static JsonObject json(Report.Retained retained) {
    return new JsonObject()
        .add("blocks", retained.blocks())
        .add("bytes", retained.bytes())
        .add("bytes_max", retained.bytesMax());
  }

  private static JsonObject json(Report.SessionRow session) {
    return new JsonObject()
        .add("id", session.id())
        .add("pid", session.pid())
        .add("uid", session.uid())
        .add("name", session.name())
        .add("leases", session.holds().leases())
        .add("reservations", session.holds().reservations())
        .add("pins", session.holds().pins())
        .add("operations", session.operations())
        .add("requests", session.requests());
  }

  /** JSON in which characters beyond ASCII are escapes. Only texts have such characters. */
  private static String ascii(String json) {
    if (json.chars().allMatch(c -> c <= '~')) {
      return json;
    }
    StringBuilder out = new StringBuilder(2 * json.length());
    for (int i = 0; i < json.length(); i++) {
      char c = json.charAt(i);
      if (c > '~') {
        out.append("\\u").append(HexFormat.of().toHexDigits(c));
      } else {
        out.append(c);
      }
    }
    return out.toString();
  }
}
