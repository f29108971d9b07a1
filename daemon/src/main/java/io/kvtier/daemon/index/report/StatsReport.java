package io.kvtier.daemon.index.report;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.core.Accounts;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.RetentionTable;
import io.kvtier.daemon.index.device.Devices;
import io.kvtier.daemon.index.lane.Lane;
import io.kvtier.daemon.index.lane.Lanes;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.HoldTable;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionTable;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.transfer.LowerTier;
import io.kvtier.layout.encoding.EncodingErrors;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.gpu.DevicePipeline;
import io.kvtier.tiers.gpu.GpuReport;
import io.kvtier.tiers.host.NumaReport;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.function.IntPredicate;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.DoubleStream;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Copies the daemon's state into a {@link Report}, for STATS and for operators. Confined to the
 * index's thread.
 */
public final class StatsReport {
  /** The fields that do not change while the daemon runs. */
  public record Identity(String version, long generation, long startNs) {}

  /**
   * The parts of the index that the report reads.
   *
   * @param drains whether new blocks are refused
   * @param health checks the parts
   * @param events null when no events are published
   */
  public record Parts(
      IndexCore core,
      BlockStore store,
      Devices devices,
      SessionTable sessions,
      BooleanSupplier drains,
      HealthWatch health,
      @Nullable EventTap events) {}

  private final Identity identity;
  private final LongSupplier clock;
  private final Directory directory;
  private final Namespaces namespaces;
  private final Counters counters;
  private final Accounts accounts;
  private final Latencies latencies;
  private final BlockStore store;
  private final Devices devices;
  private final SessionTable sessions;
  private final BooleanSupplier drains;
  private final HealthWatch health;
  private final @Nullable EventTap events;
  private Supplier<@Nullable NumaReport> numa = () -> null;
  private String node = "";

  public StatsReport(Identity identity, Parts parts) {
    this.identity = identity;
    IndexCore core = parts.core();
    clock = core.clock();
    directory = core.directory();
    namespaces = core.namespaces();
    counters = core.counters();
    accounts = core.accounts();
    latencies = core.latencies();
    store = parts.store();
    devices = parts.devices();
    sessions = parts.sessions();
    drains = parts.drains();
    health = parts.health();
    events = parts.events();
  }

  /**
   * Copies the state. A caller of a tenant sees only the namespaces, size classes and sessions of
   * that tenant, unless the caller may administer the daemon.
   *
   * @param asker null for the daemon itself, which sees everything
   */
  public Report take(@Nullable Grant asker) {
    IntPredicate isSeen = tenant -> maySee(asker, tenant);
    long nowNs = clock.getAsLong();
    long uptimeNs = nowNs - identity.startNs;
    return new Report(
        new Report.Identity(
            identity.version,
            identity.generation,
            uptimeNs / 1_000_000_000L,
            drains.getAsBoolean(),
            node),
        health.refresh(nowNs),
        new Report.Work(counters(), store.drops().counts(), latencies()),
        new Report.Storage(tiers(isSeen), retained(isSeen), object(), gpus(), numa.get(), events()),
        new Report.Clients(
            accounts(isSeen), namespaces(isSeen), tenants(isSeen), sessions(isSeen)));
  }

  /** Sets the name by which other nodes know this one. */
  public void showNode(String name) {
    node = name;
  }

  /** Sets who knows where the first tier's memory is. */
  public void showNuma(Supplier<@Nullable NumaReport> source) {
    numa = source;
  }

  private boolean maySee(@Nullable Grant asker, int tenant) {
    return asker == null
        || asker.tenant() == tenant
        || (asker.role() == Role.ADMIN && asker.tenant() == Grant.NO_TENANT);
  }

  private Map<Counter, Long> counters() {
    Map<Counter, Long> all = new EnumMap<>(Counter.class);
    for (Counter counter : Counter.values()) {
      all.put(counter, counters.get(counter));
    }
    return all;
  }

  private List<Report.Latency> latencies() {
    List<Report.Latency> all = new ArrayList<>();
    for (Latencies.Kind kind : Latencies.Kind.values()) {
      long[] counts = latencies.counts(kind);
      Map<Report.Quantile, Long> quantiles = new EnumMap<>(Report.Quantile.class);
      for (Report.Quantile quantile : Report.Quantile.values()) {
        quantiles.put(quantile, Latencies.quantile(counts, quantile.share()));
      }
      all.add(
          new Report.Latency(
              kind.key(), Latencies.total(counts), latencies.sumNs(kind), quantiles));
    }
    return all;
  }

  private List<Report.Tier> tiers(IntPredicate isSeen) {
    List<Report.Tier> tiers = new ArrayList<>();
    tiers.add(tier(store.first(), isSeen, store.firstTrouble(), null));
    for (LowerTier lower : store.lower()) {
      if (lower.tier().isConfigured()) {
        tiers.add(tier(lower.tier(), isSeen, null, lower(lower)));
      }
    }
    return tiers;
  }

  private static Report.Tier tier(
      ResidentTier line,
      IntPredicate isSeen,
      @Nullable String trouble,
      Report.@Nullable Lower lower) {
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
    return new Report.Tier(
        line.traits().name(), space, line.policyName(), line.whatIf(), classes, trouble, lower);
  }

  private Report.Lower lower(LowerTier tier) {
    Lanes lanes = tier.lanes();
    List<Report.Device> devices = new ArrayList<>();
    for (int i = 0; i < lanes.count(); i++) {
      Lane lane = lanes.at(i);
      devices.add(new Report.Device(lane.state(), lane.cause(), lane.inFlight()));
    }
    return new Report.Lower(
        store.evictions().ingestion(tier.tier()).admissionName(),
        tier.parts().place().directory(),
        tier.parts().place().engine(),
        tier.parts().place().isDirect(),
        store.scrubbers().bytesPerSecond(tier.tier()),
        devices);
  }

  private Report.@Nullable ObjectTier object() {
    return store.objects().isConfigured()
        ? new Report.ObjectTier(
            store.uploads().ingestion().admissionName(), store.objects().report())
        : null;
  }

  private List<GpuReport> gpus() {
    List<GpuReport> gpus = new ArrayList<>();
    for (DevicePipeline pipeline : devices.pipelines()) {
      gpus.add(pipeline.report(devices.regionsOf(pipeline)));
    }
    return gpus;
  }

  private @Nullable Map<String, Object> events() {
    EventTap tap = events;
    return tap == null ? null : tap.report();
  }

  /** The shared account of all other namespaces has blocks of several tenants. */
  private List<Accounts.Account> accounts(IntPredicate isSeen) {
    List<String> names = namespaces.tenants().names();
    boolean seesAll = IntStream.range(0, names.size()).allMatch(isSeen);
    return accounts.ofNamespaces().stream()
        .filter(account ->
            account.namespace() == null
                ? seesAll
                : isSeen.test(namespaces.tenants().number(account.tenant())))
        .toList();
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
    long blocks = namespace.blocks().values().stream().mapToLong(Long::longValue).sum();
    return namespace.blockBytes() * blocks;
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
        ofTiers(tier -> (long) tier.residentOf(id)),
        errors(namespace.errors()),
        namespace.properties());
  }

  private static List<Double> errors(@Nullable EncodingErrors errors) {
    return errors == null ? List.of() : DoubleStream.of(errors.means()).boxed().toList();
  }

  /** A value for each tier, by the tier's name, in the order of tiers. */
  private <T> Map<String, T> ofTiers(Function<ResidentTier, T> value) {
    Map<String, T> all = new LinkedHashMap<>();
    store.stack().all().forEach(tier -> all.put(tier.traits().name(), value.apply(tier)));
    return all;
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
        ofTiers(tier -> share(tier.slots(), tenant)),
        directory.recordsOfTenant(tenant),
        retained(one -> one == tenant),
        accounts.ofTenant(tenant));
  }

  /** What the tenants together retain that are asked for. */
  private Report.Retained retained(IntPredicate isMeant) {
    RetentionTable retentions = directory.retentions();
    long blocks = 0;
    long bytes = 0;
    long bytesMax = 0;
    for (int tenant = 0; tenant < namespaces.tenants().count(); tenant++) {
      if (isMeant.test(tenant)) {
        blocks += retentions.blocksOf(tenant);
        bytes += retentions.bytesOf(tenant);
        bytesMax += store.retentionQuota().bytesMax(tenant);
      }
    }
    return new Report.Retained(blocks, bytes, bytesMax);
  }

  private static Report.Share share(SlotAllocator slots, int tenant) {
    return new Report.Share(
        slots.bytesUsed(tenant), slots.regionsOfPart(tenant) * slots.regionBytes());
  }

  private List<Report.SessionRow> sessions(IntPredicate isSeen) {
    List<Report.SessionRow> seen = new ArrayList<>();
    for (int place = 0; place < sessions.end(); place++) {
      Session session = sessions.at(place);
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
