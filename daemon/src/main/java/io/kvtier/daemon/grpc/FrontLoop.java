package io.kvtier.daemon.grpc;

import io.kvtier.daemon.access.ConnectionTable;
import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.access.PipelinedRequests;
import io.kvtier.daemon.access.ReadSizes;
import io.kvtier.daemon.access.VerbRoles;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.WriteBufferWaterMark;
import io.netty.handler.codec.ByteToMessageDecoder;
import io.netty.handler.codec.http2.Http2ConnectionHandler;
import io.netty.handler.timeout.IdleStateHandler;
import io.vertx.core.Future;
import io.vertx.core.VerticleBase;
import io.vertx.core.http.HttpConnection;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.impl.HttpServerConnection;
import io.vertx.grpc.common.GrpcStatus;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One event loop of the server: its connections, their calls, and for each tenant a session with
 * the index. It accepts a call, or refuses the call before it reads any of its bytes. Confined to
 * the loop; {@link GrpcFront.Shared} is the state that all loops share.
 */
final class FrontLoop extends VerticleBase {
  private static final Logger LOG = LoggerFactory.getLogger(FrontLoop.class);
  private static final long TIME_CHECK_MS = 100;
  private static final long PEER_CHECK_MS = 1000;

  /** Maximum refusals that wait for their clients' end on a connection without an accepted call. */
  private static final int HELD_UNKNOWN_MAX = 16;

  /** Maximum connections of this kind on an event loop: each stream takes about 30 KiB. */
  private static final int HOLDING_UNKNOWN_MAX = 32;

  /** Time after a call in which its connection counts as new: enough for message and answer. */
  private static final long NEW_NS = 100_000_000;

  /** Streams added to the count of a connection on which no call has had a message. */
  private static final int UNPROVEN_EXTRA = 16;

  /** Time from the announcement of a connection's end to the end: enough for an open call. */
  private static final long ANNOUNCED_NS = 1_000_000_000;

  /** The error code of a GOAWAY frame that ends a connection in good order. */
  private static final long NO_ERROR = 0;

  private static final int WRITE_BYTES_MAX = 512 << 10;

  /** Maximum characters of a path in a message: a path can have kilobytes. */
  private static final int PATH_CHARS_MAX = 100;

  /** A connection, and the time of its last use. */
  private static final class Peer {
    final String address;
    final HeldAnswers held;
    final PeerStreams streams;
    long usedNs = System.nanoTime();

    /** Calls on it that are under way. */
    int calls;

    /** The tenant of the last accepted call; {@link HeldAnswers#NOBODY} if there was none. */
    int tenant = HeldAnswers.NOBODY;

    Peer(String address, PeerStreams streams, CallLimits limits) {
      this.address = address;
      this.streams = streams;
      this.held = new HeldAnswers(limits);
    }

    /** Whether a call on it has had its message. */
    boolean isProven;

    /** Whether the connection is being closed; bytes that have arrived before are still read. */
    boolean isCut;

    /** Whether a GOAWAY frame has announced its end, at {@link #usedNs}. */
    boolean isEndAnnounced;

    /**
     * Streams that no call needs. A connection without a message counts with {@link
     * #UNPROVEN_EXTRA} more, so that it goes before others, except those with many answers that
     * their peers do not take.
     */
    int uselessStreams() {
      int count = streams.count();
      if (isProven) {
        return count - calls;
      }
      return count == 0 ? 0 : count + UNPROVEN_EXTRA;
    }

    boolean hasCalled() {
      return tenant != HeldAnswers.NOBODY;
    }
  }

  private final GrpcFront.Shared shared;
  private final HttpServerOptions options;
  private final Map<HttpConnection, Peer> peers = new HashMap<>();

  /**
   * Connections without an accepted call on which refusals wait, or waited, for their clients' end;
   * oldest first.
   */
  private final Set<HttpConnection> holdingUnknown = new LinkedHashSet<>();

  private final PeerStreams.Total streams;
  private final @Nullable TenantFront[] tenants;

  /** The calls under way, each with its place. */
  private final IdentityHashMap<Call<?>, CallPlaces.Place> calls = new IdentityHashMap<>();

  private final HeadSpace headSpace = new HeadSpace();

  /** Calls that are over and whose last bytes are not yet written. */
  private final List<Call<?>> lingering = new ArrayList<>();

  private @Nullable HttpServer server;

  FrontLoop(GrpcFront.Shared shared, HttpServerOptions options) {
    this.shared = shared;
    this.options = options;
    this.streams = new PeerStreams.Total(shared.streamsOfLoopMax(), this::cutOneWithManyStreams);
    this.tenants = new TenantFront[shared.daemon().tenants().count()];
  }

  @Override
  public Future<?> start() throws IOException {
    // A tenant's front opens when the tenant's first caller comes.
    tenants[Grant.NO_TENANT] = newTenant(Grant.NO_TENANT);
    HttpServer http =
        vertx
            .createHttpServer(options)
            .connectionHandler(this::connected)
            .requestHandler(this::arrived);
    server = http;
    vertx.setPeriodic(TIME_CHECK_MS, timer -> checkTime());
    vertx.setPeriodic(PEER_CHECK_MS, timer -> checkPeers());
    return http.listen();
  }

  private TenantFront newTenant(int tenant) throws IOException {
    GrpcFront.Environment daemon = shared.daemon();
    Call.Environment environment =
        new Call.Environment(
            new IndexGateway(
                daemon.index(),
                daemon.indexBell(),
                daemon.requests(),
                daemon.slabs().slabs(),
                tenant,
                context),
            daemon.requests(),
            shared.namespaces(tenant),
            daemon.slabs()::mapping,
            shared.chunkBytes(),
            daemon.stallNs(),
            this::heard,
            this::ended,
            call -> held(tenant, call));
    return new TenantFront(
        environment,
        new KvtierService(daemon.version(), daemon.counters(), environment),
        shared.open().states(),
        namespace -> shared.forget(tenant, namespace));
  }

  /** The port on which the loop listens. */
  int port() {
    HttpServer listening = server;
    return listening == null ? 0 : listening.actualPort();
  }

  /** Forgets a namespace that nobody uses; from any thread. */
  void forget(int tenant, Namespaces.Namespace namespace) {
    context.runOnContext(v -> {
      TenantFront front = tenants[tenant];
      if (front != null) {
        front.forget(namespace);
      }
    });
  }

  /** Gives everything back to the index, which must still run; the event loop must not. */
  void close() {
    for (TenantFront front : tenants) {
      if (front != null) {
        front.close();
      }
    }
  }

  // ---- calls and connections
  // ------------------------------------------------------------------------------------

  private void arrived(HttpServerRequest request) {
    if (!GrpcStream.isCall(request)) {
      return;
    }
    GrpcStream stream = new GrpcStream(request, shared.messageBytesMax(), headSpace);
    Peer peer = peers.get(request.connection());
    if (peer == null || peer.isCut) {
      stream.refuseUnread(); // its connection is being ended
      return;
    }
    if (!shared.peers().mayCall(peer.address)) {
      refuse(
          peer,
          stream,
          GrpcStatus.RESOURCE_EXHAUSTED,
          "too many calls a second (grpc.calls_per_second)");
      return;
    }
    OpenMethods.Method open = shared.open().method(request.path());
    if (open != null) {
      begin(peer, new OpenCall(stream, open), stream);
      return;
    }
    Grant grant = shared.daemon().callers().of(request.getHeader("authorization"));
    if (grant == null) {
      refuse(peer, stream, GrpcStatus.UNAUTHENTICATED, shared.daemon().callers().refusal());
      return;
    }
    // Set only here: a connection without an accepted caller counts as unused.
    peer.usedNs = System.nanoTime();
    if (!peer.hasCalled()) {
      peer.held.belongTo(grant.tenant());
    }
    peer.tenant = grant.tenant();
    TenantFront front = frontOf(grant.tenant());
    TenantFront.Method method = front == null ? null : front.method(request.path());
    if (front == null) {
      refuse(
          peer,
          stream,
          GrpcStatus.UNAVAILABLE,
          "the index takes no session for this tenant: try again");
    } else if (method == null) {
      answer(
          peer,
          stream,
          GrpcStatus.UNIMPLEMENTED,
          "no method " + shortened(request.path()),
          shared.messageBytesMax());
    } else if (!VerbRoles.mayCall(grant.role(), method.verb())) {
      refuse(
          peer,
          stream,
          GrpcStatus.PERMISSION_DENIED,
          VerbRoles.refusal(shortened(request.path()), grant.role(), method.verb()));
    } else {
      begin(peer, stream, grant, front, method);
    }
  }

  private static String shortened(String path) {
    return path.length() > PATH_CHARS_MAX ? path.substring(0, PATH_CHARS_MAX) + "..." : path;
  }

  private void begin(
      Peer peer, GrpcStream stream, Grant grant, TenantFront front, TenantFront.Method method) {
    CallPlaces.Place place =
        shared
            .places()
            .begin(grant.tenant(), method.carriesBytes(), peer.isProven, peer.streams.count() <= 1);
    if (place == null) {
      shared.daemon().counters().countRefusal();
      answer(
          peer,
          stream,
          GrpcStatus.RESOURCE_EXHAUSTED,
          "too many calls at once: try again",
          GrpcStream.ANY_BYTES);
      return;
    }
    if (!method.carriesBytes()) {
      stream.limitMessages(GrpcFront.MESSAGE_OVERHEAD_BYTES);
    }
    Call<?> call = front.begin(method, stream, grant.role());
    calls.put(call, place);
    peer.calls++;
    place.whenTaken(() ->
        context.runOnContext(v ->
            call.fail(
                GrpcStatus.RESOURCE_EXHAUSTED, "too many calls at once, and no message in this")));
    call.start();
  }

  /** Refuses a call, and counts the refusal. */
  private void refuse(Peer peer, GrpcStream stream, GrpcStatus status, String why) {
    shared.daemon().counters().countRefusal();
    answer(peer, stream, status, why, shared.messageBytesMax());
  }

  private void answer(Peer peer, GrpcStream stream, GrpcStatus status, String why, long bytesMax) {
    shared
        .daemon()
        .requests()
        .refusedOutside(stream.traceContext(), false, status.name() + ": " + why);
    if (stream.isEnded()) {
      stream.end(status, why);
      return;
    }
    HeldAnswers.Held held = peer.held.add(peer.tenant, stream::resetUnlessOver, System.nanoTime());
    if (held == null) {
      stream.reset();
      return;
    }
    stream.refuse(status, why, bytesMax, held::over);
    boundHeld(peer, stream);
  }

  /** Begins a call that needs no token. The call waits for its client's end like a refused call. */
  private void begin(Peer peer, OpenCall call, GrpcStream stream) {
    HeldAnswers.Held held = peer.held.add(peer.tenant, call::breakOff, System.nanoTime());
    if (held == null) {
      stream.reset();
      return;
    }
    call.start(held::over);
    if (stream.isEnded()) {
      call.onHalfClose();
    } else {
      boundHeld(peer, stream);
    }
  }

  /** Bounds the answers that wait on a connection without an accepted call. */
  private void boundHeld(Peer peer, GrpcStream stream) {
    if (peer.hasCalled()) {
      return;
    }
    if (peer.held.count() >= HELD_UNKNOWN_MAX) {
      giveUp(stream.connection());
    } else if (holdingUnknown.add(stream.connection())
        && holdingUnknown.size() > HOLDING_UNKNOWN_MAX) {
      cutOneHoldingUnknown();
    }
  }

  private void cutOneHoldingUnknown() {
    holdingUnknown.removeIf(each -> {
      Peer peer = peers.get(each);
      return peer == null || peer.hasCalled() || peer.held.count() == 0;
    });
    if (holdingUnknown.size() > HOLDING_UNKNOWN_MAX) {
      Iterator<HttpConnection> all = holdingUnknown.iterator();
      HttpConnection oldest = all.next();
      all.remove();
      giveUp(oldest);
    }
  }

  /** A call is over, and its answer waits for its client's end. */
  private void held(int tenant, Call<?> call) {
    Peer peer = peers.get(call.httpConnection());
    if (peer != null) {
      HeldAnswers.Held held = peer.held.add(tenant, call::dropAnswer, System.nanoTime());
      if (held == null) {
        call.dropAnswer();
      } else {
        call.whenAnswered(held::over);
      }
    }
  }

  /** Keeps a connection on which a call has had its message: no new connection takes its place. */
  private void keep(HttpConnection connection) {
    Channel channel = ((HttpServerConnection) connection).channelHandlerContext().channel();
    shared.connections().keep(channel);
    tune(channel);
  }

  private @Nullable TenantFront frontOf(int tenant) {
    TenantFront front = tenants[tenant];
    if (front == null) {
      try {
        front = newTenant(tenant);
        tenants[tenant] = front;
      } catch (IOException e) {
        LOG.error("no session for the remote callers of a tenant: {}", e.getMessage());
      }
    }
    return front;
  }

  private void heard(Call<?> call) {
    CallPlaces.Place place = calls.get(call);
    if (place != null) {
      place.heard();
    }
    Peer peer = peers.get(call.httpConnection());
    if (peer != null && !peer.isProven) {
      peer.isProven = true;
      peer.streams.prove();
      keep(call.httpConnection());
    }
  }

  private void ended(Call<?> call) {
    CallPlaces.Place place = calls.remove(call);
    if (place != null) {
      place.end();
      Peer peer = peers.get(call.httpConnection());
      if (peer != null) {
        peer.calls--;
      }
      if (call.holdsAfterEnd()) {
        lingering.add(call);
      }
    }
  }

  private void connected(HttpConnection connection) {
    ChannelHandlerContext served = ((HttpServerConnection) connection).channelHandlerContext();
    // The handler closes connections that send nothing. From now on this loop closes idle
    // connections.
    if (served.pipeline().get(IdleStateHandler.class) != null) {
      served.pipeline().remove(IdleStateHandler.class);
    }
    if (!(served.handler() instanceof Http2ConnectionHandler handler)) {
      // The client speaks HTTP/1.1. One answer says that this server does not.
      served
          .pipeline()
          .addBefore(
              served.name(), null, new PipelinedRequests(shared.daemon().counters()::countRefusal));
      return;
    }
    served.pipeline().addBefore(served.name(), null, new StreamFailures());
    String address = connection.remoteAddress().hostAddress();
    Peer peer =
        new Peer(address == null ? "" : address, PeerStreams.of(handler, streams), shared.calls());
    handler.setCumulator(ByteToMessageDecoder.COMPOSITE_CUMULATOR);
    // The peer's first settings have been applied before a handler could hear of them.
    PeerStreams.boundHeaderTable(handler);
    connection.remoteSettingsHandler(settings -> PeerStreams.boundHeaderTable(handler));
    peers.put(connection, peer);
    connection.closeHandler(v -> {
      peers.remove(connection);
      peer.streams.end();
      peer.held.close();
      holdingUnknown.remove(connection);
      for (TenantFront front : tenants) {
        if (front != null) {
          front.closed(connection);
        }
      }
    });
  }

  /**
   * Closes a connection after its streams. Streams of a closed connection would stay in memory
   * until the loop has read all bytes of thousands of other connections.
   */
  private void giveUp(HttpConnection connection) {
    Peer peer = peers.get(connection);
    if (peer != null && !peer.isCut) {
      peer.isCut = true;
      peer.streams.leave();
      peer.held.breakOffAll();
      context.runOnContext(v -> cut(connection));
    }
  }

  /**
   * Closes the connection with the most streams that no call needs, to make space. A new connection
   * with a few streams is spared while there is another candidate, so that it gets its answers.
   */
  private void cutOneWithManyStreams() {
    long now = System.nanoTime();
    HttpConnection found = null;
    boolean isFoundNew = true;
    int most = 0;
    for (Map.Entry<HttpConnection, Peer> each : peers.entrySet()) {
      Peer peer = each.getValue();
      int useless = peer.isCut ? 0 : peer.uselessStreams();
      if (useless == 0) {
        continue;
      }
      boolean isNew = now - peer.usedNs < NEW_NS && peer.streams.count() <= PeerStreams.FEW;
      if (isNew == isFoundNew ? useless > most : isFoundNew) {
        most = useless;
        isFoundNew = isNew;
        found = each.getKey();
      }
    }
    if (found != null) {
      shared.daemon().counters().countRefusal();
      giveUp(found);
    }
  }

  /** Closes a connection at once: the peer could delay an end in good order. */
  private static void cut(HttpConnection connection) {
    ConnectionTable.cut(((HttpServerConnection) connection).channelHandlerContext().channel());
  }

  /** Enlarges a connection's reads and writes, once a call on it has had its message. */
  private static void tune(Channel channel) {
    ReadSizes.enlarge(channel);
    channel
        .config()
        .setWriteBufferWaterMark(new WriteBufferWaterMark(WRITE_BYTES_MAX / 2, WRITE_BYTES_MAX));
  }

  private void checkTime() {
    long now = System.nanoTime();
    if (!calls.isEmpty()) {
      for (Call<?> call : calls.keySet().toArray(Call<?>[]::new)) {
        call.checkTime(now);
      }
    }
    long waitNsMax = shared.daemon().stallNs();
    // A call that is broken off can end its connection, so this iterates over a copy.
    peers.values().stream()
        .map(peer -> peer.held)
        .filter(held -> held.count() > 0)
        .toList()
        .forEach(held -> held.checkTime(now, waitNsMax));
    if (!lingering.isEmpty()) {
      lingering.removeIf(call -> !call.holdsAfterEnd());
      for (Call<?> call : lingering.toArray(Call<?>[]::new)) {
        call.tick(now);
      }
    }
  }

  /**
   * Ends connections that never called, or have been without a call for too long. A GOAWAY frame
   * goes before the end: it has clients connect again without a failed call.
   */
  private void checkPeers() {
    long now = System.nanoTime();
    List<HttpConnection> late = new ArrayList<>();
    peers.forEach((connection, peer) -> {
      if (peer.isEndAnnounced) {
        if (now - peer.usedNs > ANNOUNCED_NS) {
          late.add(connection);
        }
      } else if (!isIdle(connection)) {
        peer.usedNs = now;
      } else if (shared.peers().isOver(peer.hasCalled(), now - peer.usedNs)) {
        peer.isEndAnnounced = true;
        peer.usedNs = now;
        connection.goAway(NO_ERROR);
      }
    });
    late.forEach(FrontLoop::cut);
    shared.peers().sweep();
  }

  private boolean isIdle(HttpConnection connection) {
    for (TenantFront front : tenants) {
      if (front != null && !front.isIdle(connection)) {
        return false;
      }
    }
    return true;
  }
}
