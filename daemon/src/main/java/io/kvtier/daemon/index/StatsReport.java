package io.kvtier.daemon.index;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.report.Report;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.gpu.DevicePipeline;
import io.kvtier.tiers.gpu.GpuReport;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Copies the daemon's state into a {@link Report}, for STATS and for operators. Confined to the
 * index's thread.
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
   * Copies the state. A caller of a tenant sees only the namespaces, size classes and sessions of
   * that tenant, unless the caller may administer the daemon.
   *
   * @param asker null for the daemon itself, which sees everything
   */
  Report take(@Nullable Grant asker) {
    index.publishGauges();
    IntPredicate isSeen = tenant -> maySee(asker, tenant);
    long uptimeNs = context.clock().getAsLong() - identity.startNs;
    return new Report(
        new Report.Identity(
            identity.version, identity.generation, uptimeNs / 1_000_000_000L, index.drains()),
        new Report.Work(counters(), index.store().drops().counts(), latencies()),
        new Report.Storage(tiers(isSeen), object(), gpus(), events()),
        new Report.Clients(namespaces(isSeen), tenants(isSeen), sessions(isSeen)));
  }

  private boolean maySee(@Nullable Grant asker, int tenant) {
    return asker == null
        || asker.tenant() == tenant
        || (asker.role() == Role.ADMIN && asker.tenant() == Grant.NO_TENANT);
  }

  private Map<Counter, Long> counters() {
    Map<Counter, Long> counters = new EnumMap<>(Counter.class);
    for (Counter counter : Counter.values()) {
      counters.put(counter, context.counters().get(counter));
    }
    return counters;
  }

  private List<Report.Latency> latencies() {
    List<Report.Latency> latencies = new ArrayList<>();
    for (Latencies.Kind kind : Latencies.Kind.values()) {
      long[] counts = context.latencies().counts(kind);
      Map<Report.Quantile, Long> quantiles = new EnumMap<>(Report.Quantile.class);
      for (Report.Quantile quantile : Report.Quantile.values()) {
        quantiles.put(quantile, Latencies.quantile(counts, quantile.share()));
      }
      latencies.add(
          new Report.Latency(
              kind.key(), Latencies.total(counts), context.latencies().sumNs(kind), quantiles));
    }
    return latencies;
  }

  private List<Report.Tier> tiers(IntPredicate isSeen) {
    List<Report.Tier> tiers = new ArrayList<>();
    tiers.add(tier("host", index.store().host(), isSeen, index.store().hostTrouble(), null));
    if (index.store().ssd().isConfigured()) {
      tiers.add(tier("ssd", index.store().ssd(), isSeen, null, ssd()));
    }
    return tiers;
  }

  private static Report.Tier tier(
      String name,
      TierLine line,
      IntPredicate isSeen,
      @Nullable String trouble,
      Report.@Nullable Ssd ssd) {
    SlotAllocator slots = line.slots();
    Report.Space space =
        new Report.Space(
            slots.bytesCapacity(),
            slots.bytesUsed(),
            slots.slotsTotal(),
            slots.slotsFree(),
            line.resident(),
            line.inFlight());
    List<Report.SizeClass> classes =
        IntStream.range(0, slots.classes())
            .filter(sizeClass -> isSeen.test(slots.partOfClass(sizeClass)))
            .mapToObj(sizeClass ->
                new Report.SizeClass(
                    slots.slotBytes(sizeClass),
                    slots.regionsOfClass(sizeClass),
                    slots.freeOfClass(sizeClass)))
            .sorted(Comparator.comparingInt(Report.SizeClass::regions).reversed())
            .toList();
    return new Report.Tier(name, space, line.policyName(), line.whatIf(), classes, trouble, ssd);
  }

  private Report.Ssd ssd() {
    SsdLanes lanes = index.store().mover().lanes();
    List<Report.Device> devices = new ArrayList<>();
    for (int i = 0; i < lanes.count(); i++) {
      SsdLane lane = lanes.at(i);
      devices.add(new Report.Device(lane.state(), lane.cause(), lane.inFlight()));
    }
    return new Report.Ssd(
        index.store().ingestion().admissionName(),
        identity.ssdDirectory,
        identity.ssdEngine,
        identity.directIo,
        index.store().scrubBytesPerSecond(),
        devices);
  }

  private Report.@Nullable ObjectTier object() {
    return index.store().objects().isConfigured()
        ? new Report.ObjectTier(
            index.store().objectMoves().ingestion().admissionName(),
            index.store().objects().report())
        : null;
  }

  private List<GpuReport> gpus() {
    List<GpuReport> gpus = new ArrayList<>();
    for (DevicePipeline pipeline : index.devices().pipelines()) {
      gpus.add(pipeline.report(index.devices().regionsOf(pipeline)));
    }
    return gpus;
  }

  private @Nullable Map<String, Object> events() {
    EventTap tap = index.store().events();
    return tap == null ? null : tap.report();
  }

  private List<Report.Namespace> namespaces(IntPredicate isSeen) {
    List<Report.Namespace> seen = new ArrayList<>();
    for (int id = 0; id < namespaces.end(); id++) {
      Namespaces.Namespace namespace = namespaces.byId(id);
      if (namespace != null && isSeen.test(namespace.tenant())) {
        seen.add(namespace(namespace));
      }
    }
    seen.sort(Comparator.comparingLong(StatsReport::bytes).reversed());
    return seen;
  }

  private static long bytes(Report.Namespace namespace) {
    return namespace.blockBytes() * (namespace.blocks().host() + namespace.blocks().ssd());
  }

  private Report.Namespace namespace(Namespaces.Namespace namespace) {
    int id = namespace.id();
    return new Report.Namespace(
        namespace.number(),
        namespace.name(),
        namespace.tenant() == Grant.NO_TENANT
            ? null
            : namespaces.tenants().name(namespace.tenant()),
        namespace.fingerprint().inHex(),
        namespace.blockBytes(),
        new Report.Blocks(index.store().host().residentOf(id), index.store().ssd().residentOf(id)),
        namespace.properties());
  }

  private @Nullable List<Report.Tenant> tenants(IntPredicate isSeen) {
    return namespaces.tenants().count() > 1
        ? IntStream.range(0, namespaces.tenants().count())
            .filter(isSeen)
            .mapToObj(this::tenant)
            .toList()
        : null;
  }

  private Report.Tenant tenant(int tenant) {
    return new Report.Tenant(
        namespaces.tenants().name(tenant),
        share(index.store().host().slots(), tenant),
        share(index.store().ssd().slots(), tenant),
        context.directory().recordsOfTenant(tenant));
  }

  private static Report.Share share(SlotAllocator slots, int tenant) {
    return new Report.Share(
        slots.bytesUsed(tenant), slots.regionsOfPart(tenant) * slots.regionBytes());
  }

  private List<Report.SessionRow> sessions(IntPredicate isSeen) {
    List<Report.SessionRow> seen = new ArrayList<>();
    for (int place = 0; place < index.sessions().end(); place++) {
      Session session = index.sessions().at(place);
      if (session != null && isSeen.test(session.tenant())) {
        seen.add(session(session));
      }
    }
    return seen;
  }

  private static Report.SessionRow session(Session session) {
    return new Report.SessionRow(
        session.id(),
        session.peerProcess(),
        session.peerUser(),
        session.name(),
        new Report.Holds(
            session.times(HoldTable.LEASE),
            session.times(HoldTable.RESERVATION),
            session.times(HoldTable.PIN)),
        session.operations,
        session.requestCount);
  }
}
