package io.kvtier.daemon;

import io.kvtier.daemon.access.Callers;
import io.kvtier.daemon.access.Listener;
import io.kvtier.daemon.access.ServerTls;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.events.EventPublisher;
import io.kvtier.daemon.grpc.GrpcFront;
import io.kvtier.daemon.http.HttpFront;
import io.kvtier.daemon.index.IndexAgent;
import io.kvtier.daemon.index.IndexContext;
import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.move.StoreParts;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.daemon.index.report.Heartbeat;
import io.kvtier.daemon.index.report.RequestTap;
import io.kvtier.daemon.index.session.IndexProcessor;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.space.TierParts;
import io.kvtier.daemon.node.NodeFinder;
import io.kvtier.daemon.node.Nodes;
import io.kvtier.daemon.session.PeerPolicy;
import io.kvtier.daemon.session.SessionConductor;
import io.kvtier.daemon.tracing.RequestTeller;
import io.kvtier.daemon.tracing.SpanSender;
import io.kvtier.protocol.Counted;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.Epoll;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.ThreadCpus;
import io.kvtier.protocol.linux.UnixSocket;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.gpu.CudaDriver;
import io.kvtier.tiers.gpu.DevicePipeline;
import io.kvtier.tiers.gpu.GpuProbe;
import io.kvtier.tiers.gpu.GpuTier;
import io.kvtier.tiers.host.HugePages;
import io.kvtier.tiers.host.PageTaker;
import io.kvtier.tiers.host.SlabStore;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.ssd.SsdEngine;
import io.kvtier.tiers.transfer.Pipeline;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The whole daemon: makes its parts, connects them, and takes them apart in the opposite order. */
public final class Daemon implements AutoCloseable {
  /** The version of the project, as pom.xml has it; {@code scripts/generate} writes it here. */
  public static final String VERSION = "0.2.0";

  private static final Logger LOG = LoggerFactory.getLogger(Daemon.class);
  private static final int SLOT_ALIGNMENT = 4096;

  private final Deque<AutoCloseable> parts = new ArrayDeque<>();
  private final Supplier<GpuProbe> probe;
  private final NumaSource numa;
  private final @Nullable Function<Reloader.Live, Reloader> reloaders;
  private final boolean directIo;
  private @Nullable HostTier memory;
  private final KeptBlocks kept;
  private @Nullable GpuTier gpus;
  private @Nullable IndexRunner runner;
  private @Nullable GrpcFront grpc;
  private @Nullable HttpFront http;
  private @Nullable EventPublisher events;
  private @Nullable Reloader reloader;
  private @Nullable Nodes nodes;

  /** Finds the NUMA nodes for a number of slabs of one size. */
  @FunctionalInterface
  interface NumaSource {
    /** The homes of the slabs. */
    NumaHomes homes(int slabs, long slabBytes);
  }

  /** Starts everything; throws with a reason in words when a part can't be had. */
  public Daemon(KvtierdConfig config) throws IOException {
    this(config, CudaDriver::probe, null);
  }

  /** Starts everything with another probe for GPUs. */
  Daemon(KvtierdConfig config, Supplier<GpuProbe> probe) throws IOException {
    this(config, probe, null);
  }

  /**
   * Starts everything, with a part that can read the configuration again.
   *
   * @param reloaders makes the part that reads the configuration again; null: no part does
   */
  Daemon(
      KvtierdConfig config,
      Supplier<GpuProbe> probe,
      @Nullable Function<Reloader.Live, Reloader> reloaders)
      throws IOException {
    this(config, probe, NumaHomes::ofThisMachine, reloaders);
  }

  /** Starts everything on a machine with other NUMA nodes. */
  Daemon(
      KvtierdConfig config,
      Supplier<GpuProbe> probe,
      NumaSource numa,
      @Nullable Function<Reloader.Live, Reloader> reloaders)
      throws IOException {
    this.numa = numa;
    this.probe = probe;
    this.reloaders = reloaders;
    kept = new KeptBlocks(config.tiers().host().keeping().keepNs());
    try {
      directIo = start(config);
    } catch (IOException | RuntimeException e) {
      if (memory != null) {
        memory.abandon();
      }
      close();
      throw e;
    }
  }

  private boolean start(KvtierdConfig config) throws IOException {
    if (config.tiers().plugins().plugins().folder() != null) {
      LOG.info("plug-ins {}", config.tiers().plugins().plugins().describe());
    }
    SecureRandom random = new SecureRandom();
    long generation = random.nextLong();
    SocketPlace place = keep(SocketPlace.take(config.socket().path()));
    StartCheck.Listeners listeners = StartCheck.listeners(config);
    listeners.requireFree();
    KvtierdConfig.HostConfig host = config.tiers().host();
    KvtierdConfig.SsdConfig ssd = config.tiers().ssd();
    KvtierdConfig.LimitsConfig limits = config.limits();
    PeerPolicy peers = new PeerPolicy(SocketPaths.uid(), config.socket(), config.tenants());
    Tenants tenants = Tenants.of(config.tenants());
    Tenants.Regions hostRegions =
        tenants.regions(
            config.tenants().stream().map(KvtierdConfig.TenantConfig::hostBytes).toList(),
            host.memory().slabs(),
            host.memory().slabBytes());
    Callers callers = new Callers(config.network().access(), tenants.names());
    ServerTls tls = config.network().tls() == null ? null : new ServerTls(config.network().tls());
    // Checks that need no memory come before memory is taken.
    SsdTier.requireFree(ssd);
    ObjectTier.requireFree(config.tiers().object());
    NumaHomes homes =
        host.memory().usesNuma()
            ? numa.homes(host.memory().slabs(), host.memory().slabBytes())
            : NumaHomes.none();
    HostTier hostTier =
        keep(
            new HostTier(
                host,
                hostRegions,
                config.socket().path(),
                limits.blocksMax(),
                limits.operations().holdsMax(),
                limits.annotationBytes(),
                homes));
    memory = hostTier;
    SlabStore slabs = hostTier.slabs();
    Descriptor daemonMemory =
        keep(SharedMemory.create("kvtier-daemon", DaemonRegionDescriptor.REGION_BYTES));
    Arena arena = keep(Arena.ofShared());
    MemorySegment region = daemonRegion(daemonMemory, arena, generation, slabs);
    // Clients can read the generation. With the seed of the directory they could choose keys
    // that all collide.
    Directory directory =
        keep(
            new Directory(
                limits.blocksMax(),
                random.nextLong(),
                limits.annotationBytes(),
                KnownTiers.ALL.size()));
    Epoll epoll = keep(Epoll.create());
    EventFd bell = keep(EventFd.create());
    epoll.add(bell.descriptor(), Epoll.IN | Epoll.EDGE, 0);
    IndexDoorbell doorbell = new IndexDoorbell(region, bell);
    Counters counters = new Counters(region);
    hostTier.watchKeeper(counters::countKeeperRestart, counters::setKept);
    Latencies latencies = new Latencies();
    KvtierdConfig.CopyConfig copy = config.copies().checksums();
    Pipeline copies = keep(ChecksumThreads.start(copy, homes, doorbell, Daemon::stopBroken));
    SsdTier ssdTier =
        keep(
            new SsdTier(
                ssd, ssdRegions(config, tenants), SLOT_ALIGNMENT, doorbell, Daemon::stopBroken));
    ObjectTier objectTier =
        keep(
            new ObjectTier(
                config.tiers().object(), config.socket().path(), doorbell, Daemon::stopBroken));
    OuterSources outer =
        keep(new OuterSources(config.tiers().plugins(), doorbell, Daemon::stopBroken));
    Nodes otherNodes =
        config.network().nodes().isOn()
            ? keep(
                new Nodes(
                    config.network().nodes(), tls, callers, counters, doorbell, Daemon::stopBroken))
            : null;
    nodes = otherNodes;
    List<BlockSource.Opener> sources = new ArrayList<>(outer.openers());
    if (otherNodes != null) {
      // Other nodes' memory comes before slower places.
      sources.addAll(0, otherNodes.openers());
    }
    // Closed after the index, which knows the copies in flight, and before the memory.
    GpuTier gpus =
        keep(
            new GpuTier(
                new GpuTier.Parts(
                    config.copies().gpu().enabled() ? probe : Daemon::withoutGpus,
                    config.copies().gpu().copies(),
                    config.copies().gpu().encoding(),
                    new GpuTier.Memory(slabs::mapping, slabs.slabs(), homes),
                    IndexAgent.DEVICE_TRANSFERS,
                    doorbell,
                    Daemon::stopBroken)));
    this.gpus = gpus;
    KvtierdConfig.EventsConfig eventsConfig = config.reports().events();
    EventRing eventRing =
        eventsConfig == null ? null : keep(new EventRing(eventsConfig.buffers().queueBytes()));
    KvtierdConfig.TracesConfig traces = config.reports().traces();
    RequestTap requests =
        new RequestTap(!traces.endpoint().isEmpty(), traces.sample(), System::nanoTime, counters);
    // This thread outlives the index, so that it also writes the index's last requests.
    keep(
        new RequestTeller(
            requests.told(),
            traces.endpoint().isEmpty()
                ? null
                : new SpanSender(
                    traces.endpoint(),
                    VERSION,
                    Nodes.servedName(config.network().nodes()),
                    counters::countDroppedSpans),
            Daemon::stopBroken));
    IndexAgent index =
        new IndexAgent(
            new IndexContext(
                new IndexContext.Identity(VERSION, generation, region),
                new IndexCore(
                    System::nanoTime,
                    directory,
                    new Namespaces(tenants),
                    counters,
                    latencies,
                    IndexSettings.limits(config, tenants)),
                new StoreParts.Tiers(
                    new TierParts.First(
                        KnownTiers.HOST,
                        new TierParts.Space(hostTier.slots(), 0, host.policy()),
                        hostTier.ledger(),
                        slabs::mapping,
                        new TierParts.Checksums(copies, copy.queueDepth(), copy.inlineBytes()),
                        host.freeTarget()),
                    List.of(IndexSettings.ssd(ssd, ssdTier)),
                    sources,
                    objectTier.forIndex()),
                gpus,
                eventRing,
                requests,
                hostTier.lateWriters()));
    long start = System.nanoTime();
    // Counts of stores continue across restarts.
    index.recover(List.of(ssdTier.ledgers()), System.currentTimeMillis() << 20);
    LOG.info(
        "found {} in memory{} in {} ms",
        Counted.of(counters.get(Counter.FOUND_HOST), "block"),
        ssd.space().bytes() == 0 ? "" : " and " + counters.get(Counter.FOUND_SSD) + " on SSD",
        (System.nanoTime() - start) / 1_000_000);
    index.makeReportsWith(keep(new ReportThread(doorbell, Daemon::stopBroken)));
    index.showNode(Nodes.servedName(config.network().nodes()));
    index.showNuma(() -> slabs.homes().report(slabs.slabBytes()));
    index.extend("threads", ThreadDump::run);
    NodeFinder finder = Nodes.finder(config.network().nodes(), otherNodes, index, doorbell);
    if (otherNodes != null) {
      otherNodes.announce(index);
      index.extend("nodes", otherNodes::run);
    }
    index.extend("plugins", words -> PluginReport.run(config.tiers().plugins().plugins(), words));
    if (reloaders != null) {
      Reloader made = keep(reloaders.apply(new LiveParts(index, doorbell, peers, objectTier)));
      reloader = made;
      index.extend("reload", made::run);
      index.extend("config", made::run);
    }
    UnixSocket listener = place.listen(config.socket().mode());
    IndexProcessor processor = new IndexProcessor(region, ThreadCpus::current);
    SessionConductor conductor =
        new SessionConductor(
            listener,
            new SessionConductor.Environment(
                VERSION,
                counters,
                new SessionConductor.Access(
                    peers, tenants, limits.sessions().max(), limits.sessions().ringBytesMax()),
                new SessionConductor.Memory(
                    SharedMemory.readOnly(daemonMemory), slabs, hostRegions, () -> !gpus.hasNone()),
                new SessionConductor.IndexSide(index, doorbell, epoll, processor)));
    if (eventsConfig != null && eventRing != null) {
      // The publisher outlives the index, so that it also publishes the index's last events.
      events =
          keep(
              new EventPublisher(
                  eventsConfig, eventRing, limits.blocksMax(), doorbell, Daemon::stopBroken));
    }
    parts.push(() -> kept.note(hostTier, counters));
    IndexRunner indexRunner =
        keep(
            new IndexRunner(
                index, region, epoll, bell, processor, () -> homes.enter(homes.main())));
    runner = indexRunner;
    keep(conductor);
    Words.putIntRelease(region, DaemonRegionDescriptor.READY_OFFSET, 1);
    indexRunner.start();
    conductor.start();
    if (otherNodes != null) {
      otherNodes.start(index, slabs, requests::served);
    }
    Listener.Place grpcPlace = listeners.grpc();
    if (grpcPlace != null) {
      grpc =
          keep(
              new GrpcFront(
                  config.network().grpc(),
                  grpcPlace,
                  new GrpcFront.Environment(
                      VERSION,
                      new GrpcFront.IndexSide(
                          index, doorbell, processor, slabs, new Heartbeat(region), finder),
                      new GrpcFront.Access(
                          config.network().grpc().usesTls() ? tls : null, callers, tenants),
                      new GrpcFront.Reporting(
                          counters,
                          requests,
                          areas(
                              ssd.space().bytes() > 0,
                              objectTier.forIndex() != null,
                              !gpus.hasNone())),
                      limits.times().leaseNs())));
    }
    Listener.Place httpPlace = listeners.http();
    if (httpPlace != null) {
      http =
          keep(
              new HttpFront(
                  httpPlace,
                  new HttpFront.Environment(
                      new HttpFront.About(
                          VERSION,
                          config.socket().path(),
                          reloader == null ? config.reports()::settings : reloader::entries),
                      new HttpFront.IndexSide(index, doorbell, region),
                      new HttpFront.NodeSide(
                          finder, Nodes.figures(config.network().nodes(), otherNodes)),
                      new HttpFront.Numbers(counters, latencies),
                      new HttpFront.Access(
                          config.network().http().hosts(),
                          config.network().http().usesTls() ? tls : null,
                          callers,
                          tenants.count()))));
    }
    PageTaker taker = keep(new PageTaker(slabs, Daemon::stopWithoutMemory));
    if (host.memory().hugePages()) {
      keep(new HugePages(slabs, taker));
    }
    if (otherNodes != null) {
      parts.push(otherNodes);
    }
    // The socket is closed first when the daemon stops: later clients must fail at once.
    parts.push(place::withdraw);
    return ssdTier.isDirect();
  }

  /** The areas for which a health check can ask: the tiers of this daemon, and puts. */
  private static List<String> areas(boolean hasSsd, boolean hasObjects, boolean hasGpus) {
    List<String> areas = new ArrayList<>(List.of("puts", KnownTiers.HOST.name()));
    if (hasSsd) {
      areas.add(KnownTiers.SSD.name());
    }
    if (hasObjects) {
      areas.add("object");
    }
    if (hasGpus) {
      areas.add("gpu");
    }
    return areas;
  }

  /** The parts that a reload can change while the daemon runs. */
  private record LiveParts(IndexAgent index, Runnable bell, PeerPolicy peers, ObjectTier objects)
      implements Reloader.Live {
    @Override
    public CompletableFuture<OperatorAnswer> command(String command) {
      CompletableFuture<OperatorAnswer> answer = index.command(command);
      bell.run();
      return answer;
    }

    @Override
    public void changePeers(List<String> users, List<String> groups) throws IOException {
      peers.change(users, groups);
    }

    @Override
    public void changeBandwidth(long loadBytesPerSecond, long storeBytesPerSecond) {
      objects.changeBandwidth(loadBytesPerSecond, storeBytesPerSecond);
    }
  }

  /** Reads the configuration again, in the background; the result is in the log. */
  void reload() {
    if (reloader != null) {
      reloader.beginOrRepeat();
    }
  }

  private static Tenants.Regions ssdRegions(KvtierdConfig config, Tenants tenants) {
    KvtierdConfig.SsdConfig ssd = config.tiers().ssd();
    // RocksDB needs half of the space itself: half of each tenant's space, too.
    int share = ssd.writing().engine() == SsdEngine.ROCKSDB ? 2 : 1;
    return tenants.regions(
        config.tenants().stream().map(tenant -> tenant.ssdBytes() / share).toList(),
        ssd.files(),
        ssd.space().fileBytes());
  }

  private static GpuProbe withoutGpus() {
    return new GpuProbe.NoGpu("gpu.enabled is off");
  }

  /**
   * Ends the daemon: a transfer that never ends would hold its block, and the clients that wait for
   * it, for ever.
   */
  private static void stopBroken(Throwable cause) {
    LOG.error("a pipeline is broken; the daemon stops", cause);
    Runtime.getRuntime().halt(70);
  }

  /**
   * Ends the daemon: if memory is absent that clients have mapped, the kernel kills the client that
   * touches it.
   */
  private static void stopWithoutMemory(Throwable cause) {
    LOG.error("the memory of the host tier can't be had; the daemon stops", cause);
    Runtime.getRuntime().halt(70);
  }

  private <T extends AutoCloseable> T keep(T part) {
    parts.push(part);
    return part;
  }

  private static MemorySegment daemonRegion(
      Descriptor memory, Arena arena, long generation, SlabStore slabs) throws IOException {
    MemorySegment region =
        SharedMemory.map(memory, DaemonRegionDescriptor.REGION_BYTES, true, arena);
    Words.putLong(region, DaemonRegionDescriptor.MAGIC_OFFSET, DaemonRegionDescriptor.MAGIC);
    Words.putInt(region, DaemonRegionDescriptor.VERSION_OFFSET, Protocol.VERSION);
    Words.putLong(region, DaemonRegionDescriptor.GENERATION_OFFSET, generation);
    Words.putLong(region, DaemonRegionDescriptor.PROCESS_ID_OFFSET, ProcessHandle.current().pid());
    Words.putLong(region, DaemonRegionDescriptor.START_TIME_OFFSET, System.currentTimeMillis());
    Words.putLong(region, DaemonRegionDescriptor.SLAB_BYTES_OFFSET, slabs.slabBytes());
    Words.putInt(region, DaemonRegionDescriptor.SLAB_COUNT_OFFSET, slabs.slabs());
    Words.putInt(region, DaemonRegionDescriptor.COUNTER_COUNT_OFFSET, Counter.values().length);
    return region;
  }

  /** Why a GPU is not used any more, with its number; null when no GPU has failed. */
  @Nullable String gpuError() {
    GpuTier tier = gpus;
    if (tier != null) {
      for (DevicePipeline pipeline : tier.pipelines()) {
        String fence = pipeline.fence();
        if (fence != null) {
          return "GPU " + pipeline.ordinal() + " is not used any more after '" + fence + "'";
        }
      }
    }
    return null;
  }

  /** Whether SSD reads and writes bypass the page cache. */
  public boolean isDirectIo() {
    return directIo;
  }

  /** The address of the gRPC server, as {@code HOST:PORT}; null if there is none. */
  public @Nullable String grpcAddress() {
    return grpc == null ? null : grpc.address();
  }

  /** The address of the HTTP server, as {@code HOST:PORT}; null if there is none. */
  public @Nullable String httpAddress() {
    return http == null ? null : http.address();
  }

  /** The port on which other nodes are served; 0 if none are. */
  public int nodesPort() throws IOException {
    return nodes == null ? 0 : nodes.port();
  }

  /** The endpoint of events; null if there is none. */
  public @Nullable String eventsEndpoint() {
    return events == null ? null : events.endpoint();
  }

  /**
   * The blocks that stay in memory after the daemon was closed, in words: how many, where and until
   * when.
   */
  String keptWords() {
    return kept.words();
  }

  /** The count of the index's rounds so far, with or without work. */
  public long progress() {
    return runner == null ? 0 : runner.passes();
  }

  @Override
  public void close() {
    Parts.close(parts);
  }
}
