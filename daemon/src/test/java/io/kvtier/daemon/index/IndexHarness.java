package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.daemon.index.move.StoreParts;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.daemon.index.report.RequestTap;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.WriterParts;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.daemon.index.space.TierParts;
import io.kvtier.protocol.AnnotationBody;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.RingProducer;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.gpu.CopyOptions;
import io.kvtier.tiers.gpu.CopyStrategy;
import io.kvtier.tiers.gpu.EncodingMode;
import io.kvtier.tiers.gpu.GpuDriver;
import io.kvtier.tiers.gpu.GpuProbe;
import io.kvtier.tiers.gpu.GpuTier;
import io.kvtier.tiers.gpu.StrategyTable;
import io.kvtier.tiers.ledger.NoLedger;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.slots.Claim;
import io.kvtier.tiers.slots.ClaimNote;
import io.kvtier.tiers.slots.RegionLanes;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.ssd.SlotHeaderDescriptor;
import io.kvtier.tiers.transfer.Leg;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * An index without threads, whose clients write their records word by word. Its pipeline takes as
 * much as a test allows, and finishes nothing by itself.
 */
public final class IndexHarness implements AutoCloseable {
  static final int SLOT_BYTES = 4096;
  static final long NOW_NS = 1_000_000_000L;
  static final long LEASE_NS = 30_000_000_000L;
  static final long RESERVATION_NS = 30_000_000_000L;
  static final long RETENTION_NS_MAX = 86_400_000_000_000L;
  static final double RETAINED_SHARE = 0.25;
  static final double PUSHED_SHARE = 0.5;

  /** Copies with little staging memory, which each test fills with zeros for each GPU's engines. */
  private static final CopyOptions SMALL_COPIES =
      new CopyOptions(4, 1 << 20, 16_384, 64, 264, 16, 8, 1024);

  /** Refuses everything; a block that it would check stays staging. */
  static final class NoPipeline implements Pipeline {
    @Override
    public boolean offer(Transfer transfer) {
      return false;
    }

    @Override
    public int collect(Consumer<Transfer> finished) {
      return 0;
    }

    @Override
    public boolean hasFinished() {
      return false;
    }

    @Override
    public int inFlight() {
      return 0;
    }

    @Override
    public void close() {}
  }

  /**
   * Does the work of a transfer when it is handed over; hands the transfer back in the next round,
   * unless a test holds it.
   */
  static final class InlinePipeline implements Pipeline {
    /** Whether a transfer deletes rows. */
    static final Predicate<Transfer> FORGETS = transfer -> transfer.kind == Transfer.Kind.FORGET;

    private final Leg leg;
    private final ArrayDeque<Transfer> done = new ArrayDeque<>();
    private final ArrayDeque<Transfer> held = new ArrayDeque<>();

    /** The transfers that, once handed over, are under way until the test ends them. */
    Predicate<Transfer> holds = transfer -> false;

    /** Why the device's ledger takes no rows; empty while it does. */
    String ledgerTrouble = "";

    /** Ends all transfers that are held. */
    void end() {
      done.addAll(held);
      held.clear();
    }

    /** Ends the transfer that was held first. */
    void endFirst() {
      done.add(held.remove());
    }

    InlinePipeline(Leg leg) {
      this.leg = leg;
    }

    @Override
    public boolean offer(Transfer transfer) {
      if (!FORGETS.test(transfer)) {
        leg.run(transfer);
      }
      if (!ledgerTrouble.isEmpty() && transfer.kind != Transfer.Kind.LOAD) {
        transfer.status = Status.IO_ERROR;
        transfer.cause = ledgerTrouble;
      }
      (holds.test(transfer) ? held : done).add(transfer);
      return true;
    }

    @Override
    public int collect(Consumer<Transfer> finished) {
      int count = done.size();
      for (int i = 0; i < count; i++) {
        finished.accept(done.remove());
      }
      return count;
    }

    @Override
    public boolean hasFinished() {
      return !done.isEmpty();
    }

    @Override
    public int inFlight() {
      return (int) Stream.concat(done.stream(), held.stream()).filter(FORGETS.negate()).count();
    }

    @Override
    public void close() {}
  }

  private final Arena arena = Arena.ofShared();
  final Directory directory;
  private final MemorySegment slabs;
  private final long slabBytes;
  private final @Nullable GpuTier gpus;
  final Counters counters;
  final Latencies latencies = new Latencies();
  final RequestTap requests;
  final IndexAgent agent;
  private long nextSession = 1;

  /** Processes that have ended. */
  final Set<ProcessId> gone = new HashSet<>();

  /** The time of the index's clock. */
  long nowNs = NOW_NS;

  /** The parts of an index; by default one slab, pipelines that take nothing, and no SSD. */
  static final class Settings {
    private final int slabs;
    private final int slots;
    private int sessions = 4;
    private int blocks;
    private int holdsPerSession = Integer.MAX_VALUE;
    private int inlineChecksumBytes;
    private long scrubBytesPerSecond;
    private Pipeline checksums = new NoPipeline();
    private int files;
    private List<Pipeline> ssd = List.of(new NoPipeline());
    private final List<TierParts.Lower> further = new ArrayList<>();
    private String admission = "evicted";
    private @Nullable GpuDriver gpu;
    private boolean measuresCopies;
    private EncodingMode encoding = EncodingMode.ALWAYS;
    private @Nullable EventRing events;
    private List<TenantConfig> tenants = List.of();
    private boolean tracing;
    private double sample;
    private @Nullable ObjectParts objects;
    private final List<BlockSource.Opener> sources = new ArrayList<>();
    private NumaHomes numa = NumaHomes.none();
    private ClaimNote claimNote = ClaimNote.NONE;
    private int lateMax = 64;
    private List<Claim> late = List.of();

    /** Slabs, each of a number of slots of 4 KiB. */
    Settings(int slabs, int slots) {
      this.slabs = slabs;
      this.slots = slots;
      this.blocks = Math.max(64, 4 * slabs * slots);
    }

    /** Spans are sent: of requests that ask for them, and of a share of the others. */
    Settings tracing(double share) {
      tracing = true;
      sample = share;
      return this;
    }

    /** The most sessions. */
    Settings sessions(int most) {
      sessions = most;
      return this;
    }

    /** The most records of blocks. */
    Settings blocks(int most) {
      blocks = most;
      return this;
    }

    /** The most leases and reservations of a session. */
    Settings holdsPerSession(int most) {
      holdsPerSession = most;
      return this;
    }

    /** A pipeline makes the checksums of blocks above a length. */
    Settings encoding(EncodingMode mode) {
      encoding = mode;
      return this;
    }

    Settings checksums(Pipeline pipeline, int inlineBytes) {
      checksums = pipeline;
      inlineChecksumBytes = inlineBytes;
      return this;
    }

    /** Files on SSD, with as many slots of 8 KiB as a slab has; each device has its pipeline. */
    Settings ssd(int count, Pipeline... pipelines) {
      files = count;
      ssd = List.of(pipelines);
      return this;
    }

    /** One more tier below the others, of files as {@link #ssd} has them, on one device. */
    Settings below(TierTraits traits, int count, Pipeline pipeline) {
      further.add(lower(traits, new int[count], 1, 2L * slots * SLOT_BYTES, List.of(pipeline)));
      return this;
    }

    private TierParts.Lower lower(
        TierTraits traits, int[] files, int parts, long fileBytes, List<Pipeline> pipelines) {
      return new TierParts.Lower(
          traits,
          new TierParts.Space(
              new SlotAllocator(files, parts, fileBytes, SLOT_BYTES, pipelines.size()),
              SlotHeaderDescriptor.HEADER_BYTES,
              "lru"),
          admission,
          new TierParts.Devices(pipelines, 8),
          new TierParts.Pace(scrubBytesPerSecond, 0),
          new TierParts.Place("", "", false));
    }

    Settings admission(String name) {
      admission = name;
      return this;
    }

    Settings scrubbing(long bytesPerSecond) {
      scrubBytesPerSecond = bytesPerSecond;
      return this;
    }

    Settings gpu(GpuDriver driver) {
      gpu = driver;
      return this;
    }

    /** Each GPU's copies are measured before its first region is open, as the daemon does. */
    Settings measuresCopies() {
      measuresCopies = true;
      return this;
    }

    /** The NUMA nodes of the slabs, which must have homes. */
    Settings numa(NumaHomes homes) {
      numa = homes;
      return this;
    }

    /** The lane of each slab. */
    private RegionLanes lanes() {
      int[] laneOf = new int[slabs];
      Arrays.setAll(laneOf, slab -> Math.max(0, numa.ofSlab(slab)));
      return new RegionLanes(laneOf, Math.max(1, numa.all().size()));
    }

    /** Publishes events of blocks. */
    Settings events(EventRing ring) {
      events = ring;
      return this;
    }

    /** One more source of blocks. */
    Settings source(BlockSource.Opener opener) {
      sources.add(opener);
      return this;
    }

    /** An object tier. */
    Settings objects(ObjectParts parts) {
      objects = parts;
      return this;
    }

    /** Slots that clients of an earlier daemon may be writing. */
    Settings late(Claim... claims) {
      late = List.of(claims);
      return this;
    }

    /** How many claims of lost slots can be remembered, and where claims are noted. */
    Settings claims(int most, ClaimNote note) {
      lateMax = most;
      claimNote = note;
      return this;
    }

    /** Tenants, whose bytes are slabs and files. */
    Settings tenants(TenantConfig... configured) {
      tenants = List.of(configured);
      return this;
    }
  }

  /** An index with one slab, whose pipeline takes nothing. */
  public IndexHarness(int slots, int inlineChecksumBytes) throws IOException {
    this(new Settings(1, slots).checksums(new NoPipeline(), inlineChecksumBytes));
  }

  IndexHarness(Settings settings) throws IOException {
    int slabCount = settings.slabs;
    int blocks = settings.blocks;
    List<TenantConfig> tenantConfigs = settings.tenants;
    GpuDriver gpu = settings.gpu;
    Tenants tenants = Tenants.of(tenantConfigs);
    directory = new Directory(blocks, 1, 1 << 20, 2 + settings.further.size());
    slabBytes = (long) settings.slots * SLOT_BYTES;
    try (Descriptor memory = SharedMemory.create("harness-slabs", slabCount * slabBytes)) {
      slabs = SharedMemory.map(memory, slabCount * slabBytes, true, arena);
    }
    MemorySegment daemonRegion = arena.allocate(DaemonRegionDescriptor.REGION_BYTES, 4096);
    counters = new Counters(daemonRegion);
    requests = new RequestTap(settings.tracing, settings.sample, () -> nowNs, counters);
    gpus = gpu == null ? null : gpuTier(gpu, settings, slabs);
    agent =
        new IndexAgent(
            new IndexContext(
                new IndexContext.Identity("harness", 1, daemonRegion),
                new IndexCore(
                    () -> nowNs,
                    directory,
                    new Namespaces(tenants),
                    counters,
                    latencies,
                    limits(settings)),
                new StoreParts.Tiers(
                    new TierParts.First(
                        KnownTiers.HOST,
                        new TierParts.Space(
                            new SlotAllocator(
                                tenants
                                    .regions(
                                        tenantConfigs.stream()
                                            .map(TenantConfig::hostBytes)
                                            .toList(),
                                        slabCount,
                                        1)
                                    .toArray(),
                                tenants.count(),
                                slabBytes,
                                SLOT_BYTES,
                                settings.lanes()),
                            0,
                            "lru"),
                        new NoLedger(),
                        i -> slabs.asSlice(i * slabBytes, slabBytes),
                        new TierParts.Checksums(
                            settings.checksums, 8, settings.inlineChecksumBytes),
                        0),
                    lower(settings, tenants, slabBytes),
                    settings.sources,
                    settings.objects),
                gpus,
                settings.events,
                requests,
                new WriterParts(
                    settings.claimNote,
                    WriterParts.places(blocks, (long) slabCount * settings.slots),
                    settings.lateMax,
                    settings.late,
                    new BitSet(),
                    gone::contains)));
  }

  private static GpuTier gpuTier(GpuDriver gpu, Settings settings, MemorySegment slabs) {
    long slabBytes = (long) settings.slots * SLOT_BYTES;
    GpuTier.Parts parts =
        new GpuTier.Parts(
            () -> new GpuProbe.Found(gpu),
            settings.measuresCopies ? CopyOptions.DEFAULT : SMALL_COPIES,
            settings.encoding,
            new GpuTier.Memory(
                i -> slabs.asSlice(i * slabBytes, slabBytes), settings.slabs, settings.numa),
            IndexAgent.DEVICE_TRANSFERS,
            () -> {},
            broken -> {
              throw new AssertionError(broken);
            });
    return settings.measuresCopies
        ? new GpuTier(parts)
        : GpuTier.withStrategies(parts, StrategyTable.only(CopyStrategy.STAGED));
  }

  private static Limits limits(Settings settings) {
    return new Limits(
        settings.sessions,
        256,
        256,
        settings.blocks,
        Math.min(settings.blocks, settings.holdsPerSession),
        RETAINED_SHARE,
        PUSHED_SHARE,
        new Limits.Times(
            LEASE_NS,
            600_000_000_000L,
            RETENTION_NS_MAX,
            RESERVATION_NS,
            5_000_000_000L,
            60_000_000_000L,
            Limits.STANDSTILL_NS));
  }

  private static List<TierParts.Lower> lower(Settings settings, Tenants tenants, long slabBytes) {
    int[] files =
        tenants
            .regions(
                settings.tenants.stream().map(TenantConfig::ssdBytes).toList(), settings.files, 1)
            .toArray();
    List<TierParts.Lower> lower = new ArrayList<>();
    lower.add(settings.lower(KnownTiers.SSD, files, tenants.count(), 2 * slabBytes, settings.ssd));
    lower.addAll(settings.further);
    return lower;
  }

  /** Lets an index forget which host copies an earlier index left. */
  public static void forgetTakenOver(Directory directory, int blocks) {
    for (int block = 0; block < blocks; block++) {
      directory.copies().set(CopyTable.TAKEN_OVER, 0, block, false);
    }
  }

  /** The bytes of all slabs, one after the other. */
  MemorySegment slabs() {
    return slabs;
  }

  /** Where bytes are in the slabs, at a multiple of 16 bytes; -1 when they are not there. */
  long find(byte[] bytes) {
    MemorySegment wanted = MemorySegment.ofArray(bytes);
    for (long at = 0; at <= slabs().byteSize() - bytes.length; at += 16) {
      if (slabs().asSlice(at, bytes.length).mismatch(wanted) == -1) {
        return at;
      }
    }
    return -1;
  }

  Directory directory() {
    return directory;
  }

  public IndexAgent agent() {
    return agent;
  }

  public RequestTap requests() {
    return requests;
  }

  Client open() throws IOException {
    return open(Protocol.RING_BYTES_MIN);
  }

  Client open(long ring) throws IOException {
    return open(ring, Grant.ALL);
  }

  Client open(long ring, Grant grant) throws IOException {
    long id = nextSession++;
    try (Descriptor memory =
        SharedMemory.create("harness", SessionRegion.regionBytes(ring, ring))) {
      Client client = new Client(id, grant, SessionRegion.create(memory, id, ring, ring, arena));
      assertTrue(agent.offerOpen(client.session));
      int ignored = agent.doWork();
      return client;
    }
  }

  /** Ends a client's session: it has hung up. */
  void close(Client client) {
    assertTrue(agent.offerClose(client.session));
    int ignored = agent.doWork();
  }

  /** Ends a client's session: its process may live on, and write. */
  void cutOff(Client client) {
    assertTrue(agent.offerClose(client.session, false));
    int ignored = agent.doWork();
  }

  /** The process of the client of a session. */
  static ProcessId processOf(long session) {
    return new ProcessId(1000 + session, 1);
  }

  @Override
  public void close() {
    if (gpus != null) {
      gpus.close();
    }
    directory.close();
    arena.close();
  }

  /**
   * A completion, as far as tests look at it.
   *
   * @param places where the slots of {@code ids} begin in {@link #slabs}
   */
  record Answer(
      Verb verb,
      Status status,
      Status first,
      Status last,
      int run,
      List<Long> ids,
      List<Long> places,
      long value,
      @Nullable Holder holder) {}

  /** The region that advertises the longest prefix, and the number of the prefix's keys. */
  record Holder(int run, int region, int gpu, int rank) {}

  /** One client, which does only what it is told to do. */
  final class Client implements Session.Owner {
    /** The region that the next request names as its shard; 0: none. */
    int shard;

    final Session session;
    private final MemorySegment segment;
    private final RingProducer requests;
    private final RingConsumer completions;
    private Status endReason = Status.OK;

    /** The correlation id of the requests that it sends. */
    long correlation;

    private Client(long id, Grant grant, SessionRegion region) {
      segment = region.segment();
      requests = region.requestProducer();
      completions = region.completionConsumer();
      Session.Client client = new Session.Client("client-" + id, processOf(id), 1, 0);
      session = new Session(id, client, grant, region, 16, this);
    }

    @Override
    public void end(Session ended, Status reason, String why) {
      endReason = reason;
    }

    @Override
    public void released(Session ended) {}

    /** The session's memory, for tests that write to it as no correct client would. */
    MemorySegment memory() {
      return segment;
    }

    /** Why the index cut the session off; OK when it did not. */
    Status endReason() {
      return endReason;
    }

    /** Writes and publishes a request without keys. */
    void send(Verb verb, int namespaceId, long argument, int count, long... body)
        throws ProtocolViolation {
      write(verb, 0, 0, namespaceId, argument, count, body);
    }

    /** Publishes an empty request with flags and a length of keys. */
    void sendFlags(Verb verb, int flags, int keyBytes) throws ProtocolViolation {
      write(verb, flags, keyBytes, 0, 0, 0);
    }

    /** Publishes a request on ids with flags. */
    void sendIds(Verb verb, int flags, int count, long... body) throws ProtocolViolation {
      write(verb, flags, 0, 0, 0, count, body);
    }

    /** Publishes a request with a body of words. */
    void sendWords(Verb verb, int flags, int keyBytes, int count, long[] body)
        throws ProtocolViolation {
      write(verb, flags, keyBytes, 0, 0, count, body);
    }

    /** Puts a block whose bytes are all zero, with a checksum of the client's. */
    void put(long key, int checksum) throws ProtocolViolation {
      put(key, checksum, false);
    }

    /** Puts a block with a checksum of the client's, which the reservation announces or not. */
    void put(long key, int checksum, boolean forCopies) throws ProtocolViolation {
      Answer reserved = reserve(key, 1, forCopies);
      assertEquals(1, reserved.ids().size(), "key " + key + " got no slot");
      long id = reserved.ids().getFirst();
      sendIds(Verb.COMMIT, RequestDescriptor.FLAG_CHECKSUMS, 1, id, checksum);
      assertEquals(Status.OK, work().first());
    }

    /** Annotates a block; returns how many blocks got the annotation. */
    long annotate(long key, byte[] annotation) throws ProtocolViolation {
      AnnotationBody body = new AnnotationBody();
      byte[] keyBytes = new byte[Long.BYTES];
      MemorySegment.ofArray(keyBytes).set(ValueLayout.JAVA_LONG_UNALIGNED, 0, key);
      assertTrue(body.add(keyBytes, annotation));
      byte[] bytes = body.take();
      long[] words = new long[bytes.length / Long.BYTES];
      MemorySegment.copy(
          MemorySegment.ofArray(bytes), 0, MemorySegment.ofArray(words), 0, bytes.length);
      send(Verb.ANNOTATE, 0, 0, bytes.length, words);
      return work().value();
    }

    /** Reserves slots for keys that follow one another, to be written in place, or by copies. */
    Answer reserve(long firstKey, int count, boolean forCopies) throws ProtocolViolation {
      long[] keys = LongStream.range(firstKey, firstKey + count).toArray();
      sendWords(Verb.RESERVE, forCopies ? RequestDescriptor.FLAG_CHECKSUMS : 0, 8, count, keys);
      return work();
    }

    /** The status of the commit of a block that was written in place. */
    Status commit(long id) throws ProtocolViolation {
      sendIds(Verb.COMMIT, 0, 1, id);
      return await().first();
    }

    /** The status of a request for one block. */
    Status ask(Verb verb, long key) throws ProtocolViolation {
      sendKeys(verb, key, 1);
      return work().first();
    }

    /** Registers the namespace 1, of blocks of two slots of namespace 0. */
    void registerLarger() throws ProtocolViolation {
      registerLarger(2 * SLOT_BYTES);
    }

    /** Registers the namespace 1, of blocks of a number of bytes. */
    void registerLarger(int blockBytes) throws ProtocolViolation {
      assertEquals(Status.OK, say(Verb.REGISTER, blockBytes, "name=larger"));
    }

    /** Publishes a request of one key in a namespace. */
    void sendKey(Verb verb, int namespaceId, long key) throws ProtocolViolation {
      write(verb, 0, 8, namespaceId, 0, 1, key);
    }

    /** Publishes a request of keys that follow one another from a first one. */
    void sendKeys(Verb verb, long firstKey, int count) throws ProtocolViolation {
      long[] keys = new long[count];
      for (int i = 0; i < count; i++) {
        keys[i] = firstKey + i;
      }
      write(verb, 0, 8, 0, 0, count, keys);
    }

    /** Reserves the slots of keys that follow one another, for a region's shard of each block. */
    Answer reserveShard(int region, long firstKey, int count) throws ProtocolViolation {
      shard = region;
      sendKeys(Verb.RESERVE, firstKey, count);
      shard = 0;
      return work();
    }

    private void write(
        Verb verb, int flags, int keyBytes, int namespaceId, long argument, int count, long... body)
        throws ProtocolViolation {
      int bytes = RequestDescriptor.HEADER_BYTES + 8 * body.length;
      long at = requests.tryClaim(bytes);
      assertTrue(at >= 0, "no room in the request ring");
      Records.begin(segment, at, bytes, verb, flags);
      Words.putByte(segment, at + RequestDescriptor.KEY_BYTES_OFFSET, keyBytes);
      Words.putLong(segment, at + RequestDescriptor.CORRELATION_OFFSET, correlation);
      Words.putInt(segment, at + RequestDescriptor.NAMESPACE_OFFSET, namespaceId);
      Words.putInt(segment, at + RequestDescriptor.COUNT_OFFSET, count);
      Words.putLong(segment, at + RequestDescriptor.ARGUMENT_OFFSET, argument);
      Words.putInt(segment, at + RequestDescriptor.SHARD_OFFSET, shard);
      for (int i = 0; i < body.length; i++) {
        Words.putLong(segment, at + RequestDescriptor.HEADER_BYTES + 8L * i, body[i]);
      }
      requests.publish();
    }

    /** Retains blocks whose keys follow one another. */
    Answer retain(long firstKey, int count, long lifetimeNs) throws ProtocolViolation {
      sendRetain(firstKey, count, lifetimeNs);
      return work();
    }

    /** Publishes a RETAIN of keys that follow one another. */
    void sendRetain(long firstKey, int count, long lifetimeNs) throws ProtocolViolation {
      long[] keys = LongStream.range(firstKey, firstKey + count).toArray();
      write(Verb.RETAIN, 0, 8, 0, lifetimeNs, count, keys);
    }

    /** Publishes a PING in whose header a word is set. */
    void sendPingWith(int offset, int word) throws ProtocolViolation {
      long at = requests.tryClaim(RequestDescriptor.HEADER_BYTES);
      Records.begin(segment, at, RequestDescriptor.HEADER_BYTES, Verb.PING, 0);
      Words.putInt(segment, at + offset, word);
      requests.publish();
    }

    /** Publishes a request of one key about a block of a region. */
    void sendBlock(Verb verb, int region, int layers, int event, long key, int target)
        throws ProtocolViolation {
      sendBlocks(verb, region, layers, event, 0, key, target, 1);
    }

    /** Publishes a request of one key about some layers of a block of a region. */
    void sendLayers(Verb verb, int region, int firstLayer, int endLayer, long key, int target)
        throws ProtocolViolation {
      long[] keys = {key};
      int[] targets = {target};
      sendBlocks(verb, region, firstLayer, endLayer, 0, 0, keys, targets);
    }

    /** Publishes a request about blocks of a region, with all of the region's layers. */
    void sendBlocks(Verb verb, int region, long[] keys, int[] targets) throws ProtocolViolation {
      sendBlocks(verb, region, 0, 0, 0, 0, keys, targets);
    }

    /**
     * Publishes a request about blocks of a region whose keys are all equal; the count may be 0.
     */
    void sendBlocks(
        Verb verb, int region, int layers, int event, int progress, long key, int target, int count)
        throws ProtocolViolation {
      long[] keys = new long[count];
      int[] targets = new int[count];
      Arrays.fill(keys, key);
      Arrays.fill(targets, target);
      sendBlocks(verb, region, 0, layers, event, progress, keys, targets);
    }

    private void sendBlocks(
        Verb verb,
        int region,
        int firstLayer,
        int endLayer,
        int event,
        int progress,
        long[] keys,
        int[] targets)
        throws ProtocolViolation {
      int count = keys.length;
      int bytes = Records.request(verb, count, 8, 0);
      long at = requests.tryClaim(bytes);
      segment.asSlice(at, bytes).fill((byte) 0);
      Records.begin(segment, at, bytes, verb, 0);
      Words.putByte(segment, at + RequestDescriptor.KEY_BYTES_OFFSET, 8);
      Words.putInt(segment, at + RequestDescriptor.COUNT_OFFSET, count);
      Words.putInt(segment, at + RequestDescriptor.REGION_OFFSET, region);
      Words.putShort(segment, at + RequestDescriptor.FIRST_LAYER_OFFSET, firstLayer);
      Words.putShort(segment, at + RequestDescriptor.END_LAYER_OFFSET, endLayer);
      Words.putInt(segment, at + RequestDescriptor.EVENT_OFFSET, event);
      Words.putInt(segment, at + RequestDescriptor.PROGRESS_OFFSET, progress);
      long body = at + RequestDescriptor.HEADER_BYTES;
      for (int i = 0; i < count; i++) {
        Words.putLong(segment, body + 8L * i, keys[i]);
        Words.putInt(segment, body + 8L * count + 4L * i, targets[i]);
      }
      requests.publish();
    }

    /** Advertises blocks of a region, with a rank; returns the status of the first. */
    Status advertise(int region, int rank, long[] keys, int... numbers) throws ProtocolViolation {
      sendAdvertise(region, rank, keys, numbers);
      return await().first();
    }

    void sendAdvertise(int region, int rank, long[] keys, int... numbers) throws ProtocolViolation {
      sendAdvertise(region, 0, rank, keys, numbers);
    }

    /** Publishes a request to advertise blocks of a group. */
    void sendAdvertise(int region, int group, int rank, long[] keys, int[] numbers)
        throws ProtocolViolation {
      int bytes = Records.request(Verb.ADVERTISE, keys.length, 8, 0);
      long at = requests.tryClaim(bytes);
      segment.asSlice(at, bytes).fill((byte) 0);
      Records.begin(segment, at, bytes, Verb.ADVERTISE, 0);
      Words.putByte(segment, at + RequestDescriptor.KEY_BYTES_OFFSET, 8);
      Words.putInt(segment, at + RequestDescriptor.COUNT_OFFSET, keys.length);
      Words.putShort(segment, at + RequestDescriptor.GROUP_OFFSET, group);
      Words.putLong(segment, at + RequestDescriptor.ARGUMENT_OFFSET, rank);
      Words.putInt(segment, at + RequestDescriptor.REGION_OFFSET, region);
      long body = at + RequestDescriptor.HEADER_BYTES;
      for (int i = 0; i < keys.length; i++) {
        Words.putLong(segment, body + 8L * i, keys[i]);
        Words.putInt(segment, body + 8L * keys.length + 4L * i, numbers[i]);
      }
      requests.publish();
    }

    /** Takes back what a region advertises. */
    void sendRevoke(int region, long... keys) throws ProtocolViolation {
      write(Verb.REVOKE, 0, 8, 0, region, keys.length, keys);
    }

    /** Registers a namespace of blocks of one slot; returns its number. */
    int registered(String text) throws ProtocolViolation {
      Answer answer = registerAs(text, SLOT_BYTES);
      assertEquals(Status.OK, answer.status());
      return (int) answer.value();
    }

    /** Puts a block in a namespace, without a checksum. */
    void putIn(int namespace, long key) throws ProtocolViolation {
      sendKey(Verb.RESERVE, namespace, key);
      sendIds(Verb.COMMIT, 0, 1, await().ids().getFirst());
      assertEquals(Status.OK, await().first());
    }

    /** The answer to a lookup of keys. */
    Answer lookup(long... keys) throws ProtocolViolation {
      write(Verb.LOOKUP, 0, 8, 0, 0, keys.length, keys);
      return work();
    }

    /** Has a region opened; returns its number. */
    int registerRegion(String text) throws ProtocolViolation {
      sendText(Verb.REGISTER_REGION, 0, text);
      Answer answer = await();
      assertEquals(Status.OK, answer.status());
      return (int) answer.value();
    }

    /** Lets the index work until there is an answer, and takes it. */
    Answer await() throws ProtocolViolation {
      long end = System.nanoTime() + 60_000_000_000L;
      while (!completions.hasNext() && System.nanoTime() < end) {
        int ignored = agent.doWork();
        agent.checkInvariants();
      }
      assertTrue(completions.hasNext(), "no answer");
      return take();
    }

    /** Registers the namespace 0, of blocks of one slot. */
    void register() throws ProtocolViolation {
      assertEquals(Status.OK, say(Verb.REGISTER, SLOT_BYTES, "name=test"));
    }

    /** Registers a namespace of that name; returns how it ended. */
    Answer registerAs(String name, long blockBytes) throws ProtocolViolation {
      send(Verb.REGISTER, blockBytes, "name=" + name);
      return work();
    }

    /** Gives an operator's command. */
    Status admin(String command) throws ProtocolViolation {
      return say(Verb.ADMIN, 0, command);
    }

    Status say(Verb verb, long argument, String words) throws ProtocolViolation {
      sendText(verb, argument, words);
      return work().status();
    }

    void sendText(Verb verb, long argument, String words) throws ProtocolViolation {
      send(verb, argument, words);
    }

    private void send(Verb verb, long argument, String words) throws ProtocolViolation {
      send(verb, argument, words.getBytes(StandardCharsets.UTF_8));
    }

    /** Publishes a request whose text is these bytes, which may be none. */
    void send(Verb verb, long argument, byte[] text) throws ProtocolViolation {
      long[] body = new long[(text.length + 7) / 8];
      for (int i = 0; i < text.length; i++) {
        body[i / 8] |= (text[i] & 0xffL) << (i % 8 * 8);
      }
      send(verb, 0, argument, text.length, body);
    }

    /** The daemon's state, as this client may see it. */
    String stats() throws ProtocolViolation {
      sendFlags(Verb.STATS, 0, 0);
      return text();
    }

    /** Lets the index work one round, and takes the text of the answer. */
    String text() throws ProtocolViolation {
      int ignored = agent.doWork();
      assertTrue(completions.hasNext(), "no answer");
      long at = completions.offset();
      byte[] text = new byte[Words.getInt(segment, at + CompletionDescriptor.COUNT_OFFSET)];
      MemorySegment.copy(
          segment,
          at + CompletionDescriptor.HEADER_BYTES,
          MemorySegment.ofArray(text),
          0,
          text.length);
      completions.skip(completions.recordBytes());
      completions.release();
      return new String(text, StandardCharsets.UTF_8);
    }

    /** Lets the index work one round, and takes the answer. */
    Answer work() throws ProtocolViolation {
      int ignored = agent.doWork();
      assertTrue(completions.hasNext(), "no answer");
      return take();
    }

    boolean hasAnswer() throws ProtocolViolation {
      return completions.hasNext();
    }

    Answer take() throws ProtocolViolation {
      long at = completions.offset();
      Verb verb = Verb.of(Words.getShort(segment, at + CompletionDescriptor.VERB_OFFSET));
      assertTrue(verb != null);
      int flags = Words.getShort(segment, at + CompletionDescriptor.FLAGS_OFFSET);
      Status status = Status.of(Words.getShort(segment, at + CompletionDescriptor.STATUS_OFFSET));
      int count = Words.getInt(segment, at + CompletionDescriptor.COUNT_OFFSET);
      int run = Words.getInt(segment, at + CompletionDescriptor.RUN_OFFSET);
      long value = Words.getLong(segment, at + CompletionDescriptor.VALUE_OFFSET);
      List<Long> ids = new ArrayList<>();
      List<Long> places = new ArrayList<>();
      boolean isLong =
          Records.result(verb) == CompletionDescriptor.LONG_RESULT_BYTES
              && (flags & CompletionDescriptor.FLAG_TEXT) == 0;
      for (int i = 0; isLong && i < count; i++) {
        long result =
            at
                + CompletionDescriptor.HEADER_BYTES
                + (long) i * CompletionDescriptor.LONG_RESULT_BYTES;
        if (Words.getShort(segment, result) == Status.OK.code()) {
          ids.add(Words.getLong(segment, result + CompletionDescriptor.BLOCK_ID_OFFSET));
          places.add(
              Words.getInt(segment, result + CompletionDescriptor.BLOCK_SLAB_OFFSET) * slabBytes
                  + Words.getLong(segment, result + CompletionDescriptor.BLOCK_OFFSET_OFFSET));
        }
      }
      boolean hasFirst = count > 0 && (flags & CompletionDescriptor.FLAG_TEXT) == 0;
      int first =
          hasFirst ? Words.getShort(segment, at + CompletionDescriptor.HEADER_BYTES) & 0xff : 0;
      int stride = Records.result(verb);
      long lastAt = at + CompletionDescriptor.HEADER_BYTES + (long) (count - 1) * stride;
      int last = hasFirst ? Words.getShort(segment, lastAt) & 0xff : 0;
      Holder holder = null;
      if ((flags & CompletionDescriptor.FLAG_PEERS) != 0) {
        long peers = at + Records.completion(verb, count);
        assertEquals(
            completions.recordBytes(), peers + CompletionDescriptor.PEERS_BYTES - at, "bytes");
        holder =
            new Holder(
                Words.getInt(segment, peers + CompletionDescriptor.PEERS_RUN_OFFSET),
                Words.getInt(segment, peers + CompletionDescriptor.PEERS_REGION_OFFSET),
                Words.getInt(segment, peers + CompletionDescriptor.PEERS_GPU_OFFSET),
                Words.getInt(segment, peers + CompletionDescriptor.PEERS_RANK_OFFSET));
      }
      completions.skip(completions.recordBytes());
      completions.release();
      return new Answer(
          verb, status, Status.of(first), Status.of(last), run, ids, places, value, holder);
    }
  }
}
