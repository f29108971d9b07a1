package io.kvtier.daemon.grpc;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.access.VerbRoles;
import io.kvtier.daemon.loop.EventLoops;
import io.vertx.core.Future;
import io.vertx.core.VerticleBase;
import io.vertx.core.http.HttpConnection;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.grpc.common.GrpcStatus;
import java.io.IOException;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
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

  /** Maximum characters of a path in a message: a path can have kilobytes. */
  private static final int PATH_CHARS_MAX = 100;

  private final GrpcFront.Shared shared;
  private final HttpServerOptions options;
  private final FrontPeers peers;
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
    this.peers =
        new FrontPeers(
            shared, this::isIdle, this::closed, task -> context.runOnContext(v -> task.run()));
    this.tenants = new TenantFront[shared.daemon().access().tenants().count()];
  }

  @Override
  public Future<?> start() throws IOException {
    // A tenant's front opens when the tenant's first caller comes.
    tenants[Grant.NO_TENANT] = newTenant(Grant.NO_TENANT);
    HttpServer http =
        vertx
            .createHttpServer(options)
            .connectionHandler(peers::connected)
            .requestHandler(this::arrived);
    server = http;
    vertx.setPeriodic(TIME_CHECK_MS, timer -> checkTime());
    vertx.setPeriodic(PEER_CHECK_MS, timer -> peers.checkUse());
    return http.listen();
  }

  private TenantFront newTenant(int tenant) throws IOException {
    GrpcFront.Environment daemon = shared.daemon();
    Call.Environment environment =
        new Call.Environment(
            new IndexGateway(
                daemon.index().agent(),
                daemon.index().bell(),
                daemon.index().processor(),
                daemon.reporting().requests(),
                daemon.index().slabs().slabs(),
                tenant,
                context),
            daemon.reporting().requests(),
            shared.namespaces(tenant),
            daemon.index().slabs()::mapping,
            daemon.index().finder(),
            task -> EventLoops.run(context, task),
            shared.chunkBytes(),
            daemon.stallNs(),
            new CallsOf(tenant));
    return new TenantFront(
        environment,
        new KvtierService(daemon.version(), daemon.counters(), environment),
        shared.open().states(),
        namespace -> shared.forget(tenant, namespace));
  }

  /** What happens to the calls of a tenant. */
  private final class CallsOf implements Call.Watch {
    private final int tenant;

    CallsOf(int tenant) {
      this.tenant = tenant;
    }

    @Override
    public void heard(Call<?> call) {
      FrontLoop.this.heard(call);
    }

    @Override
    public void ended(Call<?> call) {
      FrontLoop.this.ended(call);
    }

    @Override
    public void held(Call<?> call) {
      FrontLoop.this.held(tenant, call);
    }
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
    FrontPeer peer = peers.of(request.connection());
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
    Grant grant = shared.daemon().access().callers().of(request.getHeader("authorization"));
    if (grant == null) {
      refuse(
          peer, stream, GrpcStatus.UNAUTHENTICATED, shared.daemon().access().callers().refusal());
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
      FrontPeer peer,
      GrpcStream stream,
      Grant grant,
      TenantFront front,
      TenantFront.Method method) {
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
  private void refuse(FrontPeer peer, GrpcStream stream, GrpcStatus status, String why) {
    shared.daemon().counters().countRefusal();
    answer(peer, stream, status, why, shared.messageBytesMax());
  }

  private void answer(
      FrontPeer peer, GrpcStream stream, GrpcStatus status, String why, long bytesMax) {
    shared
        .daemon()
        .reporting()
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
    peers.boundHeld(peer, stream.connection());
  }

  /** Begins a call that needs no token. The call waits for its client's end like a refused call. */
  private void begin(FrontPeer peer, OpenCall call, GrpcStream stream) {
    HeldAnswers.Held held = peer.held.add(peer.tenant, call::breakOff, System.nanoTime());
    if (held == null) {
      stream.reset();
      return;
    }
    call.start(held::over);
    if (stream.isEnded()) {
      call.onHalfClose();
    } else {
      peers.boundHeld(peer, stream.connection());
    }
  }

  /** A call is over, and its answer waits for its client's end. */
  private void held(int tenant, Call<?> call) {
    FrontPeer peer = peers.of(call.httpConnection());
    if (peer != null) {
      HeldAnswers.Held held = peer.held.add(tenant, call::dropAnswer, System.nanoTime());
      if (held == null) {
        call.dropAnswer();
      } else {
        call.whenAnswered(held::over);
      }
    }
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
    FrontPeer peer = peers.of(call.httpConnection());
    if (peer != null && !peer.isProven) {
      peers.keep(peer, call.httpConnection());
    }
  }

  private void ended(Call<?> call) {
    CallPlaces.Place place = calls.remove(call);
    if (place != null) {
      place.end();
      FrontPeer peer = peers.of(call.httpConnection());
      if (peer != null) {
        peer.calls--;
      }
      if (call.holdsAfterEnd()) {
        lingering.add(call);
      }
    }
  }

  private void checkTime() {
    long now = System.nanoTime();
    if (!calls.isEmpty()) {
      for (Call<?> call : calls.keySet().toArray(Call<?>[]::new)) {
        call.checkTime(now);
      }
    }
    peers.checkHeld(now, shared.daemon().stallNs());
    if (!lingering.isEmpty()) {
      lingering.removeIf(call -> !call.holdsAfterEnd());
      for (Call<?> call : lingering.toArray(Call<?>[]::new)) {
        call.tick(now);
      }
    }
  }

  private boolean isIdle(HttpConnection connection) {
    for (TenantFront front : tenants) {
      if (front != null && !front.isIdle(connection)) {
        return false;
      }
    }
    return true;
  }

  private void closed(HttpConnection connection) {
    for (TenantFront front : tenants) {
      if (front != null) {
        front.closed(connection);
      }
    }
  }
}
