package io.kvtier.daemon.simulation;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.daemon.index.IndexAgent;
import io.kvtier.daemon.index.IndexContext;
import io.kvtier.daemon.index.IndexHarness;
import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.MemoryLedger;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.daemon.index.move.StoreParts;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.daemon.index.report.RequestTap;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.WriterParts;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.daemon.index.space.TierParts;
import io.kvtier.layout.encoding.EncodingKind;
import io.kvtier.policies.EvictionPolicies;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.gpu.CopyOptions;
import io.kvtier.tiers.gpu.EncodingMode;
import io.kvtier.tiers.gpu.GpuProbe;
import io.kvtier.tiers.gpu.GpuTier;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.object.PresenceCache;
import io.kvtier.tiers.slots.Claim;
import io.kvtier.tiers.slots.ClaimNote;
import io.kvtier.tiers.slots.RegionLanes;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.ssd.SlotDevice;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.EncodedGranules;
import io.kvtier.tiers.transfer.Leg;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.function.ToLongFunction;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** One run of the whole daemon from one seed. */
final class Simulation implements SimulatedClient.World, AutoCloseable {
  /** A bug put in on purpose, to see that the simulation finds it. */
  enum Planted {
    NONE,
    /** The copy pipeline reports a checksum that it did not make. */
    PUBLISH_BEFORE_CHECKSUM,
    /** Bytes from SSD are not verified. */
    LOAD_WITHOUT_VERIFYING,
    /** A failed read counts as loaded. */
    READ_ERROR_COUNTS_AS_LOADED,
    /** A failed write counts as stored. */
    WRITE_ERROR_COUNTS_AS_STORED,
    /** A write that finds the device full counts as stored. */
    FULL_DEVICE_COUNTS_AS_STORED,
    /** Rows that a full ledger did not take count as written. */
    FULL_LEDGER_COUNTS_AS_WRITTEN,
    /** A store is acknowledged before its row is in the ledger. */
    ACKNOWLEDGE_BEFORE_LEDGER,
    /** The ledger keeps the rows of deleted blocks. */
    DELETE_WITHOUT_FORGETTING,
    /** A row counts as deleted too early: its slot is reused while the row is still there. */
    FORGOTTEN_TOO_EARLY,
    /** Adopted memory is handed out as if no other client could write it. */
    ADOPT_WITHOUT_VERIFYING,
    /** The next daemon does not hear of slots that clients of the last one are writing. */
    LATE_WRITERS_FORGOTTEN,
    /** A client that has lost its slot counts as gone while it goes on writing. */
    LATE_WRITERS_COUNT_AS_GONE,
    /** A failed write of an object counts as stored. */
    OBJECT_ERROR_COUNTS_AS_STORED,
    /** Bytes of objects are not verified. */
    OBJECT_LOADED_WITHOUT_VERIFYING,
    /** The object of a deleted block stays. */
    OBJECT_NOT_DELETED,
    /** The index never hears that objects were deleted for the cap, not even when it asks. */
    COLLECTED_WITHOUT_A_WORD,
    /** Gets wait for slots until their deadlines, even if only clients could free one. */
    WAITS_IN_VAIN,
    /** A block that fails to verify in a slab counts as damaged on the device. */
    LOAD_JUDGED_WHERE_OTHERS_WRITE,
    /** A block that leaves because it has an object leaves without a look at the object. */
    OBJECT_TRUSTED_AT_EVICTION,
    /** A block that several clients put together is visible before the last of them has written. */
    VISIBLE_BEFORE_THE_LAST_SHARD,
    /** Retentions end long before their time. */
    RETENTION_ENDS_EARLY,
    /** Tenants retain more than their quotas. */
    RETENTION_BEYOND_THE_QUOTA,
    /** Parts of a raw block that came encoded are not decoded to the block's slot. */
    ENCODED_PARTS_NOT_DECODED,
    /** Parts of a raw block are decoded with a scale that is not theirs. */
    SCALE_OF_ANOTHER_TILE,
    /** A raw object is read into the slot of an encoded block, and counts as that. */
    OBJECT_OF_OTHER_FORM_LOADED,
    /** The object of a block that lost something is decoded when it is read, and counts as raw. */
    LOSSY_OBJECT_COUNTS_AS_RAW;

    /** Whether blocks are copied from and to a GPU. */
    boolean isOfGpu() {
      return this == NONE || this == ENCODED_PARTS_NOT_DECODED || this == SCALE_OF_ANOTHER_TILE;
    }

    boolean isOfObjects() {
      return this == OBJECT_ERROR_COUNTS_AS_STORED
          || this == OBJECT_LOADED_WITHOUT_VERIFYING
          || this == OBJECT_NOT_DELETED
          || this == COLLECTED_WITHOUT_A_WORD
          || this == OBJECT_TRUSTED_AT_EVICTION
          || this == OBJECT_OF_OTHER_FORM_LOADED
          || this == LOSSY_OBJECT_COUNTS_AS_RAW;
    }
  }

  /** The outcome of a run. */
  record Outcome(
      long seed,
      int hits,
      long faults,
      long demotions,
      long promotions,
      long corrupt,
      long crashes) {}

  /** A promise was broken. */
  static final class Violation extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Violation(String message) {
      super(message);
    }
  }

  private static final int SLAB_BYTES = 64 * 1024;
  private static final int PAGE = 4096;
  private static final int STEPS = 1200;

  /** The elements that have one scale in {@code fp8}. */
  private static final int TILE_ELEMENTS = 512;

  static final long RESERVATION_NS = 30_000_000_000L;
  static final long RETENTION_NS_MAX = 120_000_000_000L;
  private static final double RETAINED_SHARE = 0.25;

  /** Four times the time after which the index sees that nothing moves. */
  private static final int QUIET_MS_MAX = (int) (4 * Limits.STANDSTILL_NS / 1_000_000);

  /** So that the lanes of slabs are drawn apart from all else. */
  private static final long NUMA = 0x4e554d41L;

  private final RegionLanes slabLanes;
  private final long seed;
  private final SplittableRandom random;
  private final Planted planted;
  private final Arena arena = Arena.ofShared();
  private final MemorySegment[] slabs;

  /** The slabs that any client was ever allowed to write. */
  private final BitSet writable = new BitSet();

  /** The notes of slots that clients are writing. */
  private final Map<Integer, Claim> claims = new TreeMap<>();

  /** The slabs in which clients may be writing anywhere. */
  private final BitSet doubted = new BitSet();

  private final LateWriters lateWriters;
  private final List<SimulatedTier> lower = new ArrayList<>();
  private final @Nullable SimulatedObjects objects;
  private final int blocks;
  private final MemoryLedger.Medium hostMedium = new MemoryLedger.Medium();
  private final double commitFailures;

  /** The random source of faults that were added later, so that older seeds keep their choices. */
  private final SplittableRandom later;

  /** How often clients write over a block that was just loaded. */
  private final double scribbles;

  /** How often another node deletes the object of a block that is here. */
  private final double vanishings;

  private boolean isStoreAlwaysOpen;
  private final Oracle oracle;
  private final List<SimulatedClient> clients = new ArrayList<>();
  private final List<Session> toClose = new ArrayList<>();

  /** Sessions that the daemon ended: their clients have not hung up. */
  private final Set<Session> cutOff = new HashSet<>();

  private final int[] blockBytes;

  private final SimulatedEncodings encodings;

  /** The memory of the GPU; null when there is none. */
  private final @Nullable Path gpuFolder;

  private @Nullable GpuTier gpus;

  private final boolean faulty;
  private final boolean hasTenants;
  private final Tenants tenants;
  private final Tenants.Regions slabTenants;
  private final Session.Owner owner;
  private Directory directory;
  private @Nullable EventOracle events;
  private IndexAgent agent;
  private Counters counters;
  private SimulatedPipeline copies;
  private @Nullable SimulatedPipeline objectTransfers;
  private long nowNs = 1_000_000_000L;
  private long nextSession = 1;
  private long crashes;
  private long lostBefore;
  private long demotions;
  private long promotions;
  private long corrupt;

  Simulation(long seed, Planted planted) throws IOException {
    this(seed, planted, List.of(KnownTiers.SSD));
  }

  /**
   * A run whose choices follow from a seed.
   *
   * @param lowerTiers the traits of the tiers below the first
   */
  @SuppressWarnings("NullAway.Init") // start() makes the daemon's parts, here and after every crash
  Simulation(long seed, Planted planted, List<TierTraits> lowerTiers) throws IOException {
    this.seed = seed;
    this.planted = planted;
    random = new SplittableRandom(seed);
    later = new SplittableRandom(~seed);
    hasTenants = planted == Planted.NONE && random.nextInt(4) == 0;
    blockBytes =
        hasTenants
            ? new int[] {2 * PAGE, random.nextBoolean() ? PAGE : 2 * PAGE}
            : random.nextInt(3) == 0 ? new int[] {PAGE, 3 * PAGE} : new int[] {2 * PAGE};
    encodings = encodings();
    oracle = new Oracle(encodings);
    gpuFolder =
        encodings.isNowhere() || !planted.isOfGpu()
            ? null
            // Handles are short.
            : Files.createTempDirectory(Path.of("/dev/shm"), "kvs");
    slabs = new MemorySegment[2 + random.nextInt(5)];
    for (int i = 0; i < slabs.length; i++) {
      slabs[i] = arena.allocate(SLAB_BYTES, PAGE);
    }
    lateWriters = new LateWriters(this::slab, random.split());
    blocks = 64 + random.nextInt(512);
    int files = random.nextInt(5) == 0 ? 0 : 1 + random.nextInt(8);
    faulty = random.nextInt(3) != 0;
    // Half of each tier is the tenant's. The rest is for clients without a tenant.
    tenants =
        Tenants.of(
            hasTenants
                ? List.of(new TenantConfig("blue", List.of(), List.of(), 0, 0, 1))
                : List.of());
    slabLanes = anyLanes(new SplittableRandom(seed ^ NUMA), slabs.length);
    slabTenants = tenants.regions(List.of((long) slabs.length / 2), slabs.length, 1);
    SimulatedDevice.Faults faults = faults();
    commitFailures = commitFailures();
    for (TierTraits traits : lowerTiers) {
      // Further tiers have files only if the first of them has.
      int ofTier = lower.isEmpty() || files == 0 ? files : 1 + random.nextInt(8);
      lower.add(new SimulatedTier(traits, ofTier, tenants, faults, random));
    }
    objects =
        planted.isOfObjects() || (planted == Planted.NONE && random.nextInt(3) == 0)
            ? new SimulatedObjects(objectFaults(), planted, this::nowNs, random.split())
            : null;
    owner =
        new Session.Owner() {
          @Override
          public void end(Session session, Status reason, String why) {
            toClose.add(session);
            for (SimulatedClient client : clients) {
              if (client.session() == session) {
                cutOff.add(session);
                client.goOnWriting();
              }
            }
          }

          @Override
          public void released(Session session) {
            for (SimulatedClient client : clients) {
              if (client.session() == session) {
                client.forget();
                client.unmap();
              }
            }
          }
        };
    scribbles =
        switch (planted) {
          case NONE -> later.nextInt(3) == 0 ? later.nextDouble() * 0.5 : 0;
          case LOAD_JUDGED_WHERE_OTHERS_WRITE -> 0.3;
          default -> 0;
        };
    vanishings =
        switch (planted) {
          case NONE -> !faulty && later.nextBoolean() ? later.nextDouble() * 0.1 : 0;
          case OBJECT_TRUSTED_AT_EVICTION -> 0.1;
          default -> 0;
        };
    start();
    int keys = 16 + random.nextInt(200);
    int count = (hasTenants ? 2 : 1) + random.nextInt(4);
    for (int i = 0; i < count; i++) {
      int tenant = hasTenants ? i % 2 : SimulatedClient.ANY;
      clients.add(
          new SimulatedClient(
              "client " + i, this, oracle, random.split(), blockBytes, keys, tenant));
    }
  }

  /** A planted bug must be found soon: the faults that reveal it are frequent. */
  private SimulatedDevice.Faults faults() {
    return switch (planted) {
      case LOAD_WITHOUT_VERIFYING -> new SimulatedDevice.Faults(0, 0, 0.05, 0.05, 0.05, 0.05, 0);
      case READ_ERROR_COUNTS_AS_LOADED -> new SimulatedDevice.Faults(0.1, 0, 0, 0, 0, 0, 0);
      case WRITE_ERROR_COUNTS_AS_STORED -> new SimulatedDevice.Faults(0, 0.1, 0, 0, 0, 0, 0);
      case FULL_DEVICE_COUNTS_AS_STORED -> new SimulatedDevice.Faults(0, 0, 0, 0, 0, 0, 0.03);
      case FULL_LEDGER_COUNTS_AS_WRITTEN,
          ACKNOWLEDGE_BEFORE_LEDGER,
          DELETE_WITHOUT_FORGETTING,
          FORGOTTEN_TOO_EARLY,
          OBJECT_ERROR_COUNTS_AS_STORED,
          OBJECT_LOADED_WITHOUT_VERIFYING,
          OBJECT_NOT_DELETED,
          COLLECTED_WITHOUT_A_WORD,
          WAITS_IN_VAIN,
          LOAD_JUDGED_WHERE_OTHERS_WRITE,
          OBJECT_TRUSTED_AT_EVICTION,
          VISIBLE_BEFORE_THE_LAST_SHARD,
          ENCODED_PARTS_NOT_DECODED,
          SCALE_OF_ANOTHER_TILE,
          RETENTION_ENDS_EARLY,
          RETENTION_BEYOND_THE_QUOTA,
          OBJECT_OF_OTHER_FORM_LOADED,
          LOSSY_OBJECT_COUNTS_AS_RAW ->
          SimulatedDevice.Faults.NONE;
      case NONE,
          PUBLISH_BEFORE_CHECKSUM,
          ADOPT_WITHOUT_VERIFYING,
          LATE_WRITERS_FORGOTTEN,
          LATE_WRITERS_COUNT_AS_GONE ->
          faulty
              ? new SimulatedDevice.Faults(
                  rare(), rare(), rare(), rare(), rare(), rare(), rare() / 3)
              : SimulatedDevice.Faults.NONE;
    };
  }

  private SimulatedEncodings encodings() {
    int namespaces = blockBytes.length;
    return switch (planted) {
      case NONE -> SimulatedEncodings.any(seed, namespaces);
      case ENCODED_PARTS_NOT_DECODED, OBJECT_OF_OTHER_FORM_LOADED ->
          SimulatedEncodings.all(EncodingKind.EXACT, namespaces);
      case SCALE_OF_ANOTHER_TILE, LOSSY_OBJECT_COUNTS_AS_RAW ->
          SimulatedEncodings.all(EncodingKind.FP8, namespaces);
      default -> SimulatedEncodings.all(null, namespaces);
    };
  }

  private SimulatedObjects.Faults objectFaults() {
    return switch (planted) {
      case NONE ->
          faulty
              ? new SimulatedObjects.Faults(rare(), rare(), rare())
              : SimulatedObjects.Faults.NONE;
      case OBJECT_ERROR_COUNTS_AS_STORED -> new SimulatedObjects.Faults(0.2, 0, 0);
      case OBJECT_LOADED_WITHOUT_VERIFYING -> new SimulatedObjects.Faults(0, 0.1, 0);
      default -> SimulatedObjects.Faults.NONE;
    };
  }

  private double commitFailures() {
    return switch (planted) {
      case NONE -> faulty && random.nextBoolean() ? random.nextDouble() * 0.2 : 0;
      case FULL_LEDGER_COUNTS_AS_WRITTEN -> 0.2;
      default -> 0;
    };
  }

  private int stepsToCrash() {
    return switch (planted) {
      case NONE, PUBLISH_BEFORE_CHECKSUM -> 600;
      case LOAD_WITHOUT_VERIFYING,
          READ_ERROR_COUNTS_AS_LOADED,
          WRITE_ERROR_COUNTS_AS_STORED,
          FULL_DEVICE_COUNTS_AS_STORED,
          OBJECT_LOADED_WITHOUT_VERIFYING,
          COLLECTED_WITHOUT_A_WORD,
          WAITS_IN_VAIN,
          LOAD_JUDGED_WHERE_OTHERS_WRITE,
          OBJECT_TRUSTED_AT_EVICTION,
          VISIBLE_BEFORE_THE_LAST_SHARD,
          ENCODED_PARTS_NOT_DECODED,
          SCALE_OF_ANOTHER_TILE,
          RETENTION_ENDS_EARLY,
          RETENTION_BEYOND_THE_QUOTA ->
          STEPS * STEPS;
      case FULL_LEDGER_COUNTS_AS_WRITTEN,
          ACKNOWLEDGE_BEFORE_LEDGER,
          DELETE_WITHOUT_FORGETTING,
          FORGOTTEN_TOO_EARLY,
          ADOPT_WITHOUT_VERIFYING,
          LATE_WRITERS_FORGOTTEN,
          LATE_WRITERS_COUNT_AS_GONE,
          OBJECT_ERROR_COUNTS_AS_STORED,
          OBJECT_NOT_DELETED,
          OBJECT_OF_OTHER_FORM_LOADED,
          LOSSY_OBJECT_COUNTS_AS_RAW ->
          150;
    };
  }

  /** The NUMA nodes of slabs: one or several, some perhaps without a slab. */
  private static RegionLanes anyLanes(SplittableRandom random, int slabs) {
    int lanes = 1 + random.nextInt(3);
    return new RegionLanes(random.ints(slabs, 0, lanes).toArray(), lanes);
  }

  private double rare() {
    return random.nextInt(3) == 0 ? random.nextDouble() * 0.1 : 0;
  }

  private void start() throws IOException {
    long generation = random.nextLong();
    MemorySegment region = arena.allocate(DaemonRegionDescriptor.REGION_BYTES, PAGE);
    counters = new Counters(region);
    directory = new Directory(blocks, generation, 0, 1 + lower.size());
    Leg checksum =
        switch (planted) {
          case PUBLISH_BEFORE_CHECKSUM -> transfer -> {};
          case ENCODED_PARTS_NOT_DECODED ->
              transfer -> {
                transfer.rest = null;
                Checksums.run(transfer);
              };
          case SCALE_OF_ANOTHER_TILE ->
              transfer -> {
                EncodedGranules rest = transfer.rest;
                if (rest != null && rest.decode(transfer.bytes())) {
                  doubleFirstTile(transfer.bytes(), rest);
                  transfer.rest = null;
                }
                Checksums.run(transfer);
              };
          default -> Checksums::run;
        };
    gpus = gpus();
    int copyDepth = 1 + random.nextInt(8);
    copies = new SimulatedPipeline(copyDepth, checksum, this::nowNs, random.split());
    List<TierParts.Lower> lowerParts = new ArrayList<>();
    List<List<Ledger>> ledgers = new ArrayList<>();
    for (SimulatedTier tier : lower) {
      lowerParts.add(tier.start(this, random));
      ledgers.add(tier.ledgers());
    }
    SlotAllocator hostSlots =
        new SlotAllocator(
            hasTenants ? slabTenants.toArray() : new int[slabs.length],
            tenants.count(),
            SLAB_BYTES,
            PAGE,
            slabLanes);
    if (crashes > 0 && planted != Planted.ADOPT_WITHOUT_VERIFYING) {
      writable.stream().forEach(slab -> hostSlots.addWriter(slab, SlotAllocator.UNKNOWN));
    }
    hostSlots.onFirstWriter(writable::set);
    String policy = anyPolicy();
    ObjectParts objectParts = objectParts();
    EventRing ring = newEvents().ring();
    WriterParts writers = writerParts();
    Limits limits = limits();
    int inlineBytes = random.nextBoolean() ? PAGE : 0;
    agent =
        new IndexAgent(
            new IndexContext(
                new IndexContext.Identity("sim", generation, region),
                new IndexCore(
                    this::nowNs,
                    directory,
                    new Namespaces(tenants),
                    counters,
                    new Latencies(),
                    limits),
                new StoreParts.Tiers(
                    new TierParts.First(
                        KnownTiers.HOST,
                        new TierParts.Space(hostSlots, 0, policy),
                        new MemoryLedger(hostMedium),
                        this::slab,
                        new TierParts.Checksums(copies, copyDepth, inlineBytes),
                        0.05),
                    lowerParts,
                    List.of(),
                    objectParts),
                gpus,
                ring,
                new RequestTap(false, 0, this::nowNs, counters),
                writers));
    agent.recover(ledgers, nowNs);
    if (planted == Planted.ADOPT_WITHOUT_VERIFYING) {
      IndexHarness.forgetTakenOver(directory, blocks);
    }
  }

  /** Doubles the elements of the first tile of each granule that came encoded. */
  private static void doubleFirstTile(MemorySegment raw, EncodedGranules rest) {
    int exponents = 0x7f80;
    int one = 0x80;
    for (int granule = 0; granule < rest.encoding().granules(); granule++) {
      long first = (long) granule * rest.encoding().rawGranuleBytes();
      long end = rest.granules().test(granule) ? first + 2L * TILE_ELEMENTS : first;
      for (long at = first; at < end; at += 2) {
        int element = Words.getShort(raw, at);
        Words.putShort(raw, at, (element & exponents) == 0 ? element : element + one);
      }
    }
  }

  private @Nullable GpuTier gpus() {
    Path folder = gpuFolder;
    if (folder == null) {
      return null;
    }
    FileGpu gpu = new FileGpu(folder, 0);
    return GpuTier.withoutThreads(
        new GpuTier.Parts(
            () -> new GpuProbe.Found(gpu),
            new CopyOptions(2, 4 * PAGE, 64, 1, 1, 1, 1, 1024),
            EncodingMode.ALWAYS,
            new GpuTier.Memory(this::slab, slabs.length, NumaHomes.none()),
            IndexAgent.DEVICE_TRANSFERS,
            () -> {},
            broken -> {
              throw new IllegalStateException(broken);
            }));
  }

  private Limits limits() {
    return new Limits(
        8,
        16 + random.nextInt(64),
        4 + random.nextInt(60),
        64 + random.nextInt(512),
        32 + random.nextInt(512),
        planted == Planted.RETENTION_BEYOND_THE_QUOTA ? 0.9 : RETAINED_SHARE,
        0.5,
        new Limits.Times(
            30_000_000_000L,
            600_000_000_000L,
            RETENTION_NS_MAX,
            RESERVATION_NS,
            1_000_000_000L,
            60_000_000_000L,
            planted == Planted.WAITS_IN_VAIN ? Long.MAX_VALUE : Limits.STANDSTILL_NS));
  }

  /** The notes of an earlier start about its clients that still run. */
  private WriterParts writerParts() {
    List<Claim> late = new ArrayList<>();
    for (Claim claim : claims.values()) {
      if (!lateWriters.isGone(claim.writer()) && planted != Planted.LATE_WRITERS_FORGOTTEN) {
        late.add(claim);
      }
    }
    claims.clear();
    for (int place = 0; place < late.size(); place++) {
      claims.put(place, late.get(place));
    }
    BitSet doubtful = (BitSet) doubted.clone();
    int lateMax = random.nextInt(4) == 0 ? late.size() + random.nextInt(4) : 1024;
    return new WriterParts(
        new Note(),
        4096,
        lateMax,
        late,
        doubtful,
        process -> planted == Planted.LATE_WRITERS_COUNT_AS_GONE || lateWriters.isGone(process));
  }

  /** The memory of claims, which outlives the daemon. */
  private final class Note implements ClaimNote {
    @Override
    public void write(int place, int region, long offset, int bytes, ProcessId writer) {
      claims.put(place, new Claim(region, offset, bytes, writer));
    }

    @Override
    public void clear(int place) {
      claims.remove(place);
    }

    @Override
    public void doubt(int region) {
      doubted.set(region);
    }
  }

  private EventOracle newEvents() throws IOException {
    EventOracle made = new EventOracle(crashes == 0);
    made.ring().wantWalk();
    if (events != null) {
      events.close();
    }
    events = made;
    return made;
  }

  private void readEvents() throws ProtocolViolation {
    String wrong = events == null ? null : events.read();
    if (wrong != null) {
      violated(wrong);
    }
  }

  /** The events since the start agree with the tiers. */
  private void expectTold() throws ProtocolViolation {
    EventOracle told = events;
    if (told == null) {
      return;
    }
    int walks = told.walks();
    told.ring().wantWalk();
    for (int round = 0; round < 2_000 && told.walks() < walks + 1; round++) {
      nowNs += 1_000_000;
      round();
    }
    if (told.walks() == walks) {
      violated("a walk over the directory does not end");
    }
  }

  /** Deletes an object for the cap: a block that is on SSD must not be lost by that. */
  private @Nullable List<String> collect(SplittableRandom chance) {
    return objects == null
        ? null
        : objects.collect(chance, resident(false), planted == Planted.COLLECTED_WITHOUT_A_WORD);
  }

  private @Nullable ObjectParts objectParts() {
    if (objects == null) {
      return null;
    }
    int depth = 2 + random.nextInt(8);
    objectTransfers = new SimulatedPipeline(depth, objects, this::nowNs, random.split());
    double open = random.nextInt(4) == 0 ? 0.95 : 1;
    isStoreAlwaysOpen = open == 1;
    SplittableRandom weather = random.split();
    PresenceCache presence =
        new PresenceCache(
            objects,
            new PresenceCache.Options(
                1 << 20,
                3_600_000_000_000L,
                1 + random.nextInt(1_000_000_000),
                1 + random.nextInt(64),
                1_000_000_000),
            null,
            this::nowNs,
            Runnable::run);
    String admission = List.of("all", "hot", "evicted", "frequency").get(random.nextInt(4));
    int spillBytes = random.nextInt(4 * PAGE * 16);
    return new ObjectParts(
        new ObjectParts.Traffic(
            objectTransfers,
            depth,
            () -> open == 1 || weather.nextDouble() < open,
            () -> open == 1 || weather.nextDouble() < open),
        new ObjectParts.Contents(
            presence,
            objects.deletions(this::nowNs),
            () -> weather.nextInt(200) == 0 ? collect(weather) : null,
            random.nextBoolean() ? null : key -> {}),
        admission,
        spillBytes,
        words -> new OperatorAnswer(Status.OK, ""),
        Map::of,
        () -> {});
  }

  /** A ledger that can't be written from time to time. */
  FailingLedger failing(MemoryLedger ledger) {
    return new FailingLedger(
        ledger, commitFailures, planted == Planted.FULL_LEDGER_COUNTS_AS_WRITTEN, random.split());
  }

  @Override
  public long seed() {
    return seed;
  }

  @Override
  public @Nullable Path gpuFolder() {
    return gpuFolder;
  }

  @Override
  public boolean isVisibleTooEarly() {
    return planted == Planted.VISIBLE_BEFORE_THE_LAST_SHARD;
  }

  Planted planted() {
    return planted;
  }

  /** Blocks of one start are found by the next, whatever codec that start writes with. */
  BlockCodec anyCodec() {
    return BlockCodecs.create(List.of("none", "none", "zstd", "planes").get(random.nextInt(4)));
  }

  SlotDevice device(SimulatedDevice honest) {
    return planted == Planted.FULL_DEVICE_COUNTS_AS_STORED
        ? new BoastfulDevice(honest)
        : new ScribbledDevice(honest, this::isScribbledOn, scribbles, later.split());
  }

  /** Whether clients can write to memory: only to slabs, except with a planted bug. */
  private boolean isScribbledOn(MemorySegment memory) {
    boolean isInSlab = false;
    for (MemorySegment slab : slabs) {
      long offset = memory.address() - slab.address();
      isInSlab |= offset >= 0 && offset < slab.byteSize();
    }
    return isInSlab || planted == Planted.LOAD_JUDGED_WHERE_OTHERS_WRITE;
  }

  Leg deviceLeg(Leg honest) {
    return switch (planted) {
      case LOAD_WITHOUT_VERIFYING ->
          transfer -> {
            honest.run(transfer);
            transfer.status = transfer.status == Status.CORRUPT ? Status.OK : transfer.status;
          };
      case READ_ERROR_COUNTS_AS_LOADED ->
          transfer -> {
            honest.run(transfer);
            boolean failed =
                transfer.kind == Transfer.Kind.LOAD && transfer.status == Status.IO_ERROR;
            transfer.status = failed ? Status.OK : transfer.status;
          };
      case WRITE_ERROR_COUNTS_AS_STORED ->
          transfer -> {
            honest.run(transfer);
            boolean failed =
                transfer.kind == Transfer.Kind.STORE && transfer.status == Status.IO_ERROR;
            transfer.status = failed ? Status.OK : transfer.status;
          };
      default -> honest;
    };
  }

  String anyPolicy() {
    List<String> names = new ArrayList<>();
    EvictionPolicies.names().forEach(names::add);
    return names.get(random.nextInt(names.size()));
  }

  @Override
  public long nowNs() {
    return nowNs;
  }

  @Override
  public MemorySegment slab(int slab) {
    return slabs[slab];
  }

  @Override
  public LateWriters lateWriters() {
    return lateWriters;
  }

  @Override
  public boolean hasLateWriters() {
    return switch (planted) {
      case NONE -> faulty;
      case LATE_WRITERS_FORGOTTEN, LATE_WRITERS_COUNT_AS_GONE -> true;
      default -> false;
    };
  }

  @Override
  public int scribblesOneIn() {
    return planted == Planted.ADOPT_WITHOUT_VERIFYING ? 1 : 4;
  }

  @Override
  public boolean hasObjects() {
    return objects != null;
  }

  @Override
  public boolean isBeingPut(Oracle.Key key) {
    return clients.stream().anyMatch(client -> client.isPutting(key));
  }

  @Override
  public boolean open(Session session) {
    return agent.offerOpen(session);
  }

  @Override
  public void close(Session session) {
    toClose.add(session);
  }

  @Override
  public void violated(String what) {
    throw new Violation("seed " + seed + ", at " + nowNs + " ns: " + what);
  }

  /** Runs to the end; throws a {@link Violation}, or the exception that the daemon threw. */
  Outcome run() throws IOException, ProtocolViolation {
    int hits = 0;
    for (int step = 0; step < STEPS; step++) {
      nowNs +=
          switch (random.nextInt(200)) {
            case 0 -> 1_000_000_000L + random.nextLong(40_000_000_000L);
            case 1, 2, 3 -> random.nextInt(100_000_000);
            default -> 1_000 + random.nextInt(200_000);
          };
      SimulatedClient client = clients.get(random.nextInt(clients.size()));
      if (client.isConnected()) {
        client.act();
      } else {
        client.connect(nextSession++, slabs.length, owner);
      }
      if (random.nextInt(stepsToCrash()) == 0) {
        crash();
      }
      if (random.nextInt(8) == 0 && lateWriters.write()) {
        oracle.somethingDamaged = true;
      }
      if (random.nextInt(400) == 0) {
        // The process ends, also in the middle of a write, and another process takes its place.
        SimulatedClient ending = clients.get(random.nextInt(clients.size()));
        ending.endProcess();
        Session session = ending.session();
        if (session != null && !toClose.contains(session)) {
          toClose.add(session);
        }
      }
      if (random.nextInt(200) == 0) {
        agent.swapPolicy(random.nextInt(1 + lower.size()), anyPolicy());
      }
      if (objects != null && isStoreAlwaysOpen && later.nextDouble() < vanishings) {
        objects.vanish(later, resident(true));
      }
      round();
      if (step % 8 == 0) {
        agent.checkInvariants();
        expectOwnSlabs();
        expectQuotas();
      }
    }
    if (hasTenants && !faulty && objects == null) {
      expectUndisturbed(random.nextInt(2));
    }
    expectRetentionsToEnd();
    if (planted == Planted.WAITS_IN_VAIN || (planted == Planted.NONE && !faulty)) {
      expectNobodyWaitsInVain();
    }
    settle();
    for (SimulatedClient client : clients) {
      hits += client.hits;
    }
    demotions += counters.get(Counter.DEMOTIONS);
    promotions += counters.get(Counter.PROMOTIONS);
    corrupt += counters.get(Counter.CORRUPT);
    long faultCount =
        faultsInjected(SimulatedDevice::faults) + (objects == null ? 0 : objects.faultCount());
    return new Outcome(seed, hits, faultCount, demotions, promotions, corrupt, crashes);
  }

  /** No tenant retains more than its share of the first tier. */
  private void expectQuotas() {
    for (int tenant = 0; tenant < tenants.count(); tenant++) {
      int number = tenant;
      long own =
          hasTenants
              ? Arrays.stream(slabTenants.toArray()).filter(one -> one == number).count()
              : slabs.length;
      long bytes = directory.retentions().bytesOf(tenant);
      if (bytes > RETAINED_SHARE * own * SLAB_BYTES) {
        violated("tenant " + tenant + " retains " + bytes + " bytes of " + own + " slabs");
      }
    }
  }

  /** When the longest lifetime is over, nothing is retained. */
  private void expectRetentionsToEnd() throws ProtocolViolation {
    int retained = directory.retentions().count();
    nowNs += RETENTION_NS_MAX + 300_000_000;
    for (int round = 0; round < 10; round++) {
      nowNs += 10_000_000;
      round();
    }
    if (directory.retentions().count() > 0) {
      violated(directory.retentions().count() + " of " + retained + " retentions have not ended");
    }
  }

  @Override
  public boolean isHarmless() {
    return scribbles == 0
        && !oracle.somethingDamaged
        && switch (planted) {
          case NONE -> !faulty;
          case RETENTION_ENDS_EARLY -> true;
          default -> false;
        };
  }

  private void round() throws ProtocolViolation {
    if (objects != null) {
      objects.turns();
    }
    agent.doWork();
    if (gpus != null) {
      gpus.doWork();
    }
    if (planted == Planted.RETENTION_ENDS_EARLY) {
      var _ = directory.retentions().expire(nowNs + RETENTION_NS_MAX, directory::endRetention);
    }
    readEvents();
    for (Session session : List.copyOf(toClose)) {
      toClose.remove(session);
      if (!agent.offerClose(session, !cutOff.remove(session))) {
        violated("the inbox is full");
      }
    }
    for (SimulatedClient client : clients) {
      client.read();
    }
  }

  /**
   * Kills the daemon, and starts it again. The content of the devices stays, and mostly also the
   * blocks in memory that have rows.
   */
  private void crash() throws IOException {
    crashes++;
    demotions += counters.get(Counter.DEMOTIONS);
    promotions += counters.get(Counter.PROMOTIONS);
    corrupt += counters.get(Counter.CORRUPT);
    toClose.clear();
    cutOff.clear();
    oracle.forgetRetained();
    for (SimulatedClient client : clients) {
      client.goOnWriting();
      client.forget();
      client.unmap();
    }
    if (gpus != null) {
      gpus.close();
    }
    lower.forEach(SimulatedTier::kill);
    if (objectTransfers != null) {
      objectTransfers.kill();
    }
    lostBefore += lost();
    boolean memoryStays = random.nextInt(4) != 0;
    if (objects != null && !memoryStays && objects.loseWhatVanished()) {
      lostBefore++;
    }
    if (lower.getFirst().files() == 0 && objects == null) {
      oracle.flushed.clear();
    } else if (hasTenants && lower.getFirst().files() == 1 && objects == null) {
      // The tenant has no part of the tier.
      oracle.flushed.removeIf(key -> key.namespace() != Grant.NO_TENANT);
    }
    Set<Oracle.Key> kept = memoryStays ? oracle.accepted : oracle.flushed;
    Set<Oracle.Key> resident = resident(memoryStays);
    boolean nothingMayBeLost = lostBefore == 0 && !oracle.somethingDamaged;
    if (!memoryStays) {
      oracle.accepted.retainAll(oracle.flushed);
      MemoryLedger host = new MemoryLedger(hostMedium);
      host.clear();
      host.commit(false);
      for (MemorySegment slab : slabs) {
        slab.fill((byte) 0);
      }
      writable.clear();
      claims.clear();
      doubted.clear();
      lateWriters.forget();
    }
    directory.close();
    start();
    agent.checkInvariants();
    for (Oracle.Key key : kept) {
      if (nothingMayBeLost
          && directory.size() < blocks
          && !oracle.deleted.contains(key)
          && !isAnywhere(key)) {
        violated(key + " was acknowledged and is lost after a crash");
      }
    }
    // A block that was being evicted may be found again, and take the last record of a full
    // directory.
    boolean isFull = directory.size() == blocks;
    for (Oracle.Key key : resident) {
      if (!isHere(key) && !isFull) {
        violated(key + " stood in a tier that outlives the daemon, and is lost after a crash");
      }
    }
    for (Oracle.Key key : oracle.removed) {
      if (isAnywhere(key)) {
        violated(key + " was deleted and is back after a crash");
      }
    }
  }

  /** No block of a tenant lies in a slab of another's, which its clients could read. */
  private void expectOwnSlabs() {
    if (!hasTenants) {
      return;
    }
    agent.forEachDurable(
        true,
        block -> {
          int tenant = directory.namespaceId(block) == namespaceId(0) ? 0 : 1;
          int slab = agent.slabOf(block);
          if (slab >= 0 && slabTenants.tenantOf(slab) != tenant) {
            violated("a block of tenant " + tenant + " lies in slab " + slab);
          }
        });
  }

  /** A tenant whose clients have gone keeps all its blocks, whatever the other tenant does. */
  private void expectUndisturbed(int tenant) throws IOException, ProtocolViolation {
    for (SimulatedClient client : clients) {
      Session session = client.session();
      if (client.tenant() == tenant && session != null && !toClose.contains(session)) {
        toClose.add(session);
      }
    }
    // The tenant's operations have ended after this, and its evictions ahead of need, too.
    for (int round = 0; round < 2_000; round++) {
      nowNs += 1_000_000;
      round();
    }
    Set<Oracle.Key> before = residentOf(tenant);
    for (int step = 0; step < STEPS / 2; step++) {
      nowNs += 200_000;
      SimulatedClient client = clients.get(random.nextInt(clients.size()));
      if (client.tenant() != tenant) {
        if (client.isConnected()) {
          client.act();
        } else {
          client.connect(nextSession++, slabs.length, owner);
        }
      }
      round();
    }
    Set<Oracle.Key> after = residentOf(tenant);
    if (!after.equals(before)) {
      before.removeAll(after);
      violated("tenant " + tenant + " has lost blocks by what another did: " + before);
    }
  }

  /**
   * A client that asks for more blocks than fit into memory, while others keep their holds, is
   * answered as soon as nothing is under way that could free a slot.
   */
  private void expectNobodyWaitsInVain() throws ProtocolViolation {
    for (SimulatedClient client : clients) {
      client.getAll();
    }
    int quietMs = 0;
    for (int round = 0;
        round < 10_000 && clients.stream().anyMatch(SimulatedClient::isGetting);
        round++) {
      nowNs += 1_000_000;
      round();
      quietMs = isQuiet() ? quietMs + 1 : 0;
      if (quietMs > QUIET_MS_MAX) {
        violated("a get waits, though nothing is under way: " + agent);
      }
    }
    agent.checkInvariants();
  }

  /** Whether no transfer is under way. */
  private boolean isQuiet() {
    boolean isBusy = copies.inFlight() > 0;
    for (SimulatedTier tier : lower) {
      isBusy |= tier.inFlight() > 0;
    }
    return !isBusy && (objectTransfers == null || objectTransfers.inFlight() == 0);
  }

  private Set<Oracle.Key> residentOf(int tenant) {
    Set<Oracle.Key> keys = resident(true);
    keys.removeIf(key -> key.namespace() != tenant);
    return keys;
  }

  private Set<Oracle.Key> resident(boolean memoryStays) {
    Set<Oracle.Key> keys = new HashSet<>();
    byte[] name = new byte[32];
    agent.forEachDurable(
        memoryStays,
        block -> {
          directory.copyKey(block, name);
          boolean isFirst = directory.namespaceId(block) == namespaceId(0);
          long number = ByteBuffer.wrap(name).order(ByteOrder.LITTLE_ENDIAN).getLong(8);
          keys.add(new Oracle.Key(isFirst ? 0 : 1, (int) number));
        });
    return keys;
  }

  private long lost() {
    return counters.get(Counter.DROPPED)
        + counters.get(Counter.CORRUPT)
        + counters.get(Counter.IO_ERRORS)
        + counters.get(Counter.SSD_EVICTIONS)
        + (objects != null && objects.isLossy ? 1 : 0);
  }

  private int namespaceId(int namespace) {
    return hasTenants
        ? agent.namespaceId(namespace, "n0")
        : agent.namespaceId(Grant.NO_TENANT, "n" + namespace);
  }

  private boolean isAnywhere(Oracle.Key key) {
    return isHere(key) || (objects != null && objects.has(key));
  }

  @Override
  public boolean isHere(Oracle.Key key) {
    MemorySegment name = arena.allocate(16, 8);
    Oracle.writeKey(key, name, 0);
    int id = namespaceId(key.namespace());
    return id >= 0 && directory.find(id, 0, 16, name, 0) != Directory.NONE;
  }

  /** All clients go: everything that they held must be free again. */
  private void settle() throws ProtocolViolation {
    for (SimulatedClient client : clients) {
      Session session = client.session();
      if (session != null && !toClose.contains(session)) {
        toClose.add(session);
      }
    }
    clients.forEach(SimulatedClient::endProcess);
    // Stores that wait for the next hour's write budget go on.
    nowNs += 3_600_000_000_000L;
    for (int round = 0; round < 2_000; round++) {
      nowNs += 1_000_000;
      round();
    }
    agent.checkInvariants();
    for (int round = 0; round < 2_000 && !agent.isIdle(); round++) {
      // The scrubber may just have found damage, and a fence may still have turns to go.
      nowNs += 20_000_000;
      round();
    }
    if (!agent.isIdle()) {
      violated("transfers are still in flight: " + agent);
    }
    agent.checkInvariants();
    // If the scrubber had the only place in a pipeline, a block may be written ahead of need just
    // now.
    int turns = 0;
    do {
      nowNs += 1_000_000_000L;
      round();
    } while (!agent.isIdle() && ++turns < 2_000);
    expectZero(Counter.GAUGE_LEASES);
    expectZero(Counter.GAUGE_RESERVATIONS);
    expectZero(Counter.GAUGE_LATE_WRITES);
    expectZero(Counter.GAUGE_OPERATIONS);
    expectZero(Counter.GAUGE_SESSIONS);
    expectZero(Counter.GAUGE_HOST_SLOTS_IN_FLIGHT);
    expectZero(Counter.GAUGE_SSD_SLOTS_IN_FLIGHT);
    if (corrupt + counters.get(Counter.CORRUPT) > 0
        && !oracle.somethingDamaged
        && faultsInjected(SimulatedDevice::silentFaults) == 0
        && (objects == null || objects.faultCount() == 0)) {
      violated("bytes are damaged, though every device told of every fault");
    }
    expectAccepted();
    expectTold();
  }

  /**
   * Without a fault, and with nothing dropped for want of space, every accepted block is there.
   * After a crash, a block may be lost that had left a lower tier and was in memory only. Without a
   * crash, the block is in another tier, or was counted as dropped.
   */
  private void expectAccepted() {
    oracle.accepted.removeAll(oracle.deleted);
    long left = lost() - (crashes == 0 ? counters.get(Counter.SSD_EVICTIONS) : 0);
    long there = oracle.accepted.stream().filter(this::isAnywhere).count();
    if (left + lostBefore == 0 && !oracle.somethingDamaged && there < oracle.accepted.size()) {
      violated(
          oracle.accepted.size()
              + " blocks were accepted and never evicted, but "
              + there
              + " are left");
    }
  }

  private long faultsInjected(ToLongFunction<SimulatedDevice> kind) {
    long sum = 0;
    for (SimulatedTier tier : lower) {
      sum += tier.sum(kind);
    }
    return sum;
  }

  private void expectZero(Counter gauge) {
    if (counters.get(gauge) != 0) {
      violated(gauge + " is " + counters.get(gauge) + " after everybody left: " + agent);
    }
  }

  private void removeGpuFolder() {
    Path folder = gpuFolder;
    if (folder == null) {
      return;
    }
    try (Stream<Path> files = Files.list(folder)) {
      for (Path file : files.toList()) {
        Files.delete(file);
      }
      Files.delete(folder);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {
    for (SimulatedClient client : clients) {
      client.unmap();
    }
    if (events != null) {
      events.close();
    }
    if (gpus != null) {
      gpus.close();
    }
    removeGpuFolder();
    directory.close();
    arena.close();
  }
}
