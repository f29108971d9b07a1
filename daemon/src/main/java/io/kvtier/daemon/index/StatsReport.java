package io.kvtier.daemon.index;

import io.kvtier.daemon.access.Grant;
import io.kvtier.policies.WhatIf;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.gpu.CopyStrategy;
import io.kvtier.tiers.gpu.DevicePipeline;
import io.kvtier.tiers.gpu.GpuReport;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.IntFunction;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * The daemon's state as one JSON object, for STATS and the admin command. Made on the index's
 * thread.
 */
final class StatsReport {
  /** What does not change while the daemon runs. */
  record Identity(
      String version,
      long generation,
      long startNs,
      String ssdDirectory,
      String ssdEngine,
      boolean directIo) {}

  /** What is written behind the last entry of a list. */
  private static final int LISTS_END_BYTES = 64;

  private final Identity identity;
  private final Index index;
  private final IndexAgent.Context context;
  private final Namespaces namespaces;

  StatsReport(Identity identity, Index index, IndexAgent.Context context, Namespaces namespaces) {
    this.identity = identity;
    this.index = index;
    this.context = context;
    this.namespaces = namespaces;
  }

  /**
   * The object, of at most that many bytes: of namespaces those with fewest bytes are left out when
   * there are too many, of size classes those with fewest regions, and sessions from the end; how
   * many there are is told all the same. Who is of a tenant is told of that tenant's namespaces,
   * size classes and sessions only, unless it may administer the daemon.
   *
   * @param asker null: the daemon itself, for operators
   */
  String json(@Nullable Grant asker, int bytesMax) {
    index.publishGauges();
    StringBuilder out = new StringBuilder(4096);
    out.append("{\"version\":").append(quote(identity.version));
    out.append(",\"pid\":").append(ProcessHandle.current().pid());
    out.append(",\"generation\":\"").append(Long.toHexString(identity.generation)).append('"');
    out.append(",\"uptime_s\":")
        .append((context.clock().getAsLong() - identity.startNs) / 1_000_000_000L);
    out.append(",\"draining\":").append(index.drains());
    out.append(",\"counters\":{");
    String separator = "";
    for (Counter counter : Counter.values()) {
      out.append(separator)
          .append(quote(counter.key()))
          .append(':')
          .append(context.counters().get(counter));
      separator = ",";
    }
    out.append("},\"drops\":").append(index.store().drops().json());
    latencies(out);
    out.append(",\"tiers\":[");
    IntPredicate isSeen = tenant -> maySee(asker, tenant);
    int classesBytesMax = bytesMax / 8;
    tier(out, "host", index.store().host(), isSeen, classesBytesMax);
    out.append(",\"trouble\":").append(quote(index.store().hostTrouble()));
    out.append('}');
    if (index.store().ssd().isConfigured()) {
      out.append(',');
      tier(out, "ssd", index.store().ssd(), isSeen, classesBytesMax);
      out.append(",\"admission\":").append(quote(index.store().ingestion().admissionName()));
      out.append(",\"directory\":").append(quote(identity.ssdDirectory));
      out.append(",\"engine\":").append(quote(identity.ssdEngine));
      out.append(",\"direct_io\":").append(identity.directIo);
      out.append(",\"scrub_bytes_per_second\":").append(index.store().scrubBytesPerSecond());
      devices(out);
      out.append('}');
    }
    out.append(']');
    if (index.store().objects().isConfigured()) {
      object(out);
    }
    gpus(out);
    events(out);
    troubles(out);
    list(out, "namespaces", bytesMax * 3 / 4, namespaceIds(isSeen), this::namespace);
    if (namespaces.tenants().count() > 1) {
      int[] tenants = IntStream.range(0, namespaces.tenants().count()).filter(isSeen).toArray();
      list(out, "tenants", bytesMax - LISTS_END_BYTES, tenants, this::tenant);
    }
    list(out, "sessions", bytesMax - LISTS_END_BYTES, sessionPlaces(isSeen), this::session);
    return out.append('}').toString();
  }

  private void latencies(StringBuilder out) {
    out.append(",\"latency\":{");
    String separator = "";
    for (Latencies.Kind kind : Latencies.Kind.values()) {
      long[] counts = context.latencies().counts(kind);
      out.append(separator).append(quote(kind.key()));
      out.append(":{\"count\":").append(Latencies.total(counts));
      out.append(",\"sum_ns\":").append(context.latencies().sumNs(kind));
      quantile(out, ",\"p50_ns\":", counts, 0.5);
      quantile(out, ",\"p90_ns\":", counts, 0.9);
      quantile(out, ",\"p99_ns\":", counts, 0.99);
      quantile(out, ",\"p999_ns\":", counts, 0.999);
      quantile(out, ",\"max_ns\":", counts, 1);
      out.append('}');
      separator = ",";
    }
    out.append('}');
  }

  private static void quantile(StringBuilder out, String name, long[] counts, double share) {
    long ns = Latencies.quantile(counts, share);
    out.append(name).append(ns < 0 ? "null" : Long.toString(ns));
  }

  private void devices(StringBuilder out) {
    SsdLanes lanes = index.store().mover().lanes();
    out.append(",\"devices\":[");
    for (int i = 0; i < lanes.count(); i++) {
      SsdLane lane = lanes.at(i);
      out.append(i == 0 ? "" : ",").append("{\"device\":").append(i);
      out.append(",\"state\":").append(quote(lane.state()));
      out.append(",\"cause\":").append(quote(lane.cause()));
      out.append(",\"in_flight\":").append(lane.inFlight()).append('}');
    }
    out.append(']');
  }

  private void object(StringBuilder out) {
    out.append(",\"object\":{\"admission\":");
    out.append(quote(index.store().objectMoves().ingestion().admissionName()));
    fields(out, ",", index.store().objects().report());
    out.append('}');
  }

  private void gpus(StringBuilder out) {
    out.append(",\"gpus\":[");
    String separator = "";
    for (DevicePipeline pipeline : index.devices().pipelines()) {
      GpuReport gpu = pipeline.report(index.devices().regionsOf(pipeline));
      String fence = gpu.fence();
      out.append(separator).append("{\"gpu\":").append(gpu.device().ordinal());
      out.append(",\"uuid\":").append(quote(gpu.device().uuid()));
      out.append(",\"name\":").append(quote(gpu.device().name()));
      out.append(",\"regions\":").append(gpu.regions());
      out.append(",\"staging_bytes\":").append(gpu.stagingBytes());
      out.append(",\"context_bytes\":").append(gpu.contextBytes());
      out.append(",\"offloaded_bytes\":").append(gpu.offloadedBytes());
      out.append(",\"onboarded_bytes\":").append(gpu.onboardedBytes());
      out.append(",\"peer_bytes\":").append(gpu.peerBytes());
      out.append(",\"errors\":").append(gpu.errors());
      out.append(",\"copied_bytes\":{");
      String comma = "";
      for (Map.Entry<CopyStrategy, Long> each : gpu.bytesByStrategy().entrySet()) {
        String strategy = each.getKey().name().toLowerCase(Locale.ROOT);
        out.append(comma).append(quote(strategy)).append(':').append(each.getValue());
        comma = ",";
      }
      out.append("},\"fence\":").append(fence == null ? "null" : quote(fence)).append('}');
      separator = ",";
    }
    out.append(']');
  }

  private void troubles(StringBuilder out) {
    Troubles troubles = new Troubles();
    troubles.drain(index.drains());
    troubles.hostLedger(index.store().hostTrouble());
    if (index.store().ssd().isConfigured()) {
      SsdLanes lanes = index.store().mover().lanes();
      for (int i = 0; i < lanes.count(); i++) {
        troubles.device(i, lanes.at(i).state(), lanes.at(i).cause());
      }
    }
    troubles.keeper(context.counters().get(Counter.GAUGE_KEEPER_MISSING) != 0);
    troubles.object(index.store().objects().report());
    for (DevicePipeline pipeline : index.devices().pipelines()) {
      GpuReport gpu = pipeline.report(index.devices().regionsOf(pipeline));
      String fence = gpu.fence();
      if (fence != null) {
        troubles.gpu(gpu.device().ordinal(), fence);
      }
    }
    out.append(",\"troubles\":[");
    String separator = "";
    for (Troubles.Trouble trouble : troubles.all()) {
      out.append(separator).append("{\"part\":").append(quote(trouble.part()));
      out.append(",\"reason\":").append(quote(trouble.reason())).append('}');
      separator = ",";
    }
    out.append(']');
  }

  private void events(StringBuilder out) {
    EventTap tap = index.store().events();
    if (tap != null) {
      out.append(",\"events\":{");
      fields(out, "", tap.report());
      out.append('}');
    }
  }

  private static void fields(StringBuilder out, String before, Map<String, Object> fields) {
    String separator = before;
    for (Map.Entry<String, Object> field : fields.entrySet()) {
      out.append(separator).append(quote(field.getKey())).append(':');
      Object value = field.getValue();
      out.append(value instanceof String text ? quote(text) : ascii(String.valueOf(value)));
      separator = ",";
    }
  }

  /** Those with most bytes first. */
  private int[] namespaceIds(IntPredicate isSeen) {
    List<Namespaces.Namespace> seen = new ArrayList<>();
    for (int id = 0; id < namespaces.end(); id++) {
      Namespaces.Namespace namespace = namespaces.byId(id);
      if (namespace != null && isSeen.test(namespace.tenant())) {
        seen.add(namespace);
      }
    }
    seen.sort(Comparator.comparingLong(this::bytes).reversed());
    return seen.stream().mapToInt(Namespaces.Namespace::id).toArray();
  }

  private long bytes(Namespaces.Namespace namespace) {
    int id = namespace.id();
    return namespace.blockBytes()
        * (index.store().host().residentOf(id) + index.store().ssd().residentOf(id));
  }

  private int[] sessionPlaces(IntPredicate isSeen) {
    return IntStream.range(0, index.sessions().end())
        .filter(place -> {
          Session session = index.sessions().at(place);
          return session != null && isSeen.test(session.tenant());
        })
        .toArray();
  }

  /** As many as there is room for, and how many there are. */
  private static void list(
      StringBuilder out, String name, int bytesMax, int[] ids, IntFunction<String> item) {
    out.append(",\"").append(name).append("_total\":").append(ids.length);
    out.append(",\"").append(name).append("\":[");
    String separator = "";
    for (int id : ids) {
      String text = item.apply(id);
      if (out.length() + text.length() > bytesMax) {
        break;
      }
      out.append(separator).append(text);
      separator = ",";
    }
    out.append(']');
  }

  private static void tier(
      StringBuilder out, String name, TierLine line, IntPredicate isSeen, int classesBytesMax) {
    SlotAllocator slots = line.slots();
    out.append("{\"tier\":").append(quote(name));
    out.append(",\"bytes_capacity\":").append(slots.bytesCapacity());
    out.append(",\"bytes_used\":").append(slots.bytesUsed());
    out.append(",\"slots_total\":").append(slots.slotsTotal());
    out.append(",\"slots_free\":").append(slots.slotsFree());
    out.append(",\"slots_resident\":").append(line.resident());
    out.append(",\"slots_in_flight\":").append(line.inFlight());
    out.append(",\"policy\":").append(quote(line.policyName()));
    out.append(",\"what_if\":[");
    String separator = "";
    for (WhatIf other : line.whatIf()) {
      out.append(separator).append("{\"policy\":").append(quote(other.policy()));
      out.append(",\"factor\":").append(other.factor());
      out.append(",\"offered\":").append(other.offered());
      out.append(",\"references\":").append(other.references());
      out.append(",\"block_hits\":").append(other.blockHits());
      out.append(",\"prefix_hits\":").append(other.prefixHits()).append('}');
      separator = ",";
    }
    out.append(']');
    int[] classes =
        IntStream.range(0, slots.classes())
            .filter(sizeClass -> isSeen.test(slots.partOfClass(sizeClass)))
            .boxed()
            .sorted(Comparator.comparingInt(slots::regionsOfClass).reversed())
            .mapToInt(Integer::intValue)
            .toArray();
    list(
        out,
        "size_classes",
        out.length() + classesBytesMax,
        classes,
        sizeClass -> sizeClass(slots, sizeClass));
  }

  private static String sizeClass(SlotAllocator slots, int sizeClass) {
    return "{\"slot_bytes\":"
        + slots.slotBytes(sizeClass)
        + ",\"regions\":"
        + slots.regionsOfClass(sizeClass)
        + ",\"slots_free\":"
        + slots.freeOfClass(sizeClass)
        + "}";
  }

  private boolean maySee(@Nullable Grant asker, int tenant) {
    return asker == null
        || asker.tenant() == tenant
        || (asker.role() == Role.ADMIN && asker.tenant() == Grant.NO_TENANT);
  }

  private String namespace(int id) {
    Namespaces.Namespace namespace = Objects.requireNonNull(namespaces.byId(id));
    StringBuilder out = new StringBuilder();
    out.append("{\"id\":")
        .append(namespace.number())
        .append(",\"name\":")
        .append(quote(namespace.name()));
    if (namespace.tenant() != Grant.NO_TENANT) {
      out.append(",\"tenant\":").append(quote(namespaces.tenants().name(namespace.tenant())));
    }
    out.append(",\"fingerprint\":").append(quote(namespace.fingerprint().inHex()));
    out.append(",\"block_bytes\":").append(namespace.blockBytes());
    out.append(",\"host_blocks\":").append(index.store().host().residentOf(id));
    out.append(",\"ssd_blocks\":").append(index.store().ssd().residentOf(id));
    out.append(",\"properties\":{");
    String separator = "";
    for (Map.Entry<String, String> property : namespace.properties().entrySet()) {
      out.append(separator)
          .append(quote(property.getKey()))
          .append(':')
          .append(quote(property.getValue()));
      separator = ",";
    }
    return out.append("}}").toString();
  }

  private String session(int place) {
    Session session = Objects.requireNonNull(index.sessions().at(place));
    return "{\"id\":"
        + session.id()
        + ",\"pid\":"
        + session.peerProcess()
        + ",\"uid\":"
        + session.peerUser()
        + ",\"name\":"
        + quote(session.name())
        + ",\"leases\":"
        + session.times(HoldTable.LEASE)
        + ",\"reservations\":"
        + session.times(HoldTable.RESERVATION)
        + ",\"pins\":"
        + session.times(HoldTable.PIN)
        + ",\"operations\":"
        + session.operations
        + ",\"requests\":"
        + session.requestCount
        + "}";
  }

  private String tenant(int tenant) {
    SlotAllocator host = index.store().host().slots();
    SlotAllocator ssd = index.store().ssd().slots();
    return "{\"name\":"
        + quote(namespaces.tenants().name(tenant))
        + ",\"host_bytes_used\":"
        + host.bytesUsed(tenant)
        + ",\"host_bytes_capacity\":"
        + host.regionsOfPart(tenant) * host.regionBytes()
        + ",\"ssd_bytes_used\":"
        + ssd.bytesUsed(tenant)
        + ",\"ssd_bytes_capacity\":"
        + ssd.regionsOfPart(tenant) * ssd.regionBytes()
        + ",\"blocks\":"
        + context.directory().recordsOfTenant(tenant)
        + "}";
  }

  /** In ASCII: what is written has as many bytes as characters, and can't be cut within one. */
  private static String quote(String text) {
    StringBuilder out = new StringBuilder(text.length() + 2).append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ') {
        escape(out, c);
      } else {
        out.append(c);
      }
    }
    return ascii(out.append('"').toString());
  }

  /** JSON whose texts, and so it all, are in ASCII. */
  private static String ascii(String json) {
    if (json.chars().allMatch(c -> c <= '~')) {
      return json;
    }
    StringBuilder out = new StringBuilder(2 * json.length());
    for (int i = 0; i < json.length(); i++) {
      char c = json.charAt(i);
      if (c > '~') {
        escape(out, c);
      } else {
        out.append(c);
      }
    }
    return out.toString();
  }

  private static void escape(StringBuilder out, char c) {
    out.append("\\u").append(HexFormat.of().toHexDigits(c));
  }
}
