package io.kvtier.daemon.index;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.source.OuterBlocks;
import io.kvtier.daemon.member.Member;
import io.kvtier.daemon.member.Membership;
import io.kvtier.daemon.member.SimulatedMembership;
import io.kvtier.daemon.member.StaticMembership;
import io.kvtier.daemon.node.IndexSessions;
import io.kvtier.daemon.node.NodeIndex;
import io.kvtier.daemon.node.NodeServer;
import io.kvtier.daemon.node.SimulatedNetwork;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeHints;
import io.kvtier.tiers.node.NodeReader;
import io.kvtier.tiers.node.NodeTier;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * Several daemons' indexes on one thread, over a {@link SimulatedNetwork}: they put blocks, evict
 * them, read each other's, break off, fall silent, leave, come back and start anew. One seed
 * decides everything. The oracle: a get delivers the bytes of its block or a miss, within its
 * deadline; no block is found damaged where the network damages none; a node is only asked for
 * blocks that it has said it has, since its start; and in the end, no lease and no slot is lost.
 */
final class ClusterSimulation implements AutoCloseable {
  /** A bug put in on purpose, to see that the simulation finds it. */
  enum Planted {
    NONE,
    /** Frames of an earlier start are taken for those of the present one. */
    STALE_INCARNATION_ACCEPTED,
    /** A lease ends when its block begins to leave. */
    LEASE_RELEASED_BEFORE_THE_READ_ENDED,
    /** A slot is given to another block while bytes for the first still arrive. */
    LATE_BYTES_INTO_A_REUSED_SLOT,
    /** Bytes that came are not verified. */
    READ_WITHOUT_VERIFYING,
    /** A node sends what stands where a block once was. */
    HINT_TAKEN_FOR_TRUTH,
    /** What was known of a node that left is taken for known of the next one with its bit. */
    HINTS_OF_A_NODE_THAT_LEFT
  }

  /** A promise was broken. */
  static final class Violation extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Violation(String message) {
      super(message);
    }
  }

  /** What happened in a run. */
  record Outcome(int gets, int hits, long fetched, int restarts, int changes) {}

  private static final int STEPS = 2000;
  private static final int KEYS = 24;
  private static final long STEP_NS = 4_000_000;
  private static final int END_STEPS_MIN = 200;
  private static final int END_STEPS = 6000;
  private static final long FETCH_NS = 120_000_000;
  private static final long ASK_NS = 80_000_000;
  private static final long DEADLINE_NS = 6_000_000_000L;

  private final SplittableRandom random;
  private final Planted planted;
  private final int slots;
  private final double flips;
  private final SimulatedNetwork network;

  /** Null: each node has a list of all. */
  private final @Nullable SimulatedMembership members;

  private final List<Node> nodes = new ArrayList<>();
  private long nowNs = 1_000_000_000L;
  private int gets;
  private int hits;
  private long fetched;
  private int restarts;
  private int changes;

  ClusterSimulation(long seed, Planted planted) throws IOException, ProtocolViolation {
    random = new SplittableRandom(seed);
    this.planted = planted;
    slots = planted == Planted.LEASE_RELEASED_BEFORE_THE_READ_ENDED ? 3 : 3 + random.nextInt(8);
    boolean isBad = planted == Planted.NONE ? random.nextInt(3) != 0 : true;
    flips = flips();
    network =
        new SimulatedNetwork(
            () -> nowNs,
            random.split(),
            new SimulatedNetwork.Faults(
                1 + random.nextLong(20_000_000),
                isBad ? random.nextDouble() * 0.01 : 0,
                isBad ? 0.5 : 0,
                pieces(),
                flips));
    network.believesChecksums = planted == Planted.READ_WITHOUT_VERIFYING;
    network.releasesEarly = planted == Planted.LATE_BYTES_INTO_A_REUSED_SLOT;
    network.forgesIncarnations = planted == Planted.STALE_INCARNATION_ACCEPTED;
    boolean isTold = planted == Planted.HINTS_OF_A_NODE_THAT_LEFT || random.nextBoolean();
    members = isTold ? new SimulatedMembership(random.split()) : null;
    int count = 2 + random.nextInt(4);
    List<NodeAddress> addresses = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      addresses.add(new NodeAddress("node-" + i, 7076));
    }
    for (NodeAddress address : addresses) {
      nodes.add(new Node(address, addresses));
    }
    for (Node node : nodes) {
      node.start();
    }
  }

  /** How often the network damages bytes; where it does not, none may be found damaged. */
  private double flips() {
    return switch (planted) {
      case NONE -> random.nextInt(4) == 0 ? random.nextDouble() * 0.2 : 0;
      case READ_WITHOUT_VERIFYING -> 0.2;
      default -> 0;
    };
  }

  private int pieces() {
    return switch (planted) {
      case LEASE_RELEASED_BEFORE_THE_READ_ENDED -> 12;
      case LATE_BYTES_INTO_A_REUSED_SLOT -> 32;
      default -> 1 + random.nextInt(random.nextInt(4) == 0 ? 40 : 6);
    };
  }

  /** Runs until the end; throws a {@link Violation} if a promise is broken. */
  Outcome run() throws IOException, ProtocolViolation {
    for (int i = 0; i < STEPS; i++) {
      act();
      turn();
    }
    network.heal();
    if (members != null) {
      members.merge();
    }
    for (int i = 0; i < END_STEPS && (i < END_STEPS_MIN || !isQuiet()); i++) {
      turn();
    }
    for (Node node : nodes) {
      node.checkEnd();
      fetched += node.harness().counters.get(Counter.NODE_FETCHED);
    }
    return new Outcome(gets, hits, fetched, restarts, changes);
  }

  private void act() throws IOException, ProtocolViolation {
    Node node = nodes.get(random.nextInt(nodes.size()));
    int dice = random.nextInt(1000);
    if (dice < 250) {
      node.put(random.nextInt(KEYS));
    } else if (dice < 700) {
      node.get(random.nextInt(KEYS));
    } else if (dice < 704) {
      Node other = nodes.get(random.nextInt(nodes.size()));
      network.silence(node.address, other.address);
    } else if (dice < 724) {
      network.heal();
    } else if (dice < (planted == Planted.STALE_INCARNATION_ACCEPTED ? 740 : 726)) {
      node.restart();
      restarts++;
    } else if (dice < 750) {
      nowNs += random.nextLong(200_000_000);
    } else if (members != null && dice < 770) {
      change(members, node);
    }
  }

  /** A node leaves or comes back, or two take each other for gone. */
  private void change(SimulatedMembership all, Node node) throws IOException, ProtocolViolation {
    switch (random.nextInt(4)) {
      case 0 -> all.part(node.address, nodes.get(random.nextInt(nodes.size())).address);
      case 1 -> all.merge();
      case 2 -> {
        node.restart();
        restarts++;
      }
      default -> {
        // The node loses sight of all others, and they of it.
        nodes.forEach(other -> all.part(node.address, other.address));
      }
    }
  }

  private boolean isQuiet() {
    return nodes.stream().allMatch(Node::isQuiet);
  }

  private void turn() throws ProtocolViolation {
    nowNs += random.nextLong(STEP_NS);
    if (members != null) {
      members.step();
    }
    for (Node node : nodes) {
      node.work();
    }
  }

  /** The bytes of the block of a key. */
  private static void fill(MemorySegment slot, long key) {
    for (long at = 0; at < slot.byteSize(); at += Long.BYTES) {
      slot.set(ValueLayout.JAVA_LONG_UNALIGNED, at, key * 0x9E3779B97F4A7C15L + at);
    }
  }

  private static boolean holds(MemorySegment slot, long key) {
    for (long at = 0; at < slot.byteSize(); at += Long.BYTES) {
      if (slot.get(ValueLayout.JAVA_LONG_UNALIGNED, at) != key * 0x9E3779B97F4A7C15L + at) {
        return false;
      }
    }
    return true;
  }

  @Override
  public void close() {
    nodes.forEach(Node::stop);
  }

  /** One daemon without threads, and its only client. */
  private final class Node {
    private final NodeAddress address;
    private final List<NodeAddress> all;
    private @Nullable IndexHarness harness;
    private SimulatedNetwork.@Nullable Transport transport;
    private @Nullable NodeTier tier;
    private @Nullable NodeServer server;
    private @Nullable Membership membership;
    private IndexHarness.@Nullable Client client;

    /** The key that the client waits for; -1: none. */
    private long sought = -1;

    private long deadlineNs;

    Node(NodeAddress address, List<NodeAddress> all) {
      this.address = address;
      this.all = all;
    }

    IndexHarness harness() {
      return Objects.requireNonNull(harness);
    }

    private IndexHarness.Client client() {
      return Objects.requireNonNull(client);
    }

    void start() throws IOException, ProtocolViolation {
      SimulatedNetwork.Transport here = network.transport(address);
      long incarnation = random.nextLong() | 1;
      boolean isForged = planted == Planted.STALE_INCARNATION_ACCEPTED;
      NodeTier made =
          new NodeTier(
              List.of(here),
              new NodeReader.Options(
                  address.host(), incarnation, () -> "", text -> text, ASK_NS, FETCH_NS),
              hints(),
              isForged ? () -> 0 : random::nextLong,
              () -> {},
              TroubleLog.NONE);
      IndexHarness index =
          new IndexHarness(
              new IndexHarness.Settings(1, slots)
                  .sessions(64)
                  .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
                  .source(OuterBlocks.opener(made, () -> {})));
      index.nowNs = nowNs;
      NodeServer serving =
          new NodeServer(
              new NodeServer.Options(
                  address.host(), incarnation, _ -> Grant.ALL, () -> {}, 64, new AtomicInteger()),
              here,
              served(index),
              TroubleLog.NONE);
      here.accept(serving::admit);
      transport = here;
      tier = made;
      harness = index;
      server = serving;
      client = index.open();
      client().register();
      Membership telling =
          members == null
              ? new StaticMembership(all)
              : members.of(new Member(address, address.host(), incarnation));
      telling.start(
          new Membership.Listener() {
            @Override
            public void joined(Member member) {
              made.join(member.address());
            }

            @Override
            public void left(Member member) {
              made.leave(member.address());
              changes++;
            }
          });
      membership = telling;
    }

    private NodeHints hints() {
      return planted == Planted.HINTS_OF_A_NODE_THAT_LEFT
          ? new NodeHints(() -> nowNs, Runnable::run) {
            @Override
            public void forgetHolder(long holder) {}
          }
          : new NodeHints(() -> nowNs, Runnable::run);
    }

    private NodeIndex served(IndexHarness index) {
      NodeIndex sessions =
          new Honest(
              new IndexSessions(index.agent(), () -> {}, 1, _ -> index.slabs()),
              planted == Planted.STALE_INCARNATION_ACCEPTED);
      return switch (planted) {
        case LEASE_RELEASED_BEFORE_THE_READ_ENDED -> new EarlyRelease(sessions);
        case HINT_TAKEN_FOR_TRUTH -> new Trusting(sessions, index);
        default -> sessions;
      };
    }

    void stop() {
      if (membership != null) {
        membership.close();
      }
      if (transport != null) {
        transport.close();
      }
      if (harness != null) {
        fetched += harness.counters.get(Counter.NODE_FETCHED);
        harness.close();
      }
    }

    /** The daemon is killed and starts anew, without its blocks. */
    void restart() throws IOException, ProtocolViolation {
      stop();
      sought = -1;
      start();
    }

    void put(long key) throws ProtocolViolation {
      if (sought >= 0) {
        return;
      }
      client().sendWords(Verb.RESERVE, RequestDescriptor.FLAG_CHECKSUMS, 8, 1, new long[] {key});
      IndexHarness.Answer reserved = client().await();
      if (reserved.ids().isEmpty()) {
        return; // it is there, or on its way
      }
      MemorySegment slot = slot(reserved);
      fill(slot, key);
      client()
          .sendIds(
              Verb.COMMIT,
              RequestDescriptor.FLAG_CHECKSUMS,
              1,
              reserved.ids().getFirst(),
              Checksums.of(slot) & 0xffff_ffffL);
      if (client().await().first() != Status.OK) {
        throw new Violation("a put of key " + key + " failed");
      }
    }

    private MemorySegment slot(IndexHarness.Answer answer) {
      return harness().slabs().asSlice(answer.places().getFirst(), IndexHarness.SLOT_BYTES);
    }

    void get(long key) throws ProtocolViolation {
      if (sought < 0) {
        sought = key;
        deadlineNs = nowNs + DEADLINE_NS;
        gets++;
        client().sendKeys(Verb.ACQUIRE, key, 1);
      }
    }

    void work() throws ProtocolViolation {
      IndexHarness index = harness();
      index.nowNs = nowNs;
      int ignored = index.agent().doWork();
      if (tier != null && server != null && transport != null) {
        ignored += tier.readers().getFirst().doWork() + server.doWork() + transport.poll(0);
      }
      if (random.nextInt(4) == 0) {
        index.agent().checkInvariants();
      }
      if (sought >= 0 && client().hasAnswer()) {
        check(client().take());
        sought = -1;
      } else if (sought >= 0 && nowNs > deadlineNs) {
        throw new Violation("a get of key " + sought + " was not answered in time");
      }
      if (flips == 0 && index.counters.get(Counter.CORRUPT) > 0) {
        throw new Violation("a block was damaged on its way to " + address);
      }
    }

    private void check(IndexHarness.Answer answer) throws ProtocolViolation {
      if (answer.first() != Status.OK) {
        return;
      }
      hits++;
      if (!holds(slot(answer), sought)) {
        throw new Violation("a get of key " + sought + " at " + address + " has wrong bytes");
      }
      client().sendIds(Verb.RELEASE, 0, 1, answer.ids().getFirst());
      IndexHarness.Answer ignored = client().await();
    }

    boolean isQuiet() {
      return sought < 0
          && harness().agent().isIdle()
          && harness().counters.get(Counter.GAUGE_LEASES) == 0;
    }

    void checkEnd() {
      IndexHarness index = harness();
      if (!isQuiet()) {
        throw new Violation("work or leases are left at " + address);
      }
      if (index.counters.get(Counter.LEASES_EXPIRED) > 0) {
        throw new Violation("a lease at " + address + " was not released");
      }
      index.agent().checkInvariants();
    }
  }

  /**
   * Notes which blocks this start of a node has said it has. Others ask for no other blocks.
   *
   * @param isForged whether others can't know which start of the node answers
   */
  private record Honest(NodeIndex index, boolean isForged, Set<Long> told) implements NodeIndex {
    Honest(NodeIndex index, boolean isForged) {
      this(index, isForged, new HashSet<>());
    }

    @Override
    public Session open(String name, Grant grant, Runnable ended) throws IOException {
      return index.open(name, grant, ended);
    }

    private static long key(NodeCall.Blocks blocks, int i) {
      return blocks.keys().get(ValueLayout.JAVA_LONG_UNALIGNED, blocks.at(i));
    }

    @Override
    public boolean call(Session session, NodeCall call) {
      if (call instanceof NodeCall.Lease lease
          && !isForged
          && !told.contains(key(lease.block(), 0))) {
        throw new Violation(
            "a node is asked for key " + key(lease.block(), 0) + ", which it never said it had");
      }
      return call instanceof NodeCall.Find find
          ? index.call(
              session,
              new NodeCall.Find(
                  find.blocks(),
                  found -> {
                    note(find.blocks(), found.places());
                    find.answer().accept(found);
                  }))
          : index.call(session, call);
    }

    private void note(NodeCall.Blocks blocks, ByteBuffer places) {
      for (int i = 0; i < places.limit(); i++) {
        if (places.get(i) == NodeCall.FIRST) {
          told.add(key(blocks, i));
        }
      }
    }

    @Override
    public void close(Session session) {
      index.close(session);
    }

    @Override
    public MemorySegment slab(int slab) {
      return index.slab(slab);
    }
  }

  /** Ends each lease before the bytes of its block have left. */
  private record EarlyRelease(NodeIndex index) implements NodeIndex {
    @Override
    public Session open(String name, Grant grant, Runnable ended) throws IOException {
      return index.open(name, grant, ended);
    }

    @Override
    public boolean call(Session session, NodeCall call) {
      return call instanceof NodeCall.Lease lease
          ? index.call(
              session,
              new NodeCall.Lease(
                  lease.block(),
                  lease.blockBytes(),
                  leased -> {
                    lease.answer().accept(leased);
                    if (leased instanceof NodeCall.Leased.Here here) {
                      boolean ignored =
                          index.call(session, new NodeCall.Release(here.lease(), false));
                    }
                  }))
          : index.call(session, call);
    }

    @Override
    public void close(Session session) {
      index.close(session);
    }

    @Override
    public MemorySegment slab(int slab) {
      return index.slab(slab);
    }
  }

  /** Remembers where blocks were leased, and does not look again. */
  private static final class Trusting implements NodeIndex {
    private final NodeIndex index;
    private final IndexHarness harness;
    private final Map<Long, NodeCall.Leased.Here> remembered = new HashMap<>();

    Trusting(NodeIndex index, IndexHarness harness) {
      this.index = index;
      this.harness = harness;
    }

    @Override
    public Session open(String name, Grant grant, Runnable ended) throws IOException {
      return index.open(name, grant, ended);
    }

    @Override
    public boolean call(Session session, NodeCall call) {
      return call instanceof NodeCall.Lease lease
          ? index.call(
              session,
              new NodeCall.Lease(
                  lease.block(), lease.blockBytes(), leased -> answer(lease, leased)))
          : index.call(session, call);
    }

    private void answer(NodeCall.Lease lease, NodeCall.Leased leased) {
      long key = lease.block().keys().get(ValueLayout.JAVA_LONG_UNALIGNED, 0);
      if (leased instanceof NodeCall.Leased.Here here) {
        remembered.put(key, here);
      }
      NodeCall.Leased.Here before = remembered.get(key);
      if (before == null) {
        lease.answer().accept(leased);
        return;
      }
      MemorySegment slot = harness.slabs().asSlice(before.offset(), before.length());
      lease
          .answer()
          .accept(
              leased instanceof NodeCall.Leased.Absent
                  ? new NodeCall.Leased.Here(
                      before.lease(),
                      before.slab(),
                      before.offset(),
                      before.length(),
                      Checksums.of(slot))
                  : leased);
    }

    @Override
    public void close(Session session) {
      index.close(session);
    }

    @Override
    public MemorySegment slab(int slab) {
      return index.slab(slab);
    }
  }
}
