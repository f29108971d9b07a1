package io.kvtier.daemon.node;

import io.kvtier.daemon.access.Callers;
import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.access.ServerTls;
import io.kvtier.daemon.config.KvtierdConfig.MembersConfig;
import io.kvtier.daemon.config.KvtierdConfig.NodeDirectoryUse;
import io.kvtier.daemon.config.KvtierdConfig.NodeSecurity;
import io.kvtier.daemon.config.KvtierdConfig.NodesConfig;
import io.kvtier.daemon.index.IndexAgent;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.daemon.index.session.ServedBlock;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.ExpectedBlocks;
import io.kvtier.daemon.index.source.OuterBlocks;
import io.kvtier.daemon.member.JGroupsMembership;
import io.kvtier.daemon.member.Member;
import io.kvtier.daemon.member.Membership;
import io.kvtier.daemon.member.StaticMembership;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.HostName;
import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.host.SlabStore;
import io.kvtier.tiers.node.BlockBytes;
import io.kvtier.tiers.node.Fabric;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeHints;
import io.kvtier.tiers.node.NodePeer;
import io.kvtier.tiers.node.NodeReader;
import io.kvtier.tiers.node.NodeTier;
import io.kvtier.tiers.node.TcpTransport;
import io.kvtier.tiers.node.ucx.UcxFabric;
import io.kvtier.tiers.transfer.TroubleLog;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Other nodes: makes and connects the parts for both directions, and takes them apart. */
public final class Nodes implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Nodes.class);

  private final NodesConfig config;
  private final Callers callers;
  private final Counters counters;
  private final RoundBell roundBell;
  private final String name;
  private final SecureRandom random = new SecureRandom();
  private final long incarnation = random.nextLong() | 1;
  private final TroubleLog troubles = new TroubleLog(LoggerFactory.getLogger(Nodes.class), "nodes");
  private final @Nullable ChangeFeed feed;
  private final List<NodeLoop> loops = new ArrayList<>();
  private final List<NodeServer> servers = new ArrayList<>();
  private final NodeTier tier;
  private final @Nullable NodeAcceptor acceptor;
  private final Membership membership;
  private final @Nullable NodeDirectory directory;
  private @Nullable FindCommand find;
  private volatile @Nullable HandOver handOver;
  private final Map<NodeAddress, Member> members = new ConcurrentHashMap<>();

  /**
   * Listens and connects to nobody yet.
   *
   * @param config with something to do
   * @param tls the certificate of this node; null if there is none
   * @param callers finds out what a token lets its owner do
   * @param bell wakes the index
   * @param defect told of what should never happen
   * @throws IOException naming the key to change
   */
  public Nodes(
      NodesConfig config,
      @Nullable ServerTls tls,
      Callers callers,
      Counters counters,
      Runnable bell,
      Consumer<Throwable> defect)
      throws IOException {
    this.config = config;
    this.callers = callers;
    this.counters = counters;
    roundBell = new RoundBell(bell, System::nanoTime);
    name = nameOf(config);
    Supplier<SSLContext> context = context(config, tls);
    Path tokenFile = config.tokenFile();
    if (tokenFile != null) {
      var _ = token(tokenFile);
    }
    if (context == null) {
      LOG.warn(
          "nodes.security is plaintext_without_tokens: everybody who can reach {} reads all blocks,"
              + " and everybody on the way can change them",
          config.listen() == null ? "another node" : config.listen());
    }
    if (config.ucxLibrary() != null) {
      LOG.warn(
          "nodes.transport is ucx: the bytes of blocks are not encrypted, and everybody who can reach"
              + " the ports of UCX can harm this process");
    }
    List<TcpTransport> transports = new ArrayList<>();
    for (int i = 0; i < config.threads(); i++) {
      transports.add(
          new TcpTransport(
              context, config.certificateName(), config.sendBufferBytes(), fabric(config)));
    }
    tier =
        new NodeTier(
            transports,
            new NodeReader.Options(
                name,
                incarnation,
                this::tokenNow,
                Printable::linesOf,
                config.askNs(),
                config.fetchNs()),
            new NodeHints(),
            random::nextLong,
            roundBell,
            troubles);
    directory =
        config.directory() == NodeDirectoryUse.OFF
            ? null
            : new NodeDirectory(incarnation, config.listen() != null, config.directoryBytes());
    feed = directory == null ? null : new ChangeFeed(bell);
    if (directory != null && feed != null) {
      tier.use(directory, feed, config.directory() == NodeDirectoryUse.ON);
    }
    for (int i = 0; i < transports.size(); i++) {
      loops.add(new NodeLoop(i, transports.get(i), tier.readers().get(i), roundBell, defect));
    }
    try {
      acceptor = config.listen() == null ? null : new NodeAcceptor(config.listen());
    } catch (IOException e) {
      loops.forEach(NodeLoop::close);
      if (directory != null) {
        directory.close();
      }
      throw e;
    }
    membership = membership(context, defect);
  }

  private static @Nullable Supplier<SSLContext> context(NodesConfig config, @Nullable ServerTls tls)
      throws IOException {
    Path ca = config.ca();
    if (config.security() == NodeSecurity.PLAINTEXT_WITHOUT_TOKENS || tls == null || ca == null) {
      return null;
    }
    SSLContext context = tls.ofNodes(ca);
    return () -> context;
  }

  private static @Nullable Fabric fabric(NodesConfig config) throws IOException {
    String library = config.ucxLibrary();
    if (library == null) {
      return null;
    }
    try {
      return new UcxFabric(library, Map.of());
    } catch (IOException e) {
      throw new IOException(
          "nodes.transport is ucx, and UCX does not start: "
              + e.getMessage()
              + "; correct nodes.ucx_library, or set nodes.transport to tcp",
          e);
    }
  }

  /** The name of this node. */
  private static String nameOf(NodesConfig config) {
    return config.name().isEmpty() ? hostName() : config.name();
  }

  /** The name by which other nodes know this one; empty if it serves no other nodes. */
  public static String servedName(NodesConfig config) {
    return config.listen() == null ? "" : nameOf(config);
  }

  private Membership membership(
      @Nullable Supplier<SSLContext> context, Consumer<Throwable> defect) {
    MembersConfig members = config.members();
    return members == null
        ? new StaticMembership(config.peers())
        : new JGroupsMembership(
            new JGroupsMembership.Options(
                new Member(members.advertised(), name, incarnation),
                members.listen(),
                members.cluster(),
                members.discovery(),
                context,
                counters::countNodeRefusal,
                defect));
  }

  private static String hostName() {
    try {
      return HostName.read();
    } catch (IOException e) {
      return "unnamed";
    }
  }

  private static String token(Path file) throws IOException {
    try {
      return Files.readString(file).strip();
    } catch (IOException e) {
      throw new IOException("nodes.token_file '" + file + "' can't be read: " + e, e);
    }
  }

  private String tokenNow() {
    Path file = config.tokenFile();
    if (file == null) {
      return "";
    }
    try {
      return token(file);
    } catch (IOException e) {
      troubles.tell("this node has no token to show", String.valueOf(e.getMessage()));
      return "";
    }
  }

  private @Nullable Grant grantOf(String token) {
    return config.security() == NodeSecurity.TLS_AND_TOKENS
        ? callers.of("Bearer " + token)
        : new Grant("any node", config.tokenlessRole(), Grant.NO_TENANT);
  }

  /** The sources of other nodes' blocks, for the index; none if there are no other nodes. */
  public List<BlockSource.Opener> openers() {
    return !config.readsOthers()
        ? List.of()
        : List.of(OuterBlocks.opener(tier, roundBell), ExpectedBlocks.opener(tier));
  }

  /**
   * Finds nodes for routers; called once, before the first command. The daemon alone, without other
   * nodes, has a finder as well.
   *
   * @param nodes null if there are no other nodes
   */
  public static NodeFinder finder(
      NodesConfig config, @Nullable Nodes nodes, IndexAgent index, Runnable bell) {
    String listen = config.listen() == null ? "" : config.listen().toString();
    NodeFinder finder =
        new NodeFinder(nameOf(config), listen, nodes == null ? null : nodes.tier, index, bell);
    if (nodes != null) {
      nodes.find = new FindCommand(finder, System::nanoTime);
    }
    return finder;
  }

  /**
   * The figures of other nodes, as {@code kvtier nodes --json} shows them; from any thread.
   *
   * @param nodes null if there are no other nodes
   */
  public static Supplier<JsonObject> figures(NodesConfig config, @Nullable Nodes nodes) {
    return nodes == null ? () -> json(nameOf(config), 0, config) : nodes::json;
  }

  /** Tells the directory, if there is one, of this node's blocks; before the index begins. */
  public void announce(IndexAgent index) {
    if (feed != null) {
      index.announceTo(feed);
    }
  }

  /**
   * Begins to read and to serve. This does not wait for other nodes.
   *
   * @param served told of blocks that traced requests of other nodes wanted; from any thread
   * @throws IOException naming the key to change
   */
  public void start(IndexAgent index, SlabStore slabs, Consumer<ServedBlock> served)
      throws IOException {
    NodeIndex sessions = new IndexSessions(index, roundBell, slabs.slabs(), slabs::mapping);
    AtomicInteger links = new AtomicInteger();
    NodeServer.Options options =
        new NodeServer.Options(
            name,
            incarnation,
            this::grantOf,
            counters::countNodeRefusal,
            directory,
            config.connections(),
            links,
            served);
    NodeLoop first = loops.getFirst();
    HandOver handing =
        new HandOver(tier, sessions, first.transport()::nowNs, first.transport()::wake);
    handOver = handing;
    index.whenDrainEnds(handing::cancel);
    for (NodeLoop loop : loops) {
      NodeServer server =
          acceptor == null ? null : new NodeServer(options, loop.transport(), sessions, troubles);
      if (server != null) {
        servers.add(server);
      }
      loop.start(server, loop.equals(first) ? handing : null);
    }
    if (acceptor != null) {
      acceptor.start(loops);
    }
    membership.start(
        new Membership.Listener() {
          @Override
          public void joined(Member member) {
            members.put(member.address(), member);
            tier.join(member.address());
            counters.setNodes(members.size());
          }

          @Override
          public void left(Member member) {
            members.remove(member.address());
            tier.leave(member.address());
            counters.setNodes(members.size());
            counters.countNodeLeft();
          }
        });
  }

  /** The port on which other nodes are served; 0 if none are. */
  public int port() throws IOException {
    return acceptor == null ? 0 : acceptor.port();
  }

  /**
   * The commands {@code nodes}: the nodes that this one reads from, and those that read here;
   * {@code nodes find}: how much of a sequence of blocks each has; {@code nodes drain MILLISECONDS
   * BYTES}: begins to hand blocks to other nodes, and {@code nodes drain status}: how far that is.
   *
   * @throws IllegalArgumentException saying what is wrong with the words
   */
  public OperatorAnswer run(List<String> words) {
    FindCommand finding = find;
    if (words.size() > 1 && words.get(1).equals("find") && finding != null) {
      return finding.run(words.subList(2, words.size()));
    }
    if (words.size() == 1) {
      return OperatorAnswer.done(json().encode());
    }
    HandOver handing = handOver;
    if (handing != null && words.get(1).equals("drain")) {
      if (words.size() == 3 && words.get(2).equals("status")) {
        return OperatorAnswer.done(HandOverJson.of(handing.progress()).encode());
      }
      if (words.size() == 4) {
        return drain(handing, number(words.get(2)), number(words.get(3)));
      }
    }
    throw new IllegalArgumentException(
        "expected 'nodes', 'nodes find NAME GROUP KEY...', 'nodes drain MILLISECONDS BYTES' or"
            + " 'nodes drain status'");
  }

  private static long number(String word) {
    try {
      long number = Long.parseLong(word);
      if (number > 0) {
        return number;
      }
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException("'" + word + "' is no number", e);
    }
    throw new IllegalArgumentException("'" + word + "' is not above 0");
  }

  private OperatorAnswer drain(HandOver handing, long limitMs, long bytesMax) {
    if (!tier.isOpen()) {
      return new OperatorAnswer(
          Status.MISS, "no other node is connected: kvtier nodes shows the reasons");
    }
    return handing.start(TimeUnit.MILLISECONDS.toNanos(limitMs), bytesMax)
        ? OperatorAnswer.done("blocks are handed to other nodes")
        : new OperatorAnswer(Status.BUSY, "blocks are being handed to other nodes already");
  }

  private JsonObject json() {
    JsonArray peers = new JsonArray();
    for (NodePeer peer : tier.peers()) {
      Member member = members.get(peer.address());
      boolean isMet = !peer.name().isEmpty();
      peers.add(
          new JsonObject()
              .put("address", peer.address().toString())
              .put("name", isMet || member == null ? peer.name() : Printable.of(member.name()))
              .put("state", peer.state().name().toLowerCase(Locale.ROOT))
              .put("why", peer.why())
              .put("incarnation", Long.toHexString(peer.incarnation()))
              .put("transport", peer.usesFabric() ? "ucx" : "tcp")
              .put("round_trip_ns", peer.roundTripNs())
              .put("blocks", peer.blocks())
              .put("bytes", peer.bytes())
              .put("pushed_blocks", peer.pushedBlocks())
              .put("pushed_bytes", peer.pushedBytes())
              .put("errors", peer.errors())
              .put("bytes_per_second", bytesPerSecond(peer))
              .put("hedges", peer.hedges())
              .put("hedges_won", peer.hedgesWon())
              .put("stale_frames", peer.stale()));
    }
    JsonArray readers = new JsonArray();
    for (NodeServer server : servers) {
      server.readers().forEach(readers::add);
    }
    return json(name, incarnation, config)
        .put("membership", membership.state())
        .put("directory", directoryJson())
        .put(
            "block_bytes",
            new JsonObject()
                .put("tcp", blockBytes(TcpTransport::onLinks))
                .put("ucx", blockBytes(TcpTransport::byFabric)))
        .put("peers", peers)
        .put("readers", readers);
  }

  /** The figures of a daemon that knows no other nodes. */
  private static JsonObject json(String name, long incarnation, NodesConfig config) {
    return new JsonObject()
        .put("name", name)
        .put("incarnation", Long.toHexString(incarnation))
        .put("listen", config.listen() == null ? "" : config.listen().toString())
        .put("security", config.security().name().toLowerCase(Locale.ROOT))
        .put("membership", "static")
        .putNull("directory")
        .put("block_bytes", new JsonObject())
        .put("peers", new JsonArray())
        .put("readers", new JsonArray());
  }

  /** This node's part of the directory; null if there is none now. */
  private @Nullable JsonObject directoryJson() {
    NodeDirectory present = directory;
    return present == null || !present.isOpen()
        ? null
        : new JsonObject()
            .put("nodes", present.nodes())
            .put("entries", present.size())
            .put("bytes", present.bytes())
            .put("displaced", present.displaced())
            .put("gaps", present.gaps());
  }

  /** The bytes of blocks that all loops have moved in one way. */
  private JsonObject blockBytes(Function<TcpTransport, BlockBytes> way) {
    List<BlockBytes> all = loops.stream().map(loop -> way.apply(loop.transport())).toList();
    return new JsonObject()
        .put("received", all.stream().mapToLong(BlockBytes::received).sum())
        .put("sent", all.stream().mapToLong(BlockBytes::sent).sum());
  }

  /** The measured speed of a node; 0 before the first measurement. */
  private static long bytesPerSecond(NodePeer peer) {
    return peer.speed().isMeasured() ? (long) (1e9 / peer.speed().nsPerByte()) : 0;
  }

  /** Ends all links; afterwards nothing touches the memory of slots. */
  @Override
  public void close() {
    membership.close();
    if (acceptor != null) {
      try {
        acceptor.close();
      } catch (IOException e) {
        LOG.warn("the port of nodes was not closed", e);
      }
    }
    loops.forEach(NodeLoop::close);
    if (directory != null) {
      directory.close();
    }
  }
}
