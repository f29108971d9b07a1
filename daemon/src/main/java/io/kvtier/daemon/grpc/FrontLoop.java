package io.kvtier.daemon.grpc;

import com.google.protobuf.MessageLite;
import com.google.protobuf.Parser;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.v1.BlocksResponse;
import io.kvtier.protocol.v1.CancelRequest;
import io.kvtier.protocol.v1.CountResponse;
import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.KvtierGrpcService;
import io.kvtier.protocol.v1.LookupResponse;
import io.kvtier.protocol.v1.NamespaceRequest;
import io.kvtier.protocol.v1.Outcome;
import io.kvtier.protocol.v1.OutcomeResponse;
import io.kvtier.protocol.v1.PingRequest;
import io.kvtier.protocol.v1.PingResponse;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.kvtier.protocol.v1.StatsRequest;
import io.kvtier.protocol.v1.StatsResponse;
import io.netty.channel.AdaptiveRecvByteBufAllocator;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.WriteBufferWaterMark;
import io.netty.handler.codec.ByteToMessageDecoder;
import io.vertx.core.Future;
import io.vertx.core.VerticleBase;
import io.vertx.core.http.HttpConnection;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.impl.HttpServerConnection;
import io.vertx.grpc.common.GrpcStatus;
import io.vertx.grpc.common.ServiceMethod;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * One event loop of the server: its connections, their calls, and a session of its own with the
 * index. All of it is confined to the loop; what the loops share is {@link GrpcFront.Shared}.
 */
final class FrontLoop extends VerticleBase {
  private static final long TIME_CHECK_MS = 100;
  private static final int READ_BYTES_MIN = 1 << 10;
  private static final int READ_BYTES_INITIAL = 8 << 10;
  private static final int READ_BYTES_MAX = 256 << 10;
  private static final int WRITE_BYTES_MAX = 512 << 10;

  /** Makes a call of a method. */
  private interface Method {
    Call<?> begin(RemoteConnection connection, GrpcStream stream);
  }

  private final GrpcFront.Shared shared;
  private final HttpServerOptions options;
  private final Map<String, Method> methods = new HashMap<>();
  private final Map<HttpConnection, RemoteConnection> connections = new HashMap<>();
  private final Set<Call<?>> calls = Collections.newSetFromMap(new IdentityHashMap<>());

  private final HeadSpace headSpace = new HeadSpace();

  /** Calls that are over, but not all of their bytes are written. */
  private final List<Call<?>> lingering = new ArrayList<>();

  private @Nullable IndexGateway gateway;
  private @Nullable HttpServer server;

  FrontLoop(GrpcFront.Shared shared, HttpServerOptions options) {
    this.shared = shared;
    this.options = options;
  }

  @Override
  public Future<?> start() throws IOException {
    GrpcFront.Environment daemon = shared.daemon();
    IndexGateway index =
        new IndexGateway(daemon.index(), daemon.indexBell(), daemon.slabs().slabs(), context);
    gateway = index;
    Call.Environment environment =
        new Call.Environment(
            index,
            shared.namespaces(),
            daemon.slabs()::mapping,
            shared.chunkBytes(),
            daemon.stallNs(),
            this::ended);
    addMethods(
        environment,
        new KvtierService(daemon.version(), daemon.counters(), environment, shared::forget));
    HttpServer http =
        vertx
            .createHttpServer(options)
            .connectionHandler(connection -> connected(index, connection))
            .requestHandler(request -> arrived(index, request));
    server = http;
    vertx.setPeriodic(TIME_CHECK_MS, timer -> checkTime());
    return http.listen();
  }

  /** The port that was had. */
  int port() {
    HttpServer listening = server;
    return listening == null ? 0 : listening.actualPort();
  }

  /** Forgets a namespace that nobody uses; from any thread. */
  void forget(int namespaceId) {
    context.runOnContext(v -> {
      IndexGateway index = gateway;
      if (index != null && shared.namespaces().isForgotten(namespaceId)) {
        index.forget(namespaceId);
      }
    });
  }

  /** Gives everything back to the index, which must still run; the event loop must not. */
  void close() {
    IndexGateway index = gateway;
    if (index != null) {
      index.close();
    }
  }

  // ---- methods
  // --------------------------------------------------------------------------------------------------

  private void addMethods(Call.Environment environment, KvtierService service) {
    unary(
        environment,
        KvtierGrpcService.Ping,
        PingRequest.parser(),
        outcome -> PingResponse.newBuilder().setOutcome(outcome).build(),
        service::ping);
    unary(
        environment,
        KvtierGrpcService.Register,
        RegisterRequest.parser(),
        outcome -> RegisterResponse.newBuilder().setOutcome(outcome).build(),
        service::register);
    unary(
        environment,
        KvtierGrpcService.Unregister,
        NamespaceRequest.parser(),
        FrontLoop::outcomeOnly,
        service::unregister);
    unary(
        environment,
        KvtierGrpcService.Lookup,
        KeysRequest.parser(),
        outcome -> LookupResponse.newBuilder().setOutcome(outcome).build(),
        service::lookup);
    keys(environment, KvtierGrpcService.Prefetch, (c, m) -> service.eachBlock(Verb.PREFETCH, c, m));
    keys(environment, KvtierGrpcService.Delete, (c, m) -> service.eachBlock(Verb.DELETE, c, m));
    keys(environment, KvtierGrpcService.Pin, service::pin);
    keys(environment, KvtierGrpcService.Unpin, service::unpin);
    count(environment, KvtierGrpcService.Clear, (c, m) -> service.countBlocks(Verb.CLEAR, c, m));
    count(environment, KvtierGrpcService.Flush, (c, m) -> service.countBlocks(Verb.FLUSH, c, m));
    unary(
        environment,
        KvtierGrpcService.Cancel,
        CancelRequest.parser(),
        FrontLoop::outcomeOnly,
        service::cancel);
    unary(
        environment,
        KvtierGrpcService.Stats,
        StatsRequest.parser(),
        outcome -> StatsResponse.newBuilder().setOutcome(outcome).build(),
        service::stats);
    add(
        KvtierGrpcService.Get,
        (connection, stream) -> new GetCall(environment, connection, stream));
    add(
        KvtierGrpcService.Put,
        (connection, stream) -> new PutCall(environment, connection, stream));
  }

  private static OutcomeResponse outcomeOnly(Outcome outcome) {
    return OutcomeResponse.newBuilder().setOutcome(outcome).build();
  }

  private void keys(
      Call.Environment environment,
      ServiceMethod<KeysRequest, BlocksResponse> method,
      UnaryCall.Method<KeysRequest, BlocksResponse> handler) {
    unary(
        environment,
        method,
        KeysRequest.parser(),
        outcome -> BlocksResponse.newBuilder().setOutcome(outcome).build(),
        handler);
  }

  private void count(
      Call.Environment environment,
      ServiceMethod<NamespaceRequest, CountResponse> method,
      UnaryCall.Method<NamespaceRequest, CountResponse> handler) {
    unary(
        environment,
        method,
        NamespaceRequest.parser(),
        outcome -> CountResponse.newBuilder().setOutcome(outcome).build(),
        handler);
  }

  private <Q, R extends MessageLite> void unary(
      Call.Environment environment,
      ServiceMethod<Q, R> method,
      Parser<Q> parser,
      Function<Outcome, R> refusal,
      UnaryCall.Method<Q, R> handler) {
    add(
        method,
        (connection, stream) ->
            new UnaryCall<>(environment, connection, stream, parser, refusal, handler));
  }

  private void add(ServiceMethod<?, ?> method, Method maker) {
    methods.put("/" + method.fullMethodName(), maker);
  }

  // ---- calls and connections
  // ------------------------------------------------------------------------------------

  private void arrived(IndexGateway index, HttpServerRequest request) {
    if (!GrpcStream.isCall(request)) {
      return;
    }
    GrpcStream stream = new GrpcStream(request, shared.messageBytesMax(), headSpace);
    Method method = methods.get(request.path());
    if (method == null) {
      stream.end(GrpcStatus.UNIMPLEMENTED, "no method " + request.path());
      return;
    }
    RemoteConnection connection =
        connections.computeIfAbsent(
            request.connection(), c -> new RemoteConnection(index, shared.namespaces()));
    Call<?> call = method.begin(connection, stream);
    boolean isTooMany = !shared.begin(carriesBytes(call));
    calls.add(call);
    if (isTooMany) {
      call.fail(GrpcStatus.RESOURCE_EXHAUSTED, "too many calls at once: try again");
    }
    call.start();
  }

  private static boolean carriesBytes(Call<?> call) {
    return !(call instanceof UnaryCall);
  }

  private void ended(Call<?> call) {
    if (calls.remove(call)) {
      shared.end(carriesBytes(call));
      if (call.holdsAfterEnd()) {
        lingering.add(call);
      }
    }
  }

  private void connected(IndexGateway index, HttpConnection connection) {
    if (connection instanceof HttpServerConnection served) {
      tune(served.channelHandlerContext());
    }
    connections.put(connection, new RemoteConnection(index, shared.namespaces()));
    connection.closeHandler(v -> {
      RemoteConnection closed = connections.remove(connection);
      if (closed != null) {
        closed.close();
      }
    });
  }

  /** Has the connection move many bytes at once, and not copy those of halved frames together. */
  private static void tune(ChannelHandlerContext context) {
    context
        .channel()
        .config()
        .setRecvByteBufAllocator(
            new AdaptiveRecvByteBufAllocator(READ_BYTES_MIN, READ_BYTES_INITIAL, READ_BYTES_MAX))
        .setWriteBufferWaterMark(new WriteBufferWaterMark(WRITE_BYTES_MAX / 2, WRITE_BYTES_MAX));
    if (context.handler() instanceof ByteToMessageDecoder decoder) {
      decoder.setCumulator(ByteToMessageDecoder.COMPOSITE_CUMULATOR);
    }
  }

  private void checkTime() {
    long now = System.nanoTime();
    if (!calls.isEmpty()) {
      for (Call<?> call : calls.toArray(Call<?>[]::new)) {
        call.checkTime(now);
      }
    }
    if (!lingering.isEmpty()) {
      lingering.removeIf(call -> !call.holdsAfterEnd());
      for (Call<?> call : lingering.toArray(Call<?>[]::new)) {
        call.tick(now);
      }
    }
  }
}
