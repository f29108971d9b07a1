package io.kvtier.daemon.simulation;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestBody;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.RingProducer;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.transfer.Checksums;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/**
 * A client in the simulation: real rings over real mappings, random behaviour, good and bad.
 * Everything it reads is compared with the {@link Oracle}.
 */
final class SimulatedClient {
  /** The parts of the simulation that a client uses. */
  interface World {
    long nowNs();

    MemorySegment slab(int slab);

    boolean open(Session session);

    void close(Session session);

    /** Whether there is an object tier. */
    boolean hasObjects();

    /** Whether any client has asked for a slot for a key, or has one, or is committing it. */
    boolean isBeingPut(Oracle.Key key);

    /** The clients that go on writing to slots that they have lost. */
    LateWriters lateWriters();

    /** Whether any client goes on writing to a slot that it has lost. */
    boolean hasLateWriters();

    /** One in how many chances to damage a block of one's own is taken. */
    int scribblesOneIn();

    /** Whether the daemon has a record of a key: it may be on its way. */
    boolean isHere(Oracle.Key key);

    /** Whether no fault of a device or of another client can take a block away. */
    boolean isHarmless();

    /** The seed of the run, of which further random sources are made. */
    long seed();

    /** The folder of the simulated GPU's memory; null when there is no GPU. */
    @Nullable Path gpuFolder();

    /** Whether a planted bug shows blocks before their last half is there. */
    boolean isVisibleTooEarly();

    void violated(String what);
  }

  private static final int RING_BYTES = Protocol.RING_BYTES_MIN;
  private static final int KEY_BYTES = 16;

  /** The tenant of a client that uses all namespaces, because there are no tenants. */
  static final int ANY = -1;

  private static final int ROUNDS_LATE_MAX = 300;

  /** How a request can end that takes some rounds, and whose client did nothing wrong. */
  private static final Set<Status> UNFINISHED =
      Set.of(Status.BUSY, Status.CANCELLED, Status.DEADLINE);

  /** The half of a request for whole blocks. */
  private static final int WHOLE = -1;

  private static final class Pending {
    final Verb verb;
    final int namespace;
    final List<Oracle.Key> keys;
    final List<Held> held;
    final long deadlineNs;
    final long sentNs;
    final boolean isCopied;

    /** RESERVE, REGISTER_REGION: which half of the blocks; {@link #WHOLE} for all of them. */
    int half = WHOLE;

    /** ACQUIRE: whether the client reads encoded blocks. */
    boolean readsEncoded;

    /** DELETE, CLEAR: the keys that no client was putting, and how often they had been put. */
    final Map<Oracle.Key, Integer> putsBefore = new HashMap<>();

    /** LOOKUP, ACQUIRE: the keys that had been removed before. */
    final Set<Oracle.Key> removedBefore = new HashSet<>();

    /** FLUSH: the keys that had been accepted. */
    final Set<Oracle.Key> covered = new HashSet<>();

    int roundsLate;

    /** OFFLOAD, ONBOARD: the block of the region for each key. */
    int[] targets = {};

    /** RETAIN: the lifetime, ns. */
    long argument;

    /** A client that cancels does not use the answer, if it comes all the same. */
    boolean isCancelled;

    Pending(
        Verb verb,
        int namespace,
        List<Oracle.Key> keys,
        List<Held> held,
        long deadlineNs,
        long sentNs,
        boolean isCopied) {
      this.sentNs = sentNs;
      this.isCopied = isCopied;
      this.verb = verb;
      this.namespace = namespace;
      this.keys = keys;
      this.held = held;
      this.deadlineNs = deadlineNs;
    }
  }

  /**
   * A lease, or a reservation.
   *
   * @param endNs when a lease ends
   * @param sureNs until when a reservation lasts, at least
   * @param isCopied whether a reservation is committed with a checksum of what was copied
   * @param half which half of the block a reservation is for; {@link #WHOLE} for the block
   * @param isEncoded whether the slot is for the encoded form of the block
   * @param checksum of a leased block, as the daemon tells it
   */
  private record Held(
      Oracle.Key key,
      long id,
      int slab,
      long offset,
      long endNs,
      boolean verify,
      long sureNs,
      boolean isCopied,
      int half,
      boolean isEncoded,
      int checksum) {
    /** The first byte of the block that the client writes. */
    int from(int blockBytes) {
      return half == WHOLE ? 0 : half * blockBytes / 2;
    }

    /** The byte after the last one. */
    int to(int blockBytes) {
      return half == WHOLE ? blockBytes : (half + 1) * blockBytes / 2;
    }
  }

  private final String name;
  private final World world;
  private final Oracle oracle;
  private final SimulatedEncodings encodings;
  private final SplittableRandom random;
  private final int[] blockBytes;
  private final int keysPerNamespace;
  private final Map<Long, Pending> pending = new HashMap<>();
  private final List<Held> leases = new ArrayList<>();
  private final List<Held> reservations = new ArrayList<>();
  private final List<Held> own = new ArrayList<>();
  private final int tenant;
  private ProcessId process;
  private final Set<Held> writtenEarly = new HashSet<>();
  private final boolean[] registered;
  private final int[] namespaceIds;

  /** The regions for the halves of blocks of each namespace; 0: not registered yet. */
  private final int[][] regions;

  /** The regions on a GPU of each namespace; null: there are none. */
  private final @Nullable SimulatedRegions[] onGpu;

  /** Draws what is done with a GPU, so that older seeds keep their choices. */
  private final SplittableRandom gpuRandom;

  private @Nullable Session session;
  private @Nullable RingProducer requests;
  private @Nullable RingConsumer completions;
  private MemorySegment segment = MemorySegment.NULL;
  private @Nullable Arena arena;
  private long nextCorrelation = 1;
  private int pausedRounds;
  private boolean garbage;
  private boolean damagedItself;

  /** Which half of its blocks the next RESERVE is for. */
  private int half = WHOLE;

  int hits;

  SimulatedClient(
      String name,
      World world,
      Oracle oracle,
      SplittableRandom random,
      int[] blockBytes,
      int keysPerNamespace,
      int tenant) {
    this.tenant = tenant;
    this.name = name;
    this.process = new ProcessId(Integer.toUnsignedLong(name.hashCode()), 1);
    this.world = world;
    this.oracle = oracle;
    this.encodings = oracle.encodings();
    this.random = random;
    this.blockBytes = blockBytes;
    this.keysPerNamespace = keysPerNamespace;
    this.registered = new boolean[blockBytes.length];
    this.namespaceIds = new int[blockBytes.length];
    this.regions = new int[blockBytes.length][2];
    this.onGpu = new SimulatedRegions[blockBytes.length];
    this.gpuRandom = new SplittableRandom(world.seed() ^ name.hashCode());
  }

  boolean isConnected() {
    return session != null;
  }

  void connect(long sessionId, int slabs, Session.Owner owner) throws IOException {
    Arena fresh = Arena.ofShared();
    long bytes = SessionRegion.regionBytes(RING_BYTES, RING_BYTES);
    SessionRegion region;
    try (Descriptor memory = SharedMemory.create("kvtier-sim", bytes)) {
      region = SessionRegion.create(memory, sessionId, RING_BYTES, RING_BYTES, fresh);
    }
    Session.Client client = new Session.Client(name, process, 1, 0);
    Session made = new Session(sessionId, client, grant(), region, slabs, owner);
    arena = fresh;
    session = made;
    requests = region.requestProducer();
    completions = region.completionConsumer();
    segment = region.segment();
    garbage = false;
    pausedRounds = 0;
    if (!world.open(made)) {
      world.violated("the inbox is full");
    }
    for (int i = 0; i < blockBytes.length; i++) {
      registered[i] = false;
      Arrays.fill(regions[i], 0);
      makeRegions(i, sessionId, fresh);
      if (tenant == ANY || i == tenant) {
        register(i);
      }
    }
  }

  /** Makes the memory of a GPU for a session, if there is a GPU. */
  private void makeRegions(int namespace, long sessionId, Arena ofSession) throws IOException {
    SimulatedRegions old = onGpu[namespace];
    if (old != null) {
      old.remove();
      onGpu[namespace] = null;
    }
    Path folder = world.gpuFolder();
    if (folder != null && encodings.isEncoded(namespace)) {
      Path file = folder.resolve(sessionId + "-" + namespace);
      onGpu[namespace] = new SimulatedRegions(file, blockBytes[namespace], ofSession);
    }
  }

  /** The daemon is gone, or has cut the client off, which goes on writing what it had begun. */
  void goOnWriting() {
    for (Held held : world.hasLateWriters() ? reservations : List.<Held>of()) {
      if (isUnfit(held)) {
        continue;
      }
      byte[] whole = stored(held);
      int bytes = whole.length;
      byte[] content = Arrays.copyOfRange(whole, held.from(bytes), held.to(bytes));
      world.lateWriters().add(process, held.slab, held.offset + held.from(bytes), content);
    }
    reservations.clear();
  }

  /** Whether a reservation is for the encoded form of a block that does not fit. */
  private boolean isUnfit(Held held) {
    return held.isEncoded && !oracle.fits(held.key, blockBytes[held.key.namespace()]);
  }

  /** The bytes of a block in the form of a lease or reservation. */
  private byte[] stored(Held held) {
    return oracle.stored(held.key, blockBytes[held.key.namespace()], held.isEncoded);
  }

  /** All bytes that a leased block can have. */
  private List<byte[]> possible(Held lease) {
    return oracle.possible(lease.key, blockBytes[lease.key.namespace()], lease.isEncoded);
  }

  private static boolean hasChecksum(Held lease, byte[] block) {
    return Checksums.of(MemorySegment.ofArray(block)) == lease.checksum;
  }

  private int checksum(Held held) {
    return oracle.checksum(held.key, blockBytes[held.key.namespace()], held.isEncoded);
  }

  /** FLAG_ENCODED, often, where blocks may be encoded. */
  private int anyForm(int namespace) {
    return encodings.isEncoded(namespace) && random.nextInt(4) != 0
        ? RequestDescriptor.FLAG_ENCODED
        : 0;
  }

  /** The client's process ends, and another takes its place. */
  void endProcess() {
    reservations.clear();
    world.lateWriters().end(process);
    process = new ProcessId(process.number(), process.startTicks() + 1);
  }

  /** The client's process. */
  ProcessId process() {
    return process;
  }

  /** The connection is gone, and with it everything that the client held. */
  void forget() {
    writtenEarly.clear();
    pending.clear();
    leases.clear();
    reservations.clear();
    own.clear();
    damagedItself = false;
    session = null;
    requests = null;
    completions = null;
  }

  void unmap() {
    Arena mapped = arena;
    if (mapped != null) {
      mapped.close();
      arena = null;
    }
  }

  boolean isPutting(Oracle.Key key) {
    return reservations.stream().anyMatch(held -> held.key.equals(key))
        || pending.values().stream()
            .anyMatch(asked ->
                switch (asked.verb) {
                  case RESERVE, OFFLOAD -> asked.keys.contains(key);
                  case COMMIT -> asked.held.stream().anyMatch(held -> held.key.equals(key));
                  default -> false;
                });
  }

  @Nullable Session session() {
    return session;
  }

  // ---- acting
  // --------------------------------------------------------------------------------------------------

  /** Does one random thing. */
  void act() throws ProtocolViolation {
    Session current = session;
    if (current == null || garbage) {
      return;
    }
    int namespace = tenant == ANY ? random.nextInt(blockBytes.length) : tenant;
    if (!registered[namespace]) {
      return;
    }
    switch (random.nextInt(100)) {
      case 0 -> request(Verb.FLUSH, namespace, List.of(), List.of(), 0, 0);
      case 1 -> {
        if (random.nextInt(8) == 0) {
          request(Verb.CLEAR, namespace, List.of(), List.of(), 0, 0);
          oracle.deleted.addAll(keys(namespace, keysPerNamespace));
        }
      }
      case 2, 3 -> {
        List<Oracle.Key> keys = keys(namespace, 1 + random.nextInt(3));
        oracle.deleted.addAll(keys);
        request(Verb.DELETE, namespace, keys, List.of(), 0, 0);
      }
      case 4, 5 ->
          request(Verb.PIN, namespace, keys(namespace, 1 + random.nextInt(2)), List.of(), 0, 0);
      case 6, 7, 8, 9 ->
          request(Verb.UNPIN, namespace, keys(namespace, 1 + random.nextInt(4)), List.of(), 0, 0);
      case 10, 11, 12 ->
          request(
              Verb.PREFETCH, namespace, keys(namespace, 1 + random.nextInt(8)), List.of(), 0, 0);
      case 13 -> {
        if (!pending.isEmpty()) {
          Map.Entry<Long, Pending> victim = pending.entrySet().iterator().next();
          victim.getValue().isCancelled = true;
          request(Verb.CANCEL, namespace, List.of(), List.of(), victim.getKey(), 0);
        }
      }
      case 14 -> pausedRounds = random.nextInt(200);
      case 15 -> {
        if (random.nextInt(world.scribblesOneIn()) == 0) {
          scribble();
        }
      }
      case 16 -> {
        if (random.nextInt(10) == 0) {
          // The process has ended, so that none of its writes comes later.
          endProcess();
          world.close(current);
        }
      }
      case 17 -> {
        if (random.nextInt(20) == 0) {
          writeGarbage();
        }
      }
      case 18, 19 -> retainSome(namespace);
      default -> putOrGet(namespace);
    }
  }

  private void retainSome(int namespace) throws ProtocolViolation {
    List<Oracle.Key> keys = keys(namespace, 1 + random.nextInt(8));
    boolean ends = random.nextInt(10) == 0;
    if (ends) {
      keys.forEach(oracle::letGo);
    }
    long lifetimeNs = ends ? 0 : 1 + random.nextLong(Simulation.RETENTION_NS_MAX);
    request(Verb.RETAIN, namespace, keys, List.of(), lifetimeNs, 0);
  }

  private void putOrGet(int namespace) throws ProtocolViolation {
    SimulatedRegions gpu = onGpu[namespace];
    if (gpu != null && gpuRandom.nextBoolean()) {
      copyOnGpu(namespace, gpu);
      return;
    }
    switch (random.nextInt(8)) {
      case 0 ->
          request(
              Verb.RESERVE,
              namespace,
              keys(namespace, 1 + random.nextInt(10)),
              List.of(),
              0,
              (random.nextBoolean() ? RequestDescriptor.FLAG_CHECKSUMS : 0)
                  | Records.importanceFlags(random.nextInt(4))
                  | anyForm(namespace));
      case 1 -> {
        half = random.nextInt(2);
        if (regions[namespace][half] != 0) {
          request(
              Verb.RESERVE, namespace, keys(namespace, 1 + random.nextInt(10)), List.of(), 0, 0);
        }
        half = WHOLE;
      }
      case 2, 3 -> commitSome();
      case 4, 5 -> {
        int flags =
            switch (random.nextInt(6)) {
              case 0 -> RequestDescriptor.FLAG_NO_WAIT;
              case 1, 2 -> RequestDescriptor.FLAG_LEADING_RUN;
              default -> 0;
            };
        long leaseNs = random.nextInt(4) == 0 ? 1 + random.nextInt(50_000_000) : 0;
        request(
            Verb.ACQUIRE,
            namespace,
            keys(namespace, 1 + random.nextInt(10)),
            List.of(),
            leaseNs,
            flags | anyForm(namespace));
      }
      case 6 -> releaseSome();
      default ->
          request(Verb.LOOKUP, namespace, keys(namespace, 1 + random.nextInt(20)), List.of(), 0, 0);
    }
  }

  /** Has some blocks copied from a region on the GPU, or to it. */
  private void copyOnGpu(int namespace, SimulatedRegions gpu) throws ProtocolViolation {
    int which = gpuRandom.nextInt(SimulatedRegions.WHOLE + 1);
    RingProducer ring = requests;
    if (ring == null || gpu.numbers[which] == 0) {
      return;
    }
    Verb verb = gpuRandom.nextInt(3) == 0 ? Verb.ONBOARD : Verb.OFFLOAD;
    List<Oracle.Key> keys = new ArrayList<>();
    int first = gpuRandom.nextInt(keysPerNamespace);
    int[] targets = new int[1 + gpuRandom.nextInt(4)];
    for (int i = 0; i < targets.length; i++) {
      keys.add(new Oracle.Key(namespace, (first + i) % keysPerNamespace));
      targets[i] = gpu.take();
    }
    long deadlineNs = world.nowNs() + 1_000_000 + gpuRandom.nextInt(200_000_000);
    long id = nextCorrelation++;
    boolean hasTargets = Arrays.stream(targets).allMatch(target -> target >= 0);
    long at =
        hasTargets
            ? begin(ring, verb, keys.size(), id, namespaceIds[namespace], 0, 0, deadlineNs)
            : -1;
    if (at < 0) {
      Arrays.stream(targets).filter(target -> target >= 0).forEach(gpu::giveBack);
      return;
    }
    Words.putInt(segment, at + RequestDescriptor.REGION_OFFSET, gpu.numbers[which]);
    long body = at + RequestDescriptor.HEADER_BYTES;
    for (int i = 0; i < targets.length; i++) {
      Oracle.Key key = keys.get(i);
      Oracle.writeKey(key, segment, body + (long) i * KEY_BYTES);
      Words.putInt(segment, body + (long) keys.size() * KEY_BYTES + 4L * i, targets[i]);
      if (verb == Verb.OFFLOAD) {
        gpu.write(which, targets[i], oracle.content(key, blockBytes[namespace]));
        oracle.written.add(key);
        oracle.isPut(key);
      }
    }
    ring.publish();
    Pending asked = new Pending(verb, namespace, keys, List.of(), deadlineNs, world.nowNs(), false);
    asked.half = which;
    asked.targets = targets;
    pending.put(id, asked);
  }

  /** The copies of a request are over, however they ended. */
  private void endCopies(Pending asked) {
    SimulatedRegions gpu = onGpu[asked.namespace];
    for (int target : gpu == null ? new int[0] : asked.targets) {
      gpu.giveBack(target);
    }
  }

  /** A block was copied to a region: the region must have its bytes. */
  private void checkOnGpu(Pending asked, int i) {
    SimulatedRegions gpu = onGpu[asked.namespace];
    Oracle.Key key = asked.keys.get(i);
    hits++;
    if (gpu != null
        && !oracle.somethingDamaged
        && oracle.decoded(key, blockBytes[asked.namespace]).stream()
            .noneMatch(block -> gpu.has(asked.half, asked.targets[i], block))) {
      world.violated(name + ": a GPU got wrong bytes for " + key + ", part " + asked.half);
    }
  }

  /** Asks for all blocks that it can name, without a short deadline. */
  void getAll() throws ProtocolViolation {
    for (int namespace = 0; namespace < blockBytes.length; namespace++) {
      if (session != null && !garbage && registered[namespace]) {
        request(
            Verb.ACQUIRE,
            namespace,
            keys(namespace, keysPerNamespace),
            List.of(),
            0,
            (random.nextBoolean() ? RequestDescriptor.FLAG_LEADING_RUN : 0)
                | (encodings.isEncoded(namespace) ? RequestDescriptor.FLAG_ENCODED : 0),
            world.nowNs() + 50_000_000_000L);
      }
    }
  }

  /** Whether a get of its own is not answered yet. */
  boolean isGetting() {
    return !garbage && pending.values().stream().anyMatch(asked -> asked.verb == Verb.ACQUIRE);
  }

  private List<Oracle.Key> keys(int namespace, int count) {
    int first = random.nextInt(keysPerNamespace);
    List<Oracle.Key> keys = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      keys.add(new Oracle.Key(namespace, (first + i) % keysPerNamespace));
    }
    return keys;
  }

  private void commitSome() throws ProtocolViolation {
    if (reservations.isEmpty()) {
      return;
    }
    List<Held> chosen = new ArrayList<>();
    int count = 1 + random.nextInt(reservations.size());
    int namespace = reservations.getFirst().key.namespace();
    boolean isCopied = reservations.getFirst().isCopied;
    boolean hasShards = false;
    for (int i = 0; i < count && reservations.getFirst().isCopied == isCopied; i++) {
      Held held = reservations.removeFirst();
      hasShards |= held.half != WHOLE;
      boolean abort = random.nextInt(12) == 0 || isUnfit(held);
      if (!writtenEarly.remove(held)) {
        abort |= !writeTo(held, !abort);
      }
      if (reservations.isEmpty()) {
        i = count;
      }
      if (abort) {
        request(Verb.ABORT, namespace, List.of(), List.of(held), 0, 0);
      } else {
        oracle.written.add(held.key);
        chosen.add(held);
      }
    }
    if (!chosen.isEmpty()) {
      // A client that announced checksums may bring none: its commits to doubtful slots are then
      // refused.
      boolean brings = isCopied ? random.nextInt(16) != 0 : !hasShards && random.nextBoolean();
      int flags = brings ? RequestDescriptor.FLAG_CHECKSUMS : 0;
      request(Verb.COMMIT, namespace, List.of(), chosen, 0, flags);
    }
  }

  /**
   * Writes to a slot; false when the write would be late and no client of this run writes late.
   *
   * @param isAll whether the client writes all that it should, and not the first half of that
   */
  private boolean writeTo(Held held, boolean isAll) {
    if (world.nowNs() >= held.sureNs) {
      // The slot may be another client's: this client stood still for too long.
      if (!world.hasLateWriters()) {
        return false;
      }
      oracle.somethingDamaged = true;
    }
    if (isUnfit(held)) {
      return true;
    }
    byte[] content = stored(held);
    int from = held.from(content.length);
    int bytes = held.to(content.length) - from;
    MemorySegment.copy(
        MemorySegment.ofArray(content),
        from,
        world.slab(held.slab),
        held.offset + from,
        isAll ? bytes : bytes / 2);
    return true;
  }

  private void releaseSome() throws ProtocolViolation {
    while (!leases.isEmpty()) {
      Held held = leases.remove(random.nextInt(leases.size()));
      check(held, "at release");
      boolean silent = random.nextBoolean();
      request(
          Verb.RELEASE,
          held.key.namespace(),
          List.of(),
          List.of(held),
          0,
          silent ? RequestDescriptor.FLAG_SILENT : 0);
      if (random.nextInt(3) == 0) {
        return;
      }
    }
  }

  /**
   * Damages a block of its own after the commit, in its slot: other clients must be told to verify,
   * and find the damage.
   */
  private void scribble() {
    for (Held lease : leases) {
      boolean inPlace =
          own.stream()
              .anyMatch(
                  o -> o.key.equals(lease.key) && o.slab == lease.slab && o.offset == lease.offset);
      if (inPlace && world.nowNs() < lease.endNs) {
        long at = lease.offset + random.nextInt(stored(lease).length);
        MemorySegment slab = world.slab(lease.slab);
        Words.putByte(slab, at, Words.getByte(slab, at) ^ 0x40);
        damagedItself = true;
        oracle.somethingDamaged = true;
        return;
      }
    }
  }

  private void writeGarbage() throws ProtocolViolation {
    RingProducer ring = requests;
    if (ring == null) {
      return;
    }
    garbage = true;
    switch (random.nextInt(3)) {
      case 0 ->
          Words.putLongRelease(
              segment, SessionRegionDescriptor.REQUEST_TAIL_OFFSET, random.nextLong());
      case 1 -> {
        long at = ring.tryClaim(RequestDescriptor.HEADER_BYTES);
        if (at >= 0) {
          for (int i = 0; i < RequestDescriptor.HEADER_BYTES; i += 8) {
            Words.putLong(segment, at + i, random.nextLong());
          }
          ring.publish();
        }
      }
      default -> {
        Words.putLongRelease(
            segment, SessionRegionDescriptor.COMPLETION_HEAD_OFFSET, random.nextLong());
        Words.putLongRelease(segment, SessionRegionDescriptor.REQUEST_TAIL_OFFSET, -1);
      }
    }
  }

  private Grant grant() {
    return new Grant(name, Role.ADMIN, tenant == ANY ? Grant.NO_TENANT : tenant);
  }

  /** The number of the client's tenant; {@link #ANY} when there are no tenants. */
  int tenant() {
    return tenant;
  }

  private void register(int namespace) throws IOException {
    // The namespaces of several tenants have equal names.
    String text =
        (encodings.isEncoded(namespace)
                ? BlockEncoding.PROPERTY
                    + "="
                    + encodings.property(namespace)
                    + "\n"
                    + SimulatedRegions.form(blockBytes[namespace])
                : "form=LCNHD:1x1:1x2x" + blockBytes[namespace] / 2)
            + "\nname=n"
            + (tenant == ANY ? namespace : 0)
            + "\n";
    try {
      sendText(Verb.REGISTER, namespace, WHOLE, namespace, blockBytes[namespace], text);
    } catch (ProtocolViolation violation) {
      throw new IOException(violation);
    }
  }

  /** Registers a region for one half of the blocks of a namespace: of the one or the other head. */
  private void registerHalf(int namespace, int which) throws ProtocolViolation {
    int bytes = blockBytes[namespace] / 2;
    String text =
        "device=host\nlayers=1\nblocks=1\nblock_tokens=1\npart=kv:BNHD:1,1,1,"
            + bytes
            + ":"
            + bytes
            + ","
            + bytes
            + ","
            + bytes
            + ",1:1:2:"
            + which;
    if (world.isVisibleTooEarly()) {
      // A planted bug: the daemon takes the half for the whole block.
      text = text.replace("1,1,1," + bytes, "1,1,2," + bytes).replace("1:1:2:" + which, "1:1:2:0");
    }
    sendText(Verb.REGISTER_REGION, namespace, which, namespaceIds[namespace], 0, text);
  }

  private void registerOnGpu(int namespace) throws ProtocolViolation {
    SimulatedRegions gpu = onGpu[namespace];
    for (int which = 0; gpu != null && which <= SimulatedRegions.WHOLE; which++) {
      if (gpu.has(which)) {
        int id = namespaceIds[namespace];
        sendText(Verb.REGISTER_REGION, namespace, which, id, 0, gpu.text(which));
      }
    }
  }

  private void sendText(
      Verb verb, int namespace, int which, int namespaceId, long argument, String words)
      throws ProtocolViolation {
    byte[] text = words.getBytes(StandardCharsets.UTF_8);
    RingProducer ring = requests;
    if (ring == null) {
      return;
    }
    long id = nextCorrelation++;
    long at = begin(ring, verb, text.length, id, namespaceId, 0, argument, 0);
    if (at < 0) {
      return;
    }
    MemorySegment.copy(
        MemorySegment.ofArray(text), 0, segment, at + RequestDescriptor.HEADER_BYTES, text.length);
    ring.publish();
    Pending asked = new Pending(verb, namespace, List.of(), List.of(), Long.MAX_VALUE, 0, false);
    asked.half = which;
    pending.put(id, asked);
  }

  private long begin(
      RingProducer ring,
      Verb verb,
      int count,
      long id,
      int namespace,
      int flags,
      long argument,
      long deadlineNs)
      throws ProtocolViolation {
    int bytes = Records.request(verb, count, KEY_BYTES, flags);
    long at = ring.tryClaim(bytes);
    if (at < 0) {
      return -1;
    }
    Records.begin(segment, at, bytes, verb, flags);
    Words.putByte(segment, at + RequestDescriptor.PRIORITY_OFFSET, random.nextInt(3));
    Words.putByte(segment, at + RequestDescriptor.KEY_BYTES_OFFSET, KEY_BYTES);
    Words.putLong(segment, at + RequestDescriptor.CORRELATION_OFFSET, id);
    Words.putLong(segment, at + RequestDescriptor.DEADLINE_OFFSET, deadlineNs);
    Words.putInt(segment, at + RequestDescriptor.NAMESPACE_OFFSET, namespace);
    Words.putInt(segment, at + RequestDescriptor.COUNT_OFFSET, count);
    Words.putLong(segment, at + RequestDescriptor.ARGUMENT_OFFSET, argument);
    return at;
  }

  private void request(
      Verb verb, int namespace, List<Oracle.Key> keys, List<Held> ids, long argument, int flags)
      throws ProtocolViolation {
    long deadlineNs = world.nowNs() + 1_000_000 + random.nextInt(200_000_000);
    request(verb, namespace, keys, ids, argument, flags, deadlineNs);
  }

  private void request(
      Verb verb,
      int namespace,
      List<Oracle.Key> keys,
      List<Held> ids,
      long argument,
      int flags,
      long deadlineNs)
      throws ProtocolViolation {
    RingProducer ring = requests;
    if (ring == null) {
      return;
    }
    long correlation = nextCorrelation++;
    int count = verb.body() == RequestBody.KEYS ? keys.size() : ids.size();
    long at =
        begin(ring, verb, count, correlation, namespaceIds[namespace], flags, argument, deadlineNs);
    if (at < 0) {
      return;
    }
    long body = at + RequestDescriptor.HEADER_BYTES;
    for (int i = 0; i < count; i++) {
      if (verb.body() == RequestBody.KEYS) {
        Oracle.writeKey(keys.get(i), segment, body + (long) i * KEY_BYTES);
      } else {
        long id = body + (long) Records.idStride(flags) * i;
        Words.putLong(segment, id, ids.get(i).id);
        if (verb == Verb.COMMIT && Records.idStride(flags) == 16) {
          Words.putLong(segment, id + 8, checksum(ids.get(i)));
        }
      }
    }
    if (verb == Verb.RESERVE && half != WHOLE) {
      Words.putInt(segment, at + RequestDescriptor.SHARD_OFFSET, regions[namespace][half]);
    }
    ring.publish();
    if ((flags & RequestDescriptor.FLAG_SILENT) == 0) {
      boolean isCopied = (flags & RequestDescriptor.FLAG_CHECKSUMS) != 0;
      Pending asked = pending(verb, namespace, keys, ids, deadlineNs, isCopied, argument);
      asked.readsEncoded = (flags & RequestDescriptor.FLAG_ENCODED) != 0;
      pending.put(correlation, asked);
    }
  }

  private Pending pending(
      Verb verb,
      int namespace,
      List<Oracle.Key> keys,
      List<Held> ids,
      long deadlineNs,
      boolean isCopied,
      long argument) {
    Pending asked = new Pending(verb, namespace, keys, ids, deadlineNs, world.nowNs(), isCopied);
    asked.argument = argument;
    asked.half = verb == Verb.RESERVE ? half : WHOLE;
    switch (verb) {
      case DELETE -> noteToRemove(asked, keys);
      case CLEAR -> {
        // A block that is still on its way from a client that has gone comes all the same.
        List<Oracle.Key> absent = new ArrayList<>(keys(namespace, keysPerNamespace));
        absent.removeIf(world::isHere);
        noteToRemove(asked, absent);
      }
      case LOOKUP, ACQUIRE -> {
        asked.removedBefore.addAll(keys);
        asked.removedBefore.retainAll(oracle.removed);
      }
      case FLUSH -> {
        for (Oracle.Key key : oracle.accepted) {
          if (key.namespace() == namespace) {
            asked.covered.add(key);
          }
        }
      }
      case RESERVE -> keys.forEach(oracle::isPut);
      case COMMIT -> ids.forEach(held -> oracle.isPut(held.key));
      default -> {}
    }
    return asked;
  }

  private void noteToRemove(Pending asked, List<Oracle.Key> keys) {
    for (Oracle.Key key : keys) {
      if (!world.isBeingPut(key)) {
        asked.putsBefore.put(key, oracle.puts(key));
      }
    }
  }

  private void noteRemoved(Pending asked, Oracle.Key key) {
    Integer before = asked.putsBefore.get(key);
    // A block that is not there yet is a miss, and comes all the same.
    if (before != null && before == oracle.puts(key)) {
      oracle.removed.add(key);
    }
  }

  // ---- reading
  // -------------------------------------------------------------------------------------------------

  /** Reads completions, unless it hangs just now. */
  void read() throws ProtocolViolation {
    RingConsumer ring = completions;
    if (ring == null || garbage) {
      return;
    }
    if (pausedRounds > 0) {
      pausedRounds--;
      return;
    }
    while (ring.hasNext()) {
      int bytes = ring.recordBytes();
      take(ring.offset());
      ring.skip(bytes);
    }
    ring.release();
    long now = world.nowNs();
    for (Pending waiting : pending.values()) {
      if (now > waiting.deadlineNs && ++waiting.roundsLate > ROUNDS_LATE_MAX) {
        world.violated(
            name
                + ": "
                + waiting.verb
                + " was not answered "
                + (now - waiting.deadlineNs)
                + " ns after its deadline");
      }
    }
  }

  private void take(long at) throws ProtocolViolation {
    long id = Words.getLong(segment, at + CompletionDescriptor.CORRELATION_OFFSET);
    Status status = Status.of(Words.getShort(segment, at + CompletionDescriptor.STATUS_OFFSET));
    int count = Words.getInt(segment, at + CompletionDescriptor.COUNT_OFFSET);
    long value = Words.getLong(segment, at + CompletionDescriptor.VALUE_OFFSET);
    Pending asked = pending.remove(id);
    if (asked == null) {
      world.violated(name + ": a completion for nothing that was asked, " + id);
      return;
    }
    endCopies(asked);
    if (asked.verb == Verb.REGISTER) {
      if (status != Status.OK) {
        world.violated(name + ": registration answered " + status);
      }
      namespaceIds[asked.namespace] = (int) value;
      registered[asked.namespace] = true;
      if (!encodings.isEncoded(asked.namespace)) {
        registerHalf(asked.namespace, 0);
        registerHalf(asked.namespace, 1);
      }
      registerOnGpu(asked.namespace);
      return;
    }
    if (asked.verb == Verb.REGISTER_REGION) {
      SimulatedRegions gpu = onGpu[asked.namespace];
      if (gpu != null && UNFINISHED.contains(status)) {
        return;
      }
      if (status != Status.OK) {
        world.violated(name + ": registration of a region answered " + status);
      }
      (gpu == null ? regions[asked.namespace] : gpu.numbers)[asked.half] = (int) value;
      return;
    }
    if (status != Status.OK) {
      return;
    }
    oracle.flushed.addAll(asked.covered);
    if (asked.verb == Verb.CLEAR) {
      List.copyOf(asked.putsBefore.keySet()).forEach(key -> noteRemoved(asked, key));
    }
    int stride = Records.result(asked.verb);
    long body = at + CompletionDescriptor.HEADER_BYTES;
    int run = 0;
    int expected = asked.verb.body() == RequestBody.IDS ? asked.held.size() : asked.keys.size();
    if (count != expected) {
      world.violated(name + ": " + asked.verb + " of " + expected + " answered " + count);
    }
    for (int i = 0; i < count; i++) {
      Status block = Status.of(Words.getShort(segment, body + (long) i * stride));
      run += run == i && block == Status.OK ? 1 : 0;
      takeBlock(asked, i, block, body + (long) i * stride, value);
    }
    if (count > 0 && run != Words.getInt(segment, at + CompletionDescriptor.RUN_OFFSET)) {
      world.violated(
          name
              + ": "
              + asked.verb
              + " counts a leading run of "
              + Words.getInt(segment, at + CompletionDescriptor.RUN_OFFSET)
              + ", it is "
              + run);
    }
  }

  private void takeBlock(Pending asked, int i, Status block, long result, long value) {
    if (block == Status.OK && !asked.removedBefore.isEmpty()) {
      Oracle.Key key = asked.keys.get(i);
      if (asked.removedBefore.contains(key) && oracle.removed.contains(key)) {
        world.violated(name + ": " + asked.verb + " found " + key + ", which had been removed");
      }
    }
    switch (asked.verb) {
      case ACQUIRE -> {
        if (block == Status.OK && !asked.isCancelled) {
          Held lease = held(asked, i, result, value);
          hits++;
          if (!oracle.written.contains(lease.key)) {
            world.violated(name + ": got " + lease.key + ", which nobody wrote");
          }
          int tier = Words.getByte(segment, result + CompletionDescriptor.BLOCK_TIER_OFFSET);
          if (tier != TierId.HOST.code()
              && tier != TierId.SSD.code()
              && (tier != TierId.OBJECT.code() || !world.hasObjects())) {
            world.violated(name + ": a hit from tier " + tier);
          }
          check(lease, "at acquire");
          leases.add(lease);
        }
      }
      case ONBOARD -> {
        if (block == Status.OK) {
          checkOnGpu(asked, i);
        }
      }
      case RESERVE -> {
        if (block == Status.OK && !asked.isCancelled) {
          Held reserved = held(asked, i, result, 0);
          reservations.add(reserved);
          if (!reserved.isCopied && random.nextBoolean()) {
            // Written in place, and committed much later.
            if (writeTo(reserved, true)) {
              writtenEarly.add(reserved);
            }
          }
        }
      }
      case COMMIT -> {
        if (block == Status.OK) {
          Held written = asked.held.get(i);
          int tier = Words.getByte(segment, result + CompletionDescriptor.BLOCK_TIER_OFFSET);
          if (tier != TierId.NONE.code()) {
            oracle.accepted.add(written.key);
            own.add(written);
          } else if (written.half == WHOLE) {
            world.violated(name + ": " + written.key + " was committed to no tier");
          }
        }
      }
      case RETAIN -> {
        if (block == Status.OK && asked.argument > 0) {
          oracle.isRetained(asked.keys.get(i), world.nowNs(), asked.sentNs + asked.argument);
        }
      }
      case DELETE -> {
        if (block == Status.OK) {
          noteRemoved(asked, asked.keys.get(i));
        }
      }
      case LOOKUP -> {
        if (block == Status.OK && !oracle.written.contains(asked.keys.get(i))) {
          world.violated(name + ": found " + asked.keys.get(i) + ", which nobody wrote");
        }
        if (block == Status.MISS
            && world.isHarmless()
            && oracle.mustBeHere(asked.keys.get(i), asked.sentNs, world.nowNs())) {
          world.violated(name + ": " + asked.keys.get(i) + " was retained, and is gone");
        }
      }
      default -> {}
    }
  }

  private Held held(Pending asked, int i, long result, long endNs) {
    Oracle.Key key = asked.keys.get(i);
    int flags = Words.getByte(segment, result + CompletionDescriptor.BLOCK_FLAGS_OFFSET);
    Held held =
        new Held(
            key,
            Words.getLong(segment, result + CompletionDescriptor.BLOCK_ID_OFFSET),
            Words.getInt(segment, result + CompletionDescriptor.BLOCK_SLAB_OFFSET),
            Words.getLong(segment, result + CompletionDescriptor.BLOCK_OFFSET_OFFSET),
            endNs,
            (flags & CompletionDescriptor.BLOCK_FLAG_VERIFY) != 0,
            asked.sentNs + Simulation.RESERVATION_NS,
            asked.isCopied,
            asked.half,
            (flags & CompletionDescriptor.BLOCK_FLAG_ENCODED) != 0,
            Words.getInt(segment, result + CompletionDescriptor.BLOCK_CHECKSUM_OFFSET));
    checkForm(asked, held, result);
    if (endNs != 0 && possible(held).stream().noneMatch(block -> hasChecksum(held, block))) {
      world.violated(
          name
              + ": "
              + key
              + " was published with checksum "
              + held.checksum
              + ", its bytes have another");
    }
    return held;
  }

  /** A slot must have the form that was asked for, or that the client reads, and its length. */
  private void checkForm(Pending asked, Held held, long result) {
    int raw = blockBytes[held.key.namespace()];
    int length = Words.getInt(segment, result + CompletionDescriptor.BLOCK_LENGTH_OFFSET);
    int expected =
        held.isEncoded ? (int) encodings.of(held.key.namespace(), raw).encodedBytes() : raw;
    boolean isForm =
        asked.verb == Verb.RESERVE
            ? held.isEncoded == asked.readsEncoded
            : asked.readsEncoded || !held.isEncoded;
    if (length != expected || !isForm) {
      world.violated(name + ": " + asked.verb + " gave " + held + " with " + length + " bytes");
    }
    if (asked.verb == Verb.ACQUIRE && isUnfit(held)) {
      world.violated(name + ": got " + held.key + " in a form that nobody wrote");
    }
  }

  /** Compares the leased bytes with the oracle, as a careful client would. */
  private void check(Held lease, String when) {
    if (world.nowNs() >= lease.endNs) {
      return;
    }
    MemorySegment bytes = world.slab(lease.slab).asSlice(lease.offset, stored(lease).length);
    for (byte[] truth : possible(lease)) {
      if (hasChecksum(lease, truth) && bytes.mismatch(MemorySegment.ofArray(truth)) == -1) {
        return;
      }
    }
    boolean foundOut = lease.verify && Checksums.of(bytes) != lease.checksum;
    if (!foundOut && !damagedItself) {
      world.violated(name + ": wrong bytes for " + lease.key + " " + when + ", " + lease);
    }
  }
}
