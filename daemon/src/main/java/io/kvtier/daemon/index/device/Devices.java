package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.PutForms;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
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
import io.kvtier.tiers.gpu.GpuTier;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.BitSet;
import java.util.List;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * OFFLOAD and ONBOARD: the copies between slots and regions of engines' GPU memory. {@link Regions}
 * opens and closes the regions. {@link PartialBlocks} has the blocks of which not all layers have
 * come. Confined to the index.
 *
 * <p>An operation is answered when its last copy is over, even if the operation failed: the engine
 * may then use its memory again. A region is closed when its last operation has ended.
 */
public final class Devices implements DeviceMoves.Listener, Operations.DeviceOperations {
  /** How long an engine takes from a lease to the request for copies. */
  private static final long LOAD_FOLLOWS_NS = 2_000_000;

  /**
   * Approximate rate of copies to a GPU: no thread stays awake for longer than the copies will
   * take.
   */
  private static final long LOADED_BYTES_PER_NS = 50;

  /**
   * Maximum advertised blocks: as many blocks of 2 MiB as eight GPUs hold. The table takes 40 MB
   * with the first block.
   */
  private static final int ADVERTISED_MAX = 1 << 19;

  private final @Nullable GpuTier gpus;
  private final BlockStore store;
  private final Operations operations;
  private final CompletionWriter writer;
  private final Counters counters;
  private final Directory directory;
  private final Namespaces namespaces;
  private final LongSupplier clock;
  private final PartialBlocks partial;
  private final Peers peers;
  private final DeviceMoves moves;
  private final PutForms forms;
  private final Regions regions;
  private final RegionTable table;
  private final DeviceJobs jobs;
  private final PartOfBlock part = new PartOfBlock();
  private @Nullable RawPuts rawPuts;
  private long loadExpectedUntilNs;

  /**
   * Without a region yet.
   *
   * @param gpus null where the daemon is started without GPUs
   */
  public Devices(@Nullable GpuTier gpus, IndexCore core, SessionParts parts, BlockStore store) {
    Limits limits = core.limits();
    this.gpus = gpus;
    this.store = store;
    operations = parts.operations();
    writer = parts.writer();
    counters = core.counters();
    clock = core.clock();
    loadExpectedUntilNs = clock.getAsLong();
    jobs = new DeviceJobs(operations.max());
    regions = new Regions(gpus, core, parts);
    table = regions.table();
    partial = new PartialBlocks(core, store, limits.holdsMax());
    int advertisedMax = gpus == null ? 0 : Math.min(limits.holdsMax(), ADVERTISED_MAX);
    peers = new Peers(core, parts, jobs, regions, advertisedMax);
    directory = core.directory();
    namespaces = core.namespaces();
    forms = new PutForms(counters);
    moves = new DeviceMoves(store, directory, operations, jobs, peers.advertised(), this);
    operations.connect(this);
  }

  /** Puts parts of blocks raw that do not fit into their encoded form. */
  public interface RawPuts {
    /**
     * Gives the block of a place a raw slot, unless the block has one, and has the place copied
     * there. The bytes that the place's first copies wrote have no meaning.
     */
    void putRaw(Operation operation, int place);
  }

  /**
   * Sets the part that serves gets that no region could serve, and the part that puts blocks raw.
   */
  public void connect(Peers.Tiers tiers, RawPuts raw) {
    peers.connect(moves, tiers);
    rawPuts = raw;
  }

  public DeviceMoves moves() {
    return moves;
  }

  public Peers peers() {
    return peers;
  }

  // ---- regions

  /** Has a region opened; answered when the region is open, or with the reason why not. */
  public void register(Session session, Request request, String text) throws ProtocolViolation {
    regions.register(session, request, text);
  }

  /** Has a region closed; answered when the region is closed. */
  public void unregister(Session session, Request request) throws ProtocolViolation {
    Region region = regions.unregister(session, request);
    if (region != null) {
      peers.withdraw(region);
      regions.closeUnused(region);
    }
  }

  /** ADVERTISE and REVOKE. */
  public void advertise(Session session, Request request) throws ProtocolViolation {
    boolean isRevoke = request.verb == Verb.REVOKE;
    int id = isRevoke ? (int) request.argument : request.region;
    Region region = table.of(session, id);
    if (region == null) {
      refuse(session, request, "the session has no region " + id);
    } else if (isRevoke) {
      peers.revoke(session, request, region);
    } else if (region.opened == null) {
      refuse(session, request, notOpen(region));
    } else {
      peers.advertise(session, request, region);
    }
  }

  /** An ADVERTISE or a REVOKE ends before its time. */
  public void forget(Operation operation) {
    peers.forget(operation);
  }

  private void refuse(Session session, Request request, String why) throws ProtocolViolation {
    writer.refuse(session, request, Status.INVALID_ARGUMENT, why);
  }

  // ---- OFFLOAD and ONBOARD

  /**
   * Checks a request on blocks of a region, and begins its operation.
   *
   * @return null when the request was refused
   */
  @Nullable
  public Operation begin(Session session, Request request) throws ProtocolViolation {
    Region region = table.of(session, request.region);
    String why = region == null ? "the session has no region " + request.region : null;
    if (region != null) {
      DeviceRegion opened = region.opened;
      why = opened == null ? notOpen(region) : problem(request, region, opened);
    }
    if (region == null || why != null) {
      refuse(session, request, String.valueOf(why));
      return null;
    }
    Operation operation = operations.begin(session, request, request.count);
    if (operation == null) {
      return null;
    }
    DeviceJob job = jobs.of(operation);
    job.begin(region, request.count);
    job.firstLayer = request.firstLayer;
    job.endLayer = request.endLayer == 0 ? region.layout.layers() : request.endLayer;
    job.event = request.event;
    job.priority = request.priority;
    job.noWait = request.has(RequestDescriptor.FLAG_NO_WAIT);
    job.progress.begin(session, request.progress, job.layers());
    job.waveLayer = job.endLayer;
    part.set(region, job.firstLayer, job.endLayer);
    DeviceMoves.cut(job, request.count, region);
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
    return null;
  }

  private static String notOpen(Region region) {
    return region.isOnHost
        ? "region "
            + region.id
            + " is in host memory: its engine copies blocks itself, with RESERVE and COMMIT of a"
            + " shard, and ACQUIRE"
        : "region " + region.id + " is not open yet";
  }

  /**
   * Begins a RESERVE of a shard.
   *
   * @return null when the request was refused
   */
  @Nullable
  public Operation beginShard(Session session, Request request) throws ProtocolViolation {
    Region region = table.of(session, request.shard);
    String why = null;
    if (region == null || !region.isOnHost) {
      why =
          "the session has no region "
              + Integer.toUnsignedLong(request.shard)
              + " in host memory: register one with device=host";
    } else if (request.namespaceId != region.namespaceId) {
      why = region.otherNamespace();
    } else if (request.has(RequestDescriptor.FLAG_CHECKSUMS)) {
      why = "a shard has no checksum of its own: RESERVE it without FLAG_CHECKSUMS";
    }
    if (region == null || why != null) {
      refuse(session, request, String.valueOf(why));
      return null;
    }
    Operation operation = operations.begin(session, request, request.count);
    if (operation != null) {
      operation.isOfShard = true;
      operation.shard = region.id;
      part.set(region, 0, region.layout.layers());
    }
    return operation;
  }

  /** A client is about to write a shard of a block, on account of a hold. */
  public void reserved(int hold, Operation operation) {
    Region region = table.byId(operation.shard);
    if (region != null) {
      partial.reserved(hold, region);
    }
  }

  /** The part of its blocks that the OFFLOAD or RESERVE copies which began last. */
  public PartOfBlock part() {
    return part;
  }

  @Override
  public void beforeAnswer(Session session, Operation operation) {
    if (operation.departed == null) {
      jobs.of(operation).progress.end(session);
    }
  }

  @Override
  public void ended(Operation operation) {
    DeviceJob job = jobs.of(operation);
    Region region = job.region;
    if (region != null) {
      job.end();
      region.jobs--;
      regions.closeUnused(region);
    }
  }

  /**
   * A session has leased blocks that are in memory. Where their namespace has regions, an engine
   * will probably copy the blocks to its region in a moment. Neither the index nor the GPU's thread
   * should sleep until then.
   */
  public void leased(Namespaces.Namespace namespace, int blocks) {
    if (table.isEmpty()) {
      return;
    }
    long copiesNs = blocks * namespace.blockBytes() / LOADED_BYTES_PER_NS;
    long withinNs = Math.min(LOAD_FOLLOWS_NS, copiesNs);
    for (Region region : table.all()) {
      DevicePipeline pipeline = region.pipeline;
      if (region.namespaceId == namespace.id() && pipeline != null) {
        pipeline.expectOnboards(withinNs);
        loadExpectedUntilNs = clock.getAsLong() + withinNs;
      }
    }
  }

  /** Whether an engine is about to have leased blocks copied to its GPU. */
  public boolean isLoadExpected(long nowNs) {
    return nowNs - loadExpectedUntilNs < 0;
  }

  /** Whether the slot of a place's block is there: its copies are due, or were handed over. */
  public boolean hasSlot(Operation operation, int place) {
    return jobs.of(operation).hasSlot(place);
  }

  /** A block that is leased can be copied to its place in the region. */
  public void onboard(Operation operation, int place, int block) {
    operation.block[place] = block;
    moves.ready(operation, jobs.of(operation), place);
  }

  /** Whether the GPU of an OFFLOAD encodes fresh blocks that have an encoding. */
  public boolean isEncoding(Operation operation) {
    Region region = jobs.of(operation).region;
    return region != null && !region.isStoredRaw;
  }

  /** Blocks that are put together from copies of their layers. */
  public PartialBlocks partial() {
    return partial;
  }

  /** The lane of slots near an operation's GPU, or {@link SlotAllocator#ANY_LANE}. */
  public int laneOf(Operation operation) {
    Region region = jobs.of(operation).region;
    return region == null ? SlotAllocator.ANY_LANE : region.lane();
  }

  /** A block's slot is there: it can be copied from its place in the region. */
  public void offload(Operation operation, int place, int block) {
    operation.block[place] = block;
    moves.ready(operation, jobs.of(operation), place);
  }

  @Override
  public void onCopied(Operation operation, DeviceJob job, int place) {
    Status status = Status.of(job.failure[place]);
    if (job.lent[place] != Advertisements.NONE) {
      peers.onCopied(operation, job, place, status);
      return;
    }
    boolean isFlawed = status == Status.OK && job.isFlawed[place];
    if (operation.verb == Verb.ONBOARD) {
      onboarded(operation, place, isFlawed ? Status.CORRUPT : status);
    } else if (isFlawed && job.cut == Status.OK && !partial.isLost(operation.block[place])) {
      putRaw(operation, job, place);
      return;
    } else {
      offloaded(operation, job, place, isFlawed ? job.cut : status);
    }
    operations.closePlace(operation);
  }

  private void onboarded(Operation operation, int place, Status status) {
    int block = operation.block[place];
    if (status == Status.CORRUPT) {
      store.audits().doubt(block);
    }
    store.release(block);
    Operations.decide(operation, place, status, TierId.of(operation.tier[place]));
  }

  private void offloaded(Operation operation, DeviceJob job, int place, Status status) {
    int block = operation.block[place];
    // When the block is whole, it may be gone a moment later.
    Namespaces.Namespace namespace = namespaces.of(directory, block);
    boolean isEncoded = directory.has(Directory.FLAG_ENCODED, block);
    Region region = job.region;
    boolean isWhole =
        status == Status.OK
            && region != null
            && partial.copied(block, region, job.firstLayer, job.endLayer, job.isEncoded[place]);
    if (isWhole) {
      forms.count(namespace, isEncoded);
    } else if (status != Status.OK) {
      partial.leave(block);
    }
    Operations.decide(
        operation, place, status, isWhole ? store.first().traits().id() : TierId.NONE);
  }

  private void putRaw(Operation operation, DeviceJob job, int place) {
    RawPuts raw = rawPuts;
    if (raw == null) {
      throw new IllegalStateException("a block that does not fit, before the verbs are connected");
    }
    // The place's copies are over: the place has no slot that they need.
    job.handed[place] = 0;
    raw.putRaw(operation, place);
  }

  /**
   * Ends an operation before its time: at once, or when the copies that are under way have ended.
   *
   * @param decided how many open places were decided a moment ago: they did not copy
   */
  public void cutShort(Operation operation, Status status, int decided) {
    DeviceJob job = jobs.of(operation);
    operation.deadlineNs = Long.MAX_VALUE;
    if (status == Status.SESSION_ENDED) {
      operation.departed = operations.sessionOf(operation);
    }
    // One more open place, so that the operation does not end in the middle of this method.
    operation.open += 1 - decided;
    if (job.cut == Status.OK) {
      job.cut = status;
      moves.giveUp(operation, job, status);
    }
    operations.closePlace(operation);
  }

  /** Ends the request to open or close a region before its time. */
  public void cutShort(Operation operation, Status status) {
    regions.cutShort(operation, status);
  }

  /**
   * Closes the regions of a session that ends, and drops the blocks that it has begun to put
   * together.
   */
  public void close(Session session) {
    for (Region region : List.copyOf(table.of(session))) {
      region.isClosing = true;
      peers.withdraw(region);
      regions.closeUnused(region);
    }
    table.leaveAll(session);
    partial.close(session);
  }

  /** Drops blocks of which no further layers come. */
  public void checkTime(long nowNs) {
    partial.checkTime(nowNs);
  }

  // ---- each round

  /** Settles finished copies and orders. */
  public int collect() {
    return regions.collect() + moves.collect();
  }

  /** Hands over the copies that the pipelines take. */
  public void advance() {
    moves.advance();
  }

  /** Whether finished copies or orders wait to be settled. */
  public boolean hasFinished() {
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

  /** Whether any block waits for layers, which could come too late. */
  public boolean hasDeadlines() {
    return partial.hasDeadlines();
  }

  /** The GPUs in use, with how many regions each has; empty where there are none. */
  public Iterable<DevicePipeline> pipelines() {
    return gpus == null ? List.of() : gpus.pipelines();
  }

  /** Adds the namespaces of all regions to a set. */
  public void noteInUse(BitSet ids) {
    for (Region region : table.all()) {
      ids.set(region.namespaceId);
    }
  }

  /** How many regions are open on a GPU. */
  public int regionsOf(DevicePipeline pipeline) {
    int count = 0;
    for (Region region : table.all()) {
      count += region.pipeline == pipeline ? 1 : 0;
    }
    return count;
  }

  /** Bytes and errors, for the counters. */
  public void publishGauges() {
    long out = 0;
    long in = 0;
    long between = 0;
    long errors = 0;
    for (DevicePipeline pipeline : pipelines()) {
      var report = pipeline.report(0);
      out += report.copied().offloadedBytes();
      in += report.copied().onboardedBytes();
      between += report.copied().peerBytes();
      errors += report.errors();
    }
    counters.set(Counter.GPU_OFFLOADED_BYTES, out);
    counters.set(Counter.GPU_ONBOARDED_BYTES, in);
    counters.set(Counter.GPU_PEER_BYTES, between);
    counters.set(Counter.GAUGE_ADVERTISED, peers.advertised().size());
    counters.set(Counter.GPU_ERRORS, errors);
    counters.set(Counter.GAUGE_REGIONS, table.size());
  }

  /** The number of ONBOARD's leases, which no session holds; for tests. */
  public int leases() {
    int count = 0;
    for (int i = 0; i < operations.max(); i++) {
      Operation operation = operations.at(i);
      if (operation.active && operation.verb == Verb.ONBOARD) {
        DeviceJob job = jobs.of(operation);
        count += job.ready - job.finished - job.lentPlaces;
      }
    }
    return count;
  }

  /**
   * Checks that all lent blocks, and no others, are being copied, and checks the blocks that are
   * being put together; for tests.
   */
  public void checkInvariants() {
    partial.checkInvariants();
    int copying = 0;
    for (int i = 0; i < operations.max(); i++) {
      Operation operation = operations.at(i);
      copying +=
          operation.active && operation.verb == Verb.ONBOARD ? jobs.of(operation).lentPlaces : 0;
    }
    int lent = 0;
    for (Region region : table.all()) {
      lent += region.lent;
    }
    if (copying != peers.advertised().copies() || copying != lent) {
      throw new IllegalStateException("what regions have lent does not add up");
    }
  }
}
