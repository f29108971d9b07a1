package io.kvtier.daemon.index;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.OwnFind;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.source.ExpectedBlocks;
import io.kvtier.daemon.index.source.OuterBlocks;
import io.kvtier.daemon.member.Member;
import io.kvtier.daemon.member.Membership;
import io.kvtier.daemon.member.SimulatedMembership;
import io.kvtier.daemon.member.StaticMembership;
import io.kvtier.daemon.node.HandOver;
import io.kvtier.daemon.node.IndexSessions;
import io.kvtier.daemon.node.NodeIndex;
import io.kvtier.daemon.node.NodeServer;
import io.kvtier.daemon.node.SimulatedNetwork;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.node.Messages;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeHints;
import io.kvtier.tiers.node.NodePeer;
import io.kvtier.tiers.node.NodeReader;
import io.kvtier.tiers.node.NodeTier;
import io.kvtier.tiers.node.PieceMap;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Several daemons' indexes on one thread, over a {@link SimulatedNetwork}: they put blocks, evict
 * them, read each other's, expect blocks that another writes layer by layer, hand theirs to each
 * other, break off, fall silent, leave, come back and start anew. One seed decides everything. The
 * oracle: a get delivers the bytes of its block or a miss, within its deadline; no block is found
 * damaged where the network damages none; a node is only asked for blocks that it has said it has,
 * since its start; pushed blocks fill their share at most; hand-overs end; and in the end, no
 * lease, no reservation and no slot is lost, the directory, if there is one, has exactly the blocks
 * that connected nodes have, and a fresh lookup finds what another node has just got.
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
    /** The blocks of one FETCH are taken for each other. */
    BLOCKS_OF_A_FETCH_IN_ANOTHER_ORDER,
    /** Bytes that came are not verified. */
    READ_WITHOUT_VERIFYING,
    /** A node sends what stands where a block once was. */
    HINT_TAKEN_FOR_TRUTH,
    /** What was known of a node that left is taken for known of the next one with its bit. */
    HINTS_OF_A_NODE_THAT_LEFT,
    /** A pushed block is visible as soon as it has a slot. */
    PUSH_VISIBLE_BEFORE_ITS_CHECKSUM,
    /** The slot of a pushed block is given to another before the bytes have come. */
    LATE_PUSH_INTO_A_REUSED_SLOT,
    /** Blocks whose partition gets another owner are not announced to it. */
    NEW_OWNERS_ARE_NOT_TOLD,
    /** Entries of a node that has left stay in the directory. */
    LISTS_OF_NODES_THAT_LEFT_STAY,
    /** The pieces of a block are counted, so one that comes twice stands for another. */
    COUNTER_IN_PLACE_OF_A_BITMAP,
    /** A piece of a block that was given up goes to where the piece before it went. */
    LATE_PIECE_INTO_A_REUSED_SLOT,
    /** A block is leased no more while its pieces are being sent. */
    PIECES_SENT_WITHOUT_A_LEASE,
    /** A fresh lookup is answered from what nodes said before. */
    FRESH_LOOKUP_ANSWERED_FROM_MEMORY
  }

  /** A promise was broken. */
  static final class Violation extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Violation(String message) {
      super(message);
    }
  }

  /** What happened in a run. */
  record Outcome(
      int gets,
      int hits,
      long fetched,
      long pushed,
      long expected,
      long pieces,
      int restarts,
      int changes) {}

  private static final int STEPS = 2000;
  private static final int KEYS = 24;
  private static final long STEP_NS = 4_000_000;
  private static final int END_STEPS_MIN = 200;
  private static final int END_STEPS = 6000;
  private static final int SETTLING_STEPS = 600;
  private static final long FETCH_NS = 120_000_000;
  private static final long ASK_NS = 80_000_000;
  private static final long DIRECTORY_BYTES = 64 << 10;
  private static final long DEADLINE_NS = 6_000_000_000L;
  private static final long HAND_OVER_NS = 2_000_000_000L;

  /** Nodes are asked again without FLAG_FRESH after a second. */
  private static final long FRESH_NS = 900_000_000L;

  private static final int LAYERS = 4;
  private static final int HEADS = 2;
  private static final int HEAD_BYTES = IndexHarness.SLOT_BYTES / (LAYERS * HEADS);
  private static final String NAMESPACE =
      "name=test\nform=LCNHD:" + LAYERS + "x1:1x" + HEADS + "x" + HEAD_BYTES;

  private final SplittableRandom random;
  private final Planted planted;
  private final int slots;
  private final double flips;
  private final SimulatedNetwork network;

  /** Whether blocks are found with a directory. */
  private final boolean hasDirectory;

  /** Whether each start opens the directory. Otherwise one node does it at some time. */
  private final boolean opensAtOnce;

  /** Null: each node has a list of all. */
  private final @Nullable SimulatedMembership members;

  private final List<Node> nodes = new ArrayList<>();
  private long nowNs = 1_000_000_000L;
  private int gets;
  private int hits;
  private long fetched;
  private long pushed;
  private long expected;
  private long pieces;
  private int restarts;
  private int changes;

  ClusterSimulation(long seed, Planted planted) throws IOException, ProtocolViolation {
    random = new SplittableRandom(seed);
    this.planted = planted;
    slots =
        switch (planted) {
          case LEASE_RELEASED_BEFORE_THE_READ_ENDED, LATE_PIECE_INTO_A_REUSED_SLOT -> 3;
          default -> 3 + random.nextInt(8);
        };
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
                flips,
                repeats()));
    network.believesChecksums = planted == Planted.READ_WITHOUT_VERIFYING;
    network.releasesEarly = planted == Planted.LATE_BYTES_INTO_A_REUSED_SLOT;
    network.landsLate = planted == Planted.LATE_PIECE_INTO_A_REUSED_SLOT;
    network.forgesIncarnations = planted == Planted.STALE_INCARNATION_ACCEPTED;
    boolean isTold = planted == Planted.HINTS_OF_A_NODE_THAT_LEFT || random.nextBoolean();
    members = isTold ? new SimulatedMembership(random.split()) : null;
    hasDirectory =
        switch (planted) {
          case NEW_OWNERS_ARE_NOT_TOLD, LISTS_OF_NODES_THAT_LEFT_STAY -> true;
          case NONE -> random.nextInt(3) == 0;
          default -> false;
        };
    opensAtOnce = random.nextBoolean();
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

  private double repeats() {
    return switch (planted) {
      case NONE -> random.nextInt(4) == 0 ? random.nextDouble() * 0.3 : 0;
      case COUNTER_IN_PLACE_OF_A_BITMAP -> 0.3;
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
    for (Node node : nodes) {
      node.endEngines();
    }
    for (int i = 0; i < END_STEPS_MIN; i++) {
      turn();
    }
    // A question that comes again on a new link keeps a node busy for seconds.
    network.calm();
    awaitQuiet();
    if (hasDirectory) {
      nodes.getFirst().openDirectory();
      for (int i = 0; i < END_STEPS && !isConnected(); i++) {
        turn();
      }
      for (int i = 0; i < SETTLING_STEPS; i++) {
        turn();
      }
      checkDirectory();
      awaitQuiet();
    }
    for (Node node : nodes) {
      node.checkEnd();
      node.count();
    }
    checkFresh();
    return new Outcome(gets, hits, fetched, pushed, expected, pieces, restarts, changes);
  }

  /** A block that no node had a moment ago is put at one, and found at another. */
  private void checkFresh() throws ProtocolViolation {
    for (int i = 0; i < END_STEPS && !isConnected(); i++) {
      turn();
    }
    Node here = nodes.getFirst();
    Node there = nodes.getLast();
    long key = KEYS + 1;
    Status answer = Status.PENDING;
    for (int i = 0; i < END_STEPS && answer == Status.PENDING; i++) {
      answer = here.lookUp(key, 0);
      turn();
    }
    long beganNs = nowNs;
    there.put(key);
    while (!there.isFree()) {
      turn();
    }
    if (answer != Status.MISS || there.lookUp(key, 0) != Status.OK) {
      return; // there was no slot for the block
    }
    while (nowNs - beganNs < FRESH_NS) {
      if (here.lookUp(key, RequestDescriptor.FLAG_FRESH) == Status.OK) {
        return;
      }
      turn();
    }
    throw new Violation("a fresh lookup at " + here.address + " does not find key " + key);
  }

  private void awaitQuiet() throws IOException, ProtocolViolation {
    for (int i = 0; i < END_STEPS && !isQuiet(); i++) {
      turn();
    }
  }

  private boolean isConnected() {
    return nodes.stream().allMatch(node -> node.connected() == nodes.size() - 1);
  }

  /** Each block in a node's memory is known to the owner of its partition, and no other block. */
  private void checkDirectory() throws ProtocolViolation {
    if (!isConnected()) {
      throw new Violation("the nodes have not found each other again");
    }
    long[] found = new long[NodeDirectory.HOLDERS_MAX];
    List<Long> hashes = List.of();
    for (Node node : nodes) {
      hashes = node.hashes();
    }
    for (long hash : hashes) {
      Set<Long> expected = new HashSet<>();
      for (Node other : nodes) {
        if (other.present.contains(hash)) {
          expected.add(other.incarnation);
        }
      }
      for (Node owner : nodes) {
        NodeDirectory directory = Objects.requireNonNull(owner.directory);
        if (directory.owner(hash) == owner.incarnation) {
          check(expected, directory.find(hash, found), found);
        }
      }
    }
  }

  private void check(Set<Long> expected, int count, long[] found) {
    Set<Long> known = new HashSet<>();
    for (int i = 0; i < count; i++) {
      known.add(found[i]);
    }
    // Beyond the most holders of a block, the directory does not know all of them.
    boolean isRight =
        nodes.size() <= NodeDirectory.HOLDERS_MAX
            ? known.equals(expected)
            : expected.containsAll(known);
    if (!isRight) {
      throw new Violation("the directory names " + known + " for a block of " + expected);
    }
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
    } else if (dice < 770) {
      boolean ignored =
          node.handOver().start(1 + random.nextLong(HAND_OVER_NS), 1 + random.nextLong(1 << 17));
    } else if (dice < 774) {
      node.handOver().cancel();
    } else if (hasDirectory && dice < 776) {
      node.openDirectory();
    } else if (dice < 794) {
      if (members != null) {
        change(members, node);
      }
    } else if (dice < 850) {
      node.writer().begin(random.nextInt(KEYS));
    } else if (dice < 930) {
      node.decoder().expect(nodes.get(random.nextInt(nodes.size())));
    } else if (dice < 936) {
      node.writer().hangUp();
    } else if (dice < (planted == Planted.LATE_PIECE_INTO_A_REUSED_SLOT ? 1000 : 946)) {
      node.decoder().hangUp();
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
    fill(slot, key, 0, slot.byteSize());
  }

  private static void fill(MemorySegment slot, long key, long from, long to) {
    for (long at = from; at < to; at += Long.BYTES) {
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
    private @Nullable HandOver handOver;
    private @Nullable NodeDirectory directory;
    private long incarnation;

    /** The hashes of the blocks that were in memory when {@link #hashes} was called. */
    private final Set<Long> present = new HashSet<>();

    private IndexHarness.@Nullable Client client;
    private @Nullable Writer writer;
    private @Nullable Decoder decoder;

    /** The first key that the client waits for; -1: none. */
    private long sought = -1;

    /** How many keys the client waits for. */
    private int soughtCount;

    /** The key that the client waits to write; -1: none. */
    private long put = -1;

    private long deadlineNs;

    Node(NodeAddress address, List<NodeAddress> all) {
      this.address = address;
      this.all = all;
    }

    IndexHarness harness() {
      return Objects.requireNonNull(harness);
    }

    HandOver handOver() {
      return Objects.requireNonNull(handOver);
    }

    private IndexHarness.Client client() {
      return Objects.requireNonNull(client);
    }

    Writer writer() {
      return Objects.requireNonNull(writer);
    }

    Decoder decoder() {
      return Objects.requireNonNull(decoder);
    }

    void start() throws IOException, ProtocolViolation {
      SimulatedNetwork.Transport here = network.transport(address);
      incarnation = random.nextLong() | 1;
      NodeDirectory owned = hasDirectory ? directory() : null;
      directory = owned;
      boolean isForged = planted == Planted.STALE_INCARNATION_ACCEPTED;
      NodeTier made =
          new NodeTier(
              List.of(here),
              new NodeReader.Options(
                  address.host(),
                  incarnation,
                  () -> "",
                  text -> text,
                  ASK_NS,
                  FETCH_NS,
                  planted == Planted.COUNTER_IN_PLACE_OF_A_BITMAP
                      ? CountedPieces::new
                      : PieceMap::new),
              hints(),
              isForged ? () -> 0 : random::nextLong,
              () -> {},
              TroubleLog.NONE);
      IndexHarness index =
          new IndexHarness(
              new IndexHarness.Settings(1, slots)
                  .sessions(64)
                  .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
                  .source(OuterBlocks.opener(made, () -> {}))
                  .source(ExpectedBlocks.opener(made)));
      index.nowNs = nowNs;
      if (owned != null) {
        ChangeFeed feed = feed();
        made.use(owned, feed, opensAtOnce);
        index.agent().announceTo(feed);
      }
      NodeServer serving =
          new NodeServer(
              new NodeServer.Options(
                  address.host(),
                  incarnation,
                  _ -> Grant.ALL,
                  () -> {},
                  owned,
                  64,
                  new AtomicInteger(),
                  _ -> {}),
              here,
              served(index),
              TroubleLog.NONE);
      here.accept(serving::admit);
      handOver = new HandOver(made, served(index), () -> nowNs, () -> {});
      transport = here;
      tier = made;
      harness = index;
      server = serving;
      client = index.open();
      register(client());
      writer = new Writer(index, random.split());
      decoder = new Decoder(index, address);
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

    private NodeDirectory directory() {
      return planted == Planted.LISTS_OF_NODES_THAT_LEFT_STAY
          ? new NodeDirectory(incarnation, true, DIRECTORY_BYTES) {
            @Override
            public synchronized void end(long node, Object from) {}
          }
          : new NodeDirectory(incarnation, true, DIRECTORY_BYTES);
    }

    private ChangeFeed feed() {
      return planted == Planted.NEW_OWNERS_ARE_NOT_TOLD
          ? new ChangeFeed(() -> {}) {
            @Override
            public void walk() {}
          }
          : new ChangeFeed(() -> {});
    }

    void openDirectory() {
      Objects.requireNonNull(directory).open();
    }

    /** How many other nodes this one is connected to. */
    int connected() {
      return (int)
          Objects.requireNonNull(tier).peers().stream()
              .filter(peer -> peer.state() == NodePeer.State.CONNECTED)
              .count();
    }

    /** The hashes of all keys; {@link #present} has those of the blocks in memory. */
    List<Long> hashes() throws ProtocolViolation {
      List<Long> hashes = new ArrayList<>();
      MemorySegment keys = Arena.ofAuto().allocate((long) KEYS * Long.BYTES, Long.BYTES);
      for (int key = 0; key < KEYS; key++) {
        keys.setAtIndex(ValueLayout.JAVA_LONG, key, key);
      }
      OwnFind find =
          new OwnFind(
              namespaces -> namespaces.byId(0),
              0,
              Long.BYTES,
              KEYS,
              keys,
              answer -> note(Objects.requireNonNull(answer), keys, hashes));
      if (!harness().agent().offerFind(find)) {
        throw new Violation("the inbox of the index is full");
      }
      work();
      return hashes;
    }

    private void note(OwnFind.Answer answer, MemorySegment keys, List<Long> hashes) {
      byte[] key = new byte[Long.BYTES];
      present.clear();
      for (int i = 0; i < KEYS; i++) {
        MemorySegment.copy(keys, ValueLayout.JAVA_BYTE, (long) i * Long.BYTES, key, 0, Long.BYTES);
        long hash = ObjectKey.of(answer.high(), answer.low(), key, Long.BYTES, 0).high();
        hashes.add(hash);
        if (answer.found().places().get(i) == NodeCall.FIRST) {
          present.add(hash);
        }
      }
    }

    private NodeHints hints() {
      return switch (planted) {
        case HINTS_OF_A_NODE_THAT_LEFT ->
            new NodeHints(() -> nowNs, Runnable::run) {
              @Override
              public void forgetHolder(int holder) {}
            };
        case FRESH_LOOKUP_ANSWERED_FROM_MEMORY ->
            new NodeHints(() -> nowNs, Runnable::run) {
              @Override
              public void forget(ObjectKey key) {}
            };
        default -> new NodeHints(() -> nowNs, Runnable::run);
      };
    }

    Status lookUp(long key, int flags) throws ProtocolViolation {
      client().sendWords(Verb.LOOKUP, flags, 8, 1, new long[] {key});
      return client().work().first();
    }

    /** The engines end: nothing is written or expected any more. */
    void endEngines() throws IOException, ProtocolViolation {
      writer().hangUp();
      decoder().hangUp();
    }

    private NodeIndex served(IndexHarness index) {
      NodeIndex sessions =
          new Honest(
              new IndexSessions(index.agent(), () -> {}, 1, _ -> index.slabs()),
              planted == Planted.STALE_INCARNATION_ACCEPTED);
      return switch (planted) {
        case LEASE_RELEASED_BEFORE_THE_READ_ENDED -> new EarlyRelease(sessions);
        case BLOCKS_OF_A_FETCH_IN_ANOTHER_ORDER -> new Disordered(sessions);
        case PIECES_SENT_WITHOUT_A_LEASE -> new EarlyUnfollow(sessions);
        case HINT_TAKEN_FOR_TRUTH -> new Trusting(sessions, index);
        case PUSH_VISIBLE_BEFORE_ITS_CHECKSUM, LATE_PUSH_INTO_A_REUSED_SLOT ->
            new EarlyEnd(sessions, planted == Planted.PUSH_VISIBLE_BEFORE_ITS_CHECKSUM);
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
      if (directory != null) {
        directory.close();
      }
      if (harness != null) {
        count();
        harness.close();
      }
    }

    void count() {
      fetched += harness().counters.get(Counter.NODE_FETCHED);
      pushed += harness().counters.get(Counter.NODE_TAKEN);
      expected += harness().counters.get(Counter.NODE_EXPECTED);
      pieces += harness().counters.get(Counter.NODE_PIECES);
    }

    /** The daemon is killed and starts anew, without its blocks. */
    void restart() throws IOException, ProtocolViolation {
      stop();
      sought = -1;
      put = -1;
      start();
    }

    /** Begins a put; its slot may take time, because other nodes push blocks here. */
    void put(long key) throws ProtocolViolation {
      if (isFree()) {
        put = key;
        deadlineNs = nowNs + DEADLINE_NS;
        client().sendWords(Verb.RESERVE, RequestDescriptor.FLAG_CHECKSUMS, 8, 1, new long[] {key});
      }
    }

    private boolean isFree() {
      return sought < 0 && put < 0;
    }

    private void write(long key, IndexHarness.Answer reserved) throws ProtocolViolation {
      if (reserved.ids().isEmpty()) {
        return; // it is there, or on its way, or there is no slot
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

    /** Gets a block, or two that can be fetched together. */
    void get(long key) throws ProtocolViolation {
      if (isFree()) {
        sought = key;
        soughtCount = key + 1 < KEYS ? 1 + random.nextInt(2) : 1;
        deadlineNs = nowNs + DEADLINE_NS;
        gets++;
        client().sendKeys(Verb.ACQUIRE, key, soughtCount);
      }
    }

    void work() throws ProtocolViolation {
      IndexHarness index = harness();
      index.nowNs = nowNs;
      int ignored = index.agent().doWork();
      if (tier != null && server != null && transport != null) {
        ignored += tier.readers().getFirst().doWork() + server.doWork() + transport.poll(0);
        ignored += handOver().doWork();
      }
      checkPushed();
      writer().work();
      decoder().work();
      if (random.nextInt(4) == 0) {
        index.agent().checkInvariants();
      }
      if (sought >= 0 && client().hasAnswer()) {
        check(client().take());
        sought = -1;
      } else if (put >= 0 && client().hasAnswer()) {
        write(put, client().take());
        put = -1;
      } else if (!isFree() && nowNs > deadlineNs) {
        throw new Violation("a get of " + sought + " or a put of " + put + " was not answered");
      }
      if (flips == 0
          && index.counters.get(Counter.CORRUPT) + index.counters.get(Counter.NODE_TAKE_CORRUPT)
              > 0) {
        throw new Violation("a block was damaged on its way to " + address);
      }
    }

    private void checkPushed() {
      long pushedMax = (long) (IndexHarness.PUSHED_SHARE * slots * IndexHarness.SLOT_BYTES);
      if (harness().directory().pushedBytes(Grant.NO_TENANT) > pushedMax) {
        throw new Violation("pushed blocks fill more than their share at " + address);
      }
    }

    private void check(IndexHarness.Answer answer) throws ProtocolViolation {
      int found = 0;
      for (int i = 0; i < soughtCount; i++) {
        if ((i == 0 ? answer.first() : answer.last()) == Status.OK) {
          check(sought + i, answer.places().get(found), answer.ids().get(found));
          found++;
        }
      }
    }

    private void check(long key, long place, long lease) throws ProtocolViolation {
      hits++;
      if (!holds(harness().slabs().asSlice(place, IndexHarness.SLOT_BYTES), key)) {
        throw new Violation("a get of key " + key + " at " + address + " has wrong bytes");
      }
      client().sendIds(Verb.RELEASE, 0, 1, lease);
      IndexHarness.Answer ignored = client().await();
    }

    boolean isQuiet() {
      return isFree()
          && decoder().isFree()
          && harness().counters.get(Counter.GAUGE_EXPECTED) == 0
          && harness().counters.get(Counter.GAUGE_FOLLOWED) == 0
          && harness().agent().isIdle()
          && !handOver().progress().isRunning()
          && harness().counters.get(Counter.GAUGE_LEASES) == 0
          && harness().counters.get(Counter.GAUGE_RESERVATIONS) == 0;
    }

    void checkEnd() {
      IndexHarness index = harness();
      if (!isQuiet()) {
        throw new Violation(
            "at %s, %s is left; leases: %d, reservations: %d, expected: %d, followed: %d"
                .formatted(
                    address,
                    handOver().progress().isRunning() ? "a hand-over" : index.agent(),
                    index.counters.get(Counter.GAUGE_LEASES),
                    index.counters.get(Counter.GAUGE_RESERVATIONS),
                    index.counters.get(Counter.GAUGE_EXPECTED),
                    index.counters.get(Counter.GAUGE_FOLLOWED)));
      }
      if (index.counters.get(Counter.LEASES_EXPIRED) > 0) {
        throw new Violation("a lease at " + address + " was not released");
      }
      index.agent().checkInvariants();
    }
  }

  private static void register(IndexHarness.Client client) throws ProtocolViolation {
    if (client.say(Verb.REGISTER, IndexHarness.SLOT_BYTES, NAMESPACE) != Status.OK) {
      throw new IllegalStateException("the namespace is refused");
    }
  }

  /** A prefill engine of some ranks, each with a shard of every layer or a layer of all heads. */
  private static final class Writer {
    private record Part(int region, int layer, int heads, int head) {}

    private final IndexHarness harness;
    private final SplittableRandom random;
    private final boolean isByHeads;
    private IndexHarness.Client client;
    private final List<Part> regions = new ArrayList<>();

    /** The parts of the block that are still to be written; empty: none is. */
    private final ArrayDeque<Part> parts = new ArrayDeque<>();

    /** The slot that is being written. */
    private IndexHarness.@Nullable Answer reserved;

    private boolean isAsking;
    private long key = -1;

    @SuppressWarnings("NullAway.Init") // open() comes first
    Writer(IndexHarness harness, SplittableRandom random) throws IOException, ProtocolViolation {
      this.harness = harness;
      this.random = random;
      isByHeads = random.nextBoolean();
      open();
    }

    private void open() throws IOException, ProtocolViolation {
      client = harness.open();
      register(client);
      regions.clear();
      int heads = isByHeads ? 1 : HEADS;
      for (int layer = 0; layer < LAYERS; layer++) {
        for (int head = 0; head < HEADS; head += heads) {
          regions.add(
              new Part(client.registerRegion(text(layer, heads, head)), layer, heads, head));
        }
      }
    }

    private static String text(int layer, int heads, int head) {
      return String.join(
          "\n",
          "device=host",
          "layers=1",
          "blocks=1",
          "block_tokens=1",
          "block_layers=" + LAYERS,
          "first_layer=" + layer,
          "part=kv:BHD:1,%d,%d:%d,%d,1:1:%d:%d"
              .formatted(heads, HEAD_BYTES, heads * HEAD_BYTES, HEAD_BYTES, HEADS, head));
    }

    long key() {
      return key;
    }

    void begin(long of) {
      if (parts.isEmpty() && reserved == null && !isAsking) {
        key = of;
        parts.addAll(regions);
      }
    }

    /** The engine dies with what it was writing. */
    void hangUp() throws IOException, ProtocolViolation {
      harness.close(client);
      parts.clear();
      reserved = null;
      isAsking = false;
      open();
    }

    void work() throws ProtocolViolation {
      if (isAsking && client.hasAnswer()) {
        answered(client.take());
      } else if (!isAsking && random.nextInt(4) == 0) {
        goOn();
      }
    }

    private void answered(IndexHarness.Answer answer) {
      isAsking = false;
      if (answer.verb() == Verb.RESERVE && answer.first() == Status.OK) {
        reserved = answer;
      } else if (answer.first() != Status.OK) {
        // The block is there, others write it, or there is no slot for it.
        parts.clear();
      }
    }

    private void goOn() throws ProtocolViolation {
      IndexHarness.Answer slot = reserved;
      if (slot != null) {
        Part part = parts.remove();
        long from = (long) part.layer * HEADS * HEAD_BYTES + (long) part.head * HEAD_BYTES;
        MemorySegment bytes =
            harness.slabs().asSlice(slot.places().getFirst(), IndexHarness.SLOT_BYTES);
        fill(bytes, key, from, from + (long) part.heads * HEAD_BYTES);
        client.sendIds(Verb.COMMIT, 0, 1, slot.ids().getFirst());
        reserved = null;
        isAsking = true;
      } else if (!parts.isEmpty()) {
        client.shard = parts.element().region;
        client.sendKeys(Verb.RESERVE, key, 1);
        client.shard = 0;
        isAsking = true;
      }
    }
  }

  /** A decode engine, which expects what another node is writing. */
  private final class Decoder {
    private final IndexHarness harness;
    private final NodeAddress address;
    private IndexHarness.Client client;
    private long key = -1;
    private long deadlineNs;

    @SuppressWarnings("NullAway.Init") // open() comes first
    Decoder(IndexHarness harness, NodeAddress address) throws IOException, ProtocolViolation {
      this.harness = harness;
      this.address = address;
      open();
    }

    private void open() throws IOException, ProtocolViolation {
      client = harness.open();
      register(client);
    }

    boolean isFree() {
      return key < 0;
    }

    void expect(Node from) throws ProtocolViolation {
      long of = from.writer().key();
      if (isFree() && of >= 0) {
        key = of;
        deadlineNs = nowNs + DEADLINE_NS;
        String name = random.nextBoolean() ? from.address.host() : from.address.toString();
        client.shard = Checksums.of(MemorySegment.ofArray(name.getBytes(StandardCharsets.UTF_8)));
        client.sendWords(Verb.ACQUIRE, RequestDescriptor.FLAG_EXPECTED, 8, 1, new long[] {key});
        client.shard = 0;
      }
    }

    /** The engine wants the block no more. */
    void hangUp() throws IOException, ProtocolViolation {
      harness.close(client);
      key = -1;
      open();
    }

    void work() throws ProtocolViolation {
      if (isFree()) {
        return;
      }
      if (client.hasAnswer()) {
        check(client.take());
        key = -1;
      } else if (nowNs > deadlineNs) {
        throw new Violation("key " + key + " was expected at " + address + " without an answer");
      }
    }

    private void check(IndexHarness.Answer answer) throws ProtocolViolation {
      if (answer.first() != Status.OK) {
        return;
      }
      MemorySegment slot =
          harness.slabs().asSlice(answer.places().getFirst(), IndexHarness.SLOT_BYTES);
      if (!holds(slot, key)) {
        throw new Violation("key " + key + " was expected at " + address + " and is wrong");
      }
      client.sendIds(Verb.RELEASE, 0, 1, answer.ids().getFirst());
      IndexHarness.Answer ignored = client.await();
    }
  }

  /** Counts pieces, whichever they are. */
  private static final class CountedPieces extends PieceMap {
    private int units = Integer.MAX_VALUE;
    private int count;

    @Override
    protected boolean isNew(Messages.Piece piece) {
      return true;
    }

    @Override
    protected void add(Messages.Piece piece) {
      units = piece.units();
      count += piece.to() - piece.from();
    }

    @Override
    protected boolean isWhole() {
      return count >= units;
    }
  }

  /** A way to an index, which passes on what is asked. */
  private abstract static class Passing implements NodeIndex {
    final NodeIndex index;

    Passing(NodeIndex index) {
      this.index = index;
    }

    @Override
    public Session open(String name, Grant grant, Runnable ended) throws IOException {
      return index.open(name, grant, ended);
    }

    @Override
    public boolean close(Session session) {
      return index.close(session);
    }

    @Override
    public MemorySegment slab(int slab) {
      return index.slab(slab);
    }

    /** Passes on a call for leases, with something else done about their answer. */
    final boolean lease(
        Session session, NodeCall.Lease lease, Consumer<List<NodeCall.Leased>> answered) {
      return index.call(session, new NodeCall.Lease(lease.blocks(), lease.blockBytes(), answered));
    }
  }

  private static long key(NodeCall.Blocks blocks, int i) {
    return blocks.keys().get(ValueLayout.JAVA_LONG_UNALIGNED, blocks.at(i));
  }

  /** Notes which blocks this start of a node has said it has. Others ask for no other blocks. */
  private static final class Honest extends Passing {
    /** Whether others can't know which start of the node answers. */
    private final boolean isForged;

    private final Set<Long> told = new HashSet<>();

    Honest(NodeIndex index, boolean isForged) {
      super(index);
      this.isForged = isForged;
    }

    @Override
    public boolean call(Session session, NodeCall call) {
      if (call instanceof NodeCall.Lease lease && !isForged) {
        for (int i = 0; i < lease.blocks().count(); i++) {
          long key = key(lease.blocks(), i);
          if (!told.contains(key)) {
            throw new Violation("a node is asked for key " + key + ", which it never said it had");
          }
        }
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
  }

  /** Ends each lease before the bytes of its block have left. */
  private static final class EarlyRelease extends Passing {
    EarlyRelease(NodeIndex index) {
      super(index);
    }

    private static LongBuffer leasesOf(List<NodeCall.Leased> leased) {
      LongBuffer leases = LongBuffer.allocate(leased.size());
      for (NodeCall.Leased one : leased) {
        if (one instanceof NodeCall.Leased.Here here) {
          leases.put(here.lease());
        }
      }
      return leases.flip();
    }

    @Override
    public boolean call(Session session, NodeCall call) {
      return call instanceof NodeCall.Lease lease
          ? lease(
              session,
              lease,
              leased -> {
                lease.answer().accept(leased);
                boolean ignored =
                    index.call(session, new NodeCall.Release(leasesOf(leased), false));
              })
          : index.call(session, call);
    }
  }

  /** Answers the blocks of each FETCH from the last to the first. */
  private static final class Disordered extends Passing {
    Disordered(NodeIndex index) {
      super(index);
    }

    @Override
    public boolean call(Session session, NodeCall call) {
      return call instanceof NodeCall.Lease lease
          ? lease(session, lease, leased -> lease.answer().accept(leased.reversed()))
          : index.call(session, call);
    }
  }

  /** Ends the lease of each expected block when it is whole, and not when its bytes have left. */
  private static final class EarlyUnfollow extends Passing {
    EarlyUnfollow(NodeIndex index) {
      super(index);
    }

    @Override
    public boolean call(Session session, NodeCall call) {
      if (!(call instanceof NodeCall.Follow follow)) {
        return index.call(session, call);
      }
      NodeCall.Follow[] made = new NodeCall.Follow[1];
      made[0] =
          new NodeCall.Follow(
              follow.block(),
              follow.blockBytes(),
              follow.withinNs(),
              told -> {
                follow.told().accept(told);
                if (told instanceof NodeCall.Followed.Whole) {
                  boolean ignored =
                      index.call(session, new NodeCall.Unfollow(made[0], false, () -> {}));
                }
              });
      return index.call(session, made[0]);
    }
  }

  /** Commits each pushed block before its bytes have come, or gives its slot back. */
  private static final class EarlyEnd extends Passing {
    private final boolean commits;

    EarlyEnd(NodeIndex index, boolean commits) {
      super(index);
      this.commits = commits;
    }

    @Override
    public boolean call(Session session, NodeCall call) {
      return call instanceof NodeCall.Reserve reserve
          ? index.call(
              session,
              new NodeCall.Reserve(
                  reserve.block(),
                  reserved -> {
                    if (reserved instanceof NodeCall.Reserved.Go go) {
                      boolean ignored = index.call(session, end(go, reserve.block().blockBytes()));
                    }
                    reserve.answer().accept(reserved);
                  }))
          : index.call(session, call);
    }

    private NodeCall end(NodeCall.Reserved.Go go, int bytes) {
      return commits
          ? new NodeCall.Commit(
              go.reservation(),
              Checksums.of(index.slab(go.slab()).asSlice(go.offset(), bytes)),
              _ -> {})
          : new NodeCall.Abort(go.reservation(), false);
    }
  }

  /** Remembers where blocks were leased, and does not look again. */
  private static final class Trusting extends Passing {
    private final IndexHarness harness;
    private final Map<Long, NodeCall.Leased.Here> remembered = new HashMap<>();

    Trusting(NodeIndex index, IndexHarness harness) {
      super(index);
      this.harness = harness;
    }

    @Override
    public boolean call(Session session, NodeCall call) {
      return call instanceof NodeCall.Lease lease
          ? lease(session, lease, leased -> answer(lease, leased))
          : index.call(session, call);
    }

    private void answer(NodeCall.Lease lease, List<NodeCall.Leased> leased) {
      List<NodeCall.Leased> believed = new ArrayList<>();
      for (int i = 0; i < leased.size(); i++) {
        believed.add(believed(key(lease.blocks(), i), leased.get(i)));
      }
      lease.answer().accept(believed);
    }

    private NodeCall.Leased believed(long key, NodeCall.Leased leased) {
      if (leased instanceof NodeCall.Leased.Here here) {
        remembered.put(key, here);
      }
      NodeCall.Leased.Here before = remembered.get(key);
      if (before == null || !(leased instanceof NodeCall.Leased.Absent)) {
        return leased;
      }
      MemorySegment slot = harness.slabs().asSlice(before.offset(), before.length());
      return new NodeCall.Leased.Here(
          before.lease(), before.slab(), before.offset(), before.length(), Checksums.of(slot));
    }
  }
}
