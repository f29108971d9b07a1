package io.kvtier.daemon.index;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.gpu.DevicePipeline;
import io.kvtier.tiers.gpu.DeviceRegion;
import io.kvtier.tiers.gpu.DeviceRegionSpec;
import io.kvtier.tiers.gpu.GpuTier;
import io.kvtier.tiers.gpu.RegionOrder;
import io.kvtier.tiers.gpu.RegionText;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * REGISTER_REGION and UNREGISTER_REGION, and what OFFLOAD and ONBOARD have of their own: regions of
 * engines' GPU memory, and blocks that are put together from copies of their layers. Confined to
 * the index.
 *
 * <p>An operation is answered when no copy of it is under way any more, whatever happened to it:
 * the engine may use its memory again then. A region is closed when its last operation has ended.
 */
final class Devices implements DeviceMoves.Listener {
  /** The most regions of a session. */
  static final int REGIONS_MAX = 64;

  private static final long LOOK_EVERY_NS = 100_000_000;

  /** An engine that has leased blocks has made room for them by then, and asks for their copies. */
  private static final long LOAD_FOLLOWS_NS = 2_000_000;

  /** About what is copied to a GPU: nobody stays awake for longer than the copies will take. */
  private static final long LOADED_BYTES_PER_NS = 50;

  /** What eight GPUs hold of blocks of 2 MiB; its memory, 40 MB, is taken with the first one. */
  private static final int ADVERTISED_MAX = 1 << 19;

  private final @Nullable GpuTier gpus;
  private final BlockStore store;
  private final Operations operations;
  private final CompletionWriter writer;
  private final Namespaces namespaces;
  private final SessionTable sessions;
  private final Counters counters;
  private final LongSupplier clock;
  private final long layersWithinNs;
  private final Assemblies assemblies;
  private final int assembliesPerSessionMax;
  private final Peers peers;
  private final DeviceMoves moves;
  private final Map<Integer, Region> regions = new HashMap<>();
  private final Consumer<RegionOrder> onOrder = this::ordered;
  private int nextRegion = 1;
  private long nextLookNs;
  private long loadExpectedUntilNs;

  /**
   * Without a region yet.
   *
   * @param tiers where gets go that a region could not serve
   */
  Devices(
      Peers.Tiers tiers,
      IndexAgent.Context context,
      IndexAgent.Limits limits,
      BlockStore store,
      Operations operations,
      CompletionWriter writer,
      Namespaces namespaces,
      SessionTable sessions) {
    this.gpus = context.gpus();
    this.store = store;
    this.operations = operations;
    this.writer = writer;
    this.namespaces = namespaces;
    this.sessions = sessions;
    this.counters = context.counters();
    this.clock = context.clock();
    loadExpectedUntilNs = clock.getAsLong();
    this.layersWithinNs = limits.leaseNs();
    this.assembliesPerSessionMax = limits.holdsPerSessionMax();
    this.assemblies = new Assemblies(gpus == null ? 0 : limits.holdsMax());
    this.peers =
        new Peers(
            context.directory(),
            operations,
            writer,
            counters,
            gpus == null ? 0 : Math.min(limits.holdsMax(), ADVERTISED_MAX),
            this::share,
            this::closeUnused);
    this.moves = new DeviceMoves(store, operations, peers.advertised(), this);
    peers.connect(moves, tiers);
    operations.whenDeviceEnds(this::ended);
  }

  DeviceMoves moves() {
    return moves;
  }

  Peers peers() {
    return peers;
  }

  // ---- regions

  /** Has a region opened; answered when it is, or with the reason why it can't be. */
  void register(Session session, Request request, String text) throws ProtocolViolation {
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    GpuTier opener = gpus;
    if (opener == null || namespace == null) {
      refuse(session, request, "this daemon is started without GPUs");
      return;
    }
    DeviceRegionSpec spec;
    try {
      spec = RegionText.parse(text, session.passedMemory()::take);
    } catch (IllegalArgumentException e) {
      refuse(session, request, String.valueOf(e.getMessage()));
      return;
    }
    if (!order(session, request, namespace, spec, opener)) {
      spec.close();
    }
  }

  /** Has a region opened; false when it was refused. */
  private boolean order(
      Session session,
      Request request,
      Namespaces.Namespace namespace,
      DeviceRegionSpec spec,
      GpuTier opener)
      throws ProtocolViolation {
    if (spec.layout().blockBytes() != namespace.blockBytes()) {
      refuse(
          session,
          request,
          "a block of the region has "
              + spec.layout().blockBytes()
              + " bytes, one of namespace '"
              + namespace.name()
              + "' "
              + namespace.blockBytes());
      return false;
    }
    if (session.regions.size() == REGIONS_MAX) {
      refuse(
          session,
          request,
          "the session has " + REGIONS_MAX + " regions, which is the limit: unregister one first");
      return false;
    }
    Operation operation = operations.begin(session, request, 0);
    if (operation == null) {
      return false;
    }
    Region region =
        new Region(nextRegion++, namespace.id(), spec.layout(), session.share, operation);
    regions.put(region.id, region);
    session.regions.add(region);
    operation.open = 1;
    operations.promise(session, operation, request);
    opener.order(RegionOrder.open(region.id, spec));
    return true;
  }

  /** Has a region closed; answered when it is. */
  void unregister(Session session, Request request) throws ProtocolViolation {
    Region region = regionOf(session, (int) request.argument);
    if (region == null || region.waiting != null) {
      refuse(session, request, "the session has no region " + request.argument);
      return;
    }
    Operation operation = operations.begin(session, request, 0);
    if (operation == null) {
      return;
    }
    session.regions.remove(region);
    region.isClosing = true;
    region.waiting = operation;
    operation.open = 1;
    operations.promise(session, operation, request);
    peers.withdraw(region);
    closeUnused(region);
  }

  private static @Nullable Region regionOf(Session session, int id) {
    for (Region region : session.regions) {
      if (region.id == id) {
        return region;
      }
    }
    return null;
  }

  /** Has other GPUs see a region. */
  private void share(Region region) {
    DeviceRegion opened = region.opened;
    if (gpus != null && opened != null) {
      gpus.order(RegionOrder.share(region.id, opened));
    }
  }

  /** ADVERTISE and REVOKE. */
  void advertise(Session session, Request request) throws ProtocolViolation {
    boolean isRevoke = request.verb == Verb.REVOKE;
    int id = isRevoke ? (int) request.argument : request.region;
    Region region = regionOf(session, id);
    if (region == null) {
      refuse(session, request, "the session has no region " + id);
    } else if (isRevoke) {
      peers.revoke(session, request, region);
    } else if (region.opened == null) {
      refuse(session, request, "region " + id + " is not open yet");
    } else {
      peers.advertise(session, request, region);
    }
  }

  /** An ADVERTISE or a REVOKE ends before its time. */
  void forget(Operation operation) {
    peers.forget(operation, regions.values());
  }

  private void ordered(RegionOrder order) {
    Region region = regions.get(order.region);
    if (region == null) {
      throw new IllegalStateException("region " + order.region + " was forgotten too early");
    }
    if (order.isShare) {
      peers.shared(region);
      return;
    }
    Operation waiting = region.waiting;
    region.waiting = null;
    if (order.isOpen() && order.refusal == null) {
      region.opened = order.opened;
      region.pipeline = order.pipeline;
      if (waiting != null) {
        waiting.value = region.id;
      }
      closeUnused(region);
    } else {
      regions.remove(region.id);
      region.forget();
      if (waiting != null && order.isOpen()) {
        operations.sessionOf(waiting).regions.remove(region);
        waiting.outcome = Status.INVALID_ARGUMENT;
        waiting.refusal = order.refusal;
      }
    }
    if (waiting != null) {
      operations.closePlace(waiting);
    }
  }

  /** Closes a region that nobody can name any more, and that no operation copies to or from. */
  private void closeUnused(Region region) {
    DeviceRegion opened = region.opened;
    boolean isUnused = region.jobs == 0 && region.lent == 0;
    if (region.isClosing && isUnused && opened != null && gpus != null) {
      if (!region.isOrdered) {
        region.isOrdered = true;
        gpus.order(RegionOrder.close(region.id, opened));
      }
    }
  }

  private void refuse(Session session, Request request, String why) throws ProtocolViolation {
    writer.refuse(session, request, Status.INVALID_ARGUMENT, why);
  }

  // ---- OFFLOAD and ONBOARD

  /**
   * Begins an operation on blocks of a region, of which everything was checked.
   *
   * @return null when it was refused, in words
   */
  @Nullable Operation begin(Session session, Request request) throws ProtocolViolation {
    Region region = regionOf(session, request.region);
    String why = region == null ? "the session has no region " + request.region : null;
    if (region != null) {
      DeviceRegion opened = region.opened;
      why =
          opened == null
              ? "region " + request.region + " is not open yet"
              : problem(request, region, opened);
    }
    if (region == null || why != null) {
      refuse(session, request, String.valueOf(why));
      return null;
    }
    Operation operation = operations.begin(session, request, request.count);
    if (operation == null) {
      return null;
    }
    DeviceJob job = operation.job();
    job.begin(region, request.count);
    job.firstLayer = request.firstLayer;
    job.endLayer = request.endLayer == 0 ? region.layout.layers() : request.endLayer;
    job.event = request.event;
    job.priority = request.priority;
    job.noWait = request.has(RequestDescriptor.FLAG_NO_WAIT);
    job.progress.begin(session, request.progress, job.layers());
    job.waveLayer = job.endLayer;
    DeviceMoves.cut(job, request.count, region.layout);
    String wrong = null;
    for (int i = 0; i < request.count && wrong == null; i++) {
      // The client can still write here: read once, checked, then used.
      int target = Words.getInt(request.segment, request.target(i));
      job.target[i] = target;
      if (target < 0 || target >= region.layout.blocks()) {
        wrong = region.noBlock(target);
      }
    }
    region.jobs++;
    if (wrong != null) {
      operation.outcome = Status.INVALID_ARGUMENT;
      operation.refusal = wrong;
      operations.endOrWait(session, operation, request);
      return null;
    }
    return operation;
  }

  private static @Nullable String problem(Request request, Region region, DeviceRegion opened) {
    int layers = region.layout.layers();
    int end = request.endLayer == 0 ? layers : request.endLayer;
    if (request.namespaceId != region.namespaceId) {
      return region.otherNamespace();
    }
    if (request.firstLayer >= end || end > layers) {
      return "layers "
          + request.firstLayer
          + " to "
          + end
          + " are not all in region "
          + region.id
          + ": it has "
          + layers;
    }
    if (request.event < 0 || request.event > opened.events()) {
      return "event " + request.event + " is none of the region's " + opened.events();
    }
    if (request.progress < 0 || request.progress > SessionRegionDescriptor.PROGRESS_WORDS) {
      return "progress word "
          + request.progress
          + ": expected 1 to "
          + SessionRegionDescriptor.PROGRESS_WORDS
          + ", or 0 for none";
    }
    if (request.verb == Verb.OFFLOAD && !region.layout.hasWholeBlocks()) {
      return "region "
          + region.id
          + " has only some heads of its blocks: a block that several ranks put together can be"
          + " loaded, but not stored";
    }
    return null;
  }

  /** An operation on a region has ended. */
  private void ended(Operation operation) {
    DeviceJob job = operation.job();
    Region region = job.region;
    if (region != null) {
      job.end();
      region.jobs--;
      closeUnused(region);
    }
  }

  /**
   * A session has leased blocks that are in memory. Where their namespace has regions, it is an
   * engine's that makes room for them now and will have them copied there in a moment: neither the
   * index nor the GPU's thread should have to be woken then.
   */
  void leased(Namespaces.Namespace namespace, int blocks) {
    if (regions.isEmpty()) {
      return;
    }
    long copiesNs = blocks * namespace.blockBytes() / LOADED_BYTES_PER_NS;
    long withinNs = Math.min(LOAD_FOLLOWS_NS, copiesNs);
    for (Region region : regions.values()) {
      DevicePipeline pipeline = region.pipeline;
      if (region.namespaceId == namespace.id() && pipeline != null) {
        pipeline.expectOnboards(withinNs);
        loadExpectedUntilNs = clock.getAsLong() + withinNs;
      }
    }
  }

  /** Whether an engine is about to have leased blocks copied to its GPU. */
  boolean isLoadExpected(long nowNs) {
    return nowNs - loadExpectedUntilNs < 0;
  }

  /** A block that is leased can be copied to its place in the region. */
  void onboard(Operation operation, int place, int block) {
    operation.block[place] = block;
    moves.ready(operation, operation.job(), place);
  }

  /**
   * Begins to put a fresh block together, for a place.
   *
   * @return false when there are as many as there can be
   */
  boolean assemble(Session session, Operation operation, int place, int block) {
    Region region = operation.job().region;
    int assembly =
        region == null || session.assemblies >= assembliesPerSessionMax
            ? Assemblies.NONE
            : assemblies.begin(block, session, region.layout.layers());
    if (assembly != Assemblies.NONE) {
      attach(operation, place, assembly);
    }
    return assembly != Assemblies.NONE;
  }

  /**
   * Brings further layers of a block that the session has begun to put together.
   *
   * @return false when it has not
   */
  boolean join(Session session, Operation operation, int place, int block) {
    int assembly = assemblies.find(block, session);
    if (assembly == Assemblies.NONE || assemblies.isFailed(assembly)) {
      return false;
    }
    attach(operation, place, assembly);
    return true;
  }

  private void attach(Operation operation, int place, int assembly) {
    operation.job().assembly[place] = assembly;
    assemblies.addUsers(assembly, 1);
    assemblies.setEnd(assembly, clock.getAsLong() + layersWithinNs);
  }

  /** A place's layers will not come: the block can't be whole. */
  void leave(Operation operation, int place) {
    int assembly = operation.job().assembly[place];
    assemblies.addUsers(assembly, -1);
    assemblies.fail(assembly);
    settle(assembly, operations.sessionOf(operation));
  }

  /** A block's slot is there: it can be copied from its place in the region. */
  void offload(Operation operation, int place, int block) {
    operation.block[place] = block;
    moves.ready(operation, operation.job(), place);
  }

  @Override
  public void onCopied(Operation operation, DeviceJob job, int place) {
    Status status = Status.of(job.failure[place]);
    if (job.lent[place] != Advertisements.NONE) {
      peers.onCopied(operation, job, place, status);
      return;
    }
    int block = operation.block[place];
    if (operation.verb == Verb.ONBOARD) {
      store.release(block);
      Operations.decide(operation, place, status, TierId.of(operation.tier[place]));
    } else {
      int assembly = job.assembly[place];
      assemblies.addUsers(assembly, -1);
      if (status == Status.OK) {
        assemblies.arrived(assembly, job.firstLayer, job.endLayer);
      } else {
        assemblies.fail(assembly);
      }
      boolean isWhole = assemblies.isWhole(assembly) && assemblies.isUnused(assembly);
      Operations.decide(operation, place, status, isWhole ? TierId.HOST : TierId.NONE);
      settle(assembly, operations.sessionOf(operation));
    }
    operations.closePlace(operation);
  }

  /** A block is whole, or will not be: nothing copies to it any more. */
  private void settle(int assembly, Session session) {
    if (!assemblies.isUnused(assembly)) {
      return;
    }
    int block = assemblies.block(assembly);
    if (assemblies.isWhole(assembly)) {
      assemblies.end(assembly, session);
      store.arrived(block);
    } else if (assemblies.isFailed(assembly)) {
      assemblies.end(assembly, session);
      if (store.host().state(block) == CopyState.RESERVED) {
        store.abandon(block);
      }
    }
  }

  /**
   * Ends an operation before its time: at once, or when the copies that are under way have ended.
   *
   * @param decided how many open places were decided a moment ago: they did not copy
   */
  void cutShort(Operation operation, Status status, int decided) {
    DeviceJob job = operation.job();
    operation.deadlineNs = Long.MAX_VALUE;
    if (status == Status.SESSION_ENDED) {
      operation.departed = operations.sessionOf(operation);
    }
    // One more, so that the operation does not end in the middle of this.
    operation.open += 1 - decided;
    if (job.cut == Status.OK) {
      job.cut = status;
      moves.giveUp(operation, job, status);
    }
    operations.closePlace(operation);
  }

  /** Ends the request to open or close a region before its time. */
  void cutShort(Operation operation, Status status) {
    for (Region region : regions.values()) {
      if (region.waiting == operation) {
        region.waiting = null;
        if (region.opened == null) {
          operations.sessionOf(operation).regions.remove(region);
          region.isClosing = true;
        }
      }
    }
    operation.outcome = status;
  }

  /** A session ends: its regions are closed, and what it has begun to put together is dropped. */
  void close(Session session) {
    for (Region region : session.regions) {
      region.isClosing = true;
      peers.withdraw(region);
      closeUnused(region);
    }
    session.regions.clear();
    for (int one = 0; one < assemblies.highWater() && session.assemblies > 0; one++) {
      if (assemblies.isOf(one, session)) {
        assemblies.fail(one);
        settle(one, session);
      }
    }
  }

  /** Drops blocks of which no further layers come. */
  void checkTime(long nowNs) {
    if (nowNs < nextLookNs) {
      return;
    }
    nextLookNs = nowNs + LOOK_EVERY_NS;
    for (int one = 0; one < assemblies.highWater() && assemblies.size() > 0; one++) {
      if (assemblies.isOverdue(one, nowNs)) {
        assemblies.fail(one);
        settle(one, sessions.owner(assemblies.sessionIndex(one)));
      }
    }
  }

  // ---- each round

  /** Settles copies and orders that have come back. */
  int collect() {
    if (gpus == null) {
      return 0;
    }
    return gpus.collect(onOrder) + moves.collect();
  }

  /** Hands over what there is room for. */
  void advance() {
    moves.advance();
  }

  /** Whether anything has come back that was not settled. */
  boolean hasFinished() {
    if (gpus == null) {
      return false;
    }
    for (DevicePipeline pipeline : gpus.pipelines()) {
      if (pipeline.hasFinished()) {
        return true;
      }
    }
    return gpus.hasAnswers();
  }

  /** Whether blocks are being put together, of which some could come too late. */
  boolean hasDeadlines() {
    return assemblies.size() > 0;
  }

  /** The GPUs in use, with how many regions each has; empty where there are none. */
  Iterable<DevicePipeline> pipelines() {
    return gpus == null ? List.of() : gpus.pipelines();
  }

  /** Notes the namespaces that regions are of. */
  void noteInUse(BitSet ids) {
    for (Region region : regions.values()) {
      ids.set(region.namespaceId);
    }
  }

  /** How many regions are open on a GPU. */
  int regionsOf(DevicePipeline pipeline) {
    int count = 0;
    for (Region region : regions.values()) {
      count += region.pipeline == pipeline ? 1 : 0;
    }
    return count;
  }

  /** Bytes and errors, for the counters. */
  void publishGauges() {
    long out = 0;
    long in = 0;
    long between = 0;
    long errors = 0;
    for (DevicePipeline pipeline : pipelines()) {
      var report = pipeline.report(0);
      out += report.offloadedBytes();
      in += report.onboardedBytes();
      between += report.peerBytes();
      errors += report.errors();
    }
    counters.set(Counter.GPU_OFFLOADED_BYTES, out);
    counters.set(Counter.GPU_ONBOARDED_BYTES, in);
    counters.set(Counter.GPU_PEER_BYTES, between);
    counters.set(Counter.GAUGE_ADVERTISED, peers.advertised().size());
    counters.set(Counter.GPU_ERRORS, errors);
    counters.set(Counter.GAUGE_REGIONS, regions.size());
  }

  /** ONBOARD's leases, which are no session's holds; for tests. */
  int leases() {
    int count = 0;
    for (int i = 0; i < operations.max(); i++) {
      Operation operation = operations.at(i);
      if (operation.active && operation.verb == Verb.ONBOARD) {
        DeviceJob job = operation.job();
        count += job.ready - job.finished - job.lentPlaces;
      }
    }
    return count;
  }

  /** Checks that what is lent is what is being copied; for tests. */
  void checkInvariants() {
    int copying = 0;
    for (int i = 0; i < operations.max(); i++) {
      Operation operation = operations.at(i);
      copying +=
          operation.active && operation.verb == Verb.ONBOARD ? operation.job().lentPlaces : 0;
    }
    int lent = 0;
    for (Region region : regions.values()) {
      lent += region.lent;
    }
    if (copying != peers.advertised().copies() || copying != lent) {
      throw new IllegalStateException("what regions have lent does not add up");
    }
  }
}
