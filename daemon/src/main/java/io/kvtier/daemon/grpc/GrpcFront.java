package io.kvtier.daemon.grpc;

import com.google.protobuf.Parser;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.index.Counters;
import io.kvtier.daemon.index.IndexAgent;
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
import io.kvtier.tiers.host.SlabStore;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.file.FileSystemOptions;
import io.vertx.core.http.Http2Settings;
import io.vertx.core.http.HttpConnection;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.grpc.common.GrpcStatus;
import io.vertx.grpc.common.ServiceMethod;
import io.vertx.grpc.server.GrpcProtocol;
import io.vertx.grpc.server.GrpcServer;
import io.vertx.grpc.server.GrpcServerOptions;
import io.vertx.grpc.server.GrpcServerRequest;
import java.io.IOException;
import java.net.BindException;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The gRPC server. One event loop serves every connection, so that calls, connections and the
 * gateway to the index need no locks; the limits here bound what they all can take of the heap.
 */
public final class GrpcFront implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(GrpcFront.class);
  private static final int CALLS_MAX = 1024;

  /** Get and Put: each may have about three chunks in the heap. */
  private static final int BYTE_CALLS_MAX = 64;

  private static final int STREAMS_PER_CONNECTION_MAX = 256;
  private static final int STREAM_WINDOW_BYTES = 1 << 20;
  private static final int CONNECTION_WINDOW_BYTES = 8 << 20;

  /** What a message may take besides the bytes of a block: the keys of a batch and their frames. */
  private static final int MESSAGE_OVERHEAD_BYTES = 128 << 10;

  private static final long TIME_CHECK_MS = 100;
  private static final long START_TIMEOUT_S = 30;
  private static final long STOP_TIMEOUT_S = 5;

  /**
   * What the server needs of the daemon.
   *
   * @param stallNs how long a call may wait for a client that neither sends nor takes bytes
   */
  public record Environment(
      String version,
      IndexAgent index,
      Runnable indexBell,
      SlabStore slabs,
      Counters counters,
      long stallNs) {}

  private final Vertx vertx;
  private final IndexGateway gateway;
  private final HttpServer server;
  private final String host;
  private final Map<HttpConnection, RemoteConnection> connections = new HashMap<>();
  private final Set<Call<?, ?>> calls = Collections.newSetFromMap(new IdentityHashMap<>());
  private final NamespaceSizes namespaces = new NamespaceSizes();
  private final Call.Environment callEnvironment;
  private int byteCalls;

  /** The request that the gRPC server is looking at. */
  private @Nullable HttpServerRequest arriving;

  /** Starts to serve; throws naming the key to change when the port can't be had. */
  public GrpcFront(KvtierdConfig.GrpcConfig config, Environment environment) throws IOException {
    host = config.host();
    vertx =
        Vertx.vertx(
            new VertxOptions()
                .setEventLoopPoolSize(1)
                .setWorkerPoolSize(1)
                .setInternalBlockingPoolSize(1)
                .setBlockedThreadCheckInterval(10_000)
                .setFileSystemOptions(
                    new FileSystemOptions()
                        .setFileCachingEnabled(false)
                        .setClassPathResolvingEnabled(false)));
    try {
      gateway =
          new IndexGateway(
              environment.index,
              environment.indexBell,
              environment.slabs.slabs(),
              vertx.getOrCreateContext());
    } catch (IOException | RuntimeException e) {
      stop(vertx.close());
      throw e;
    }
    callEnvironment =
        new Call.Environment(
            gateway,
            namespaces,
            environment.slabs::mapping,
            config.chunkBytes(),
            environment.stallNs,
            this::ended);
    KvtierService service =
        new KvtierService(
            environment.version,
            config.chunkBytes(),
            environment.counters,
            namespaces,
            connections.values());
    GrpcServer grpc =
        GrpcServer.server(
            vertx,
            new GrpcServerOptions()
                .removeEnabledProtocol(GrpcProtocol.WEB)
                .removeEnabledProtocol(GrpcProtocol.WEB_TEXT)
                .removeEnabledProtocol(GrpcProtocol.TRANSCODING)
                .setMaxMessageSize((long) config.chunkBytes() + MESSAGE_OVERHEAD_BYTES));
    addMethods(grpc, service);
    server =
        vertx
            .createHttpServer(
                new HttpServerOptions()
                    .setHost(config.host())
                    .setPort(config.port())
                    .setTcpKeepAlive(true)
                    .setInitialSettings(
                        new Http2Settings()
                            .setInitialWindowSize(STREAM_WINDOW_BYTES)
                            .setMaxConcurrentStreams(STREAMS_PER_CONNECTION_MAX))
                    .setHttp2ConnectionWindowSize(CONNECTION_WINDOW_BYTES))
            .connectionHandler(this::connected)
            .requestHandler(http -> {
              arriving = http;
              grpc.handle(http);
              arriving = null;
            });
    try {
      listen(config);
    } catch (IOException e) {
      close();
      throw e;
    }
    vertx.setPeriodic(TIME_CHECK_MS, timer -> checkTime());
  }

  private void listen(KvtierdConfig.GrpcConfig config) throws IOException {
    try {
      server
          .listen()
          .toCompletionStage()
          .toCompletableFuture()
          .get(START_TIMEOUT_S, TimeUnit.SECONDS);
    } catch (ExecutionException e) {
      Throwable cause = e.getCause();
      if (cause instanceof BindException) {
        throw new IOException(
            "gRPC can't listen on "
                + config.host()
                + ":"
                + config.port()
                + ": "
                + cause.getMessage()
                + "; choose another grpc.port (0: any free one) or grpc.host, or set"
                + " grpc.enabled=false",
            cause);
      }
      throw new IOException(
          "gRPC can't listen on " + config.host() + " (grpc.host): " + cause, cause);
    } catch (TimeoutException e) {
      throw new IOException("gRPC could not listen within " + START_TIMEOUT_S + " s", e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted while gRPC started", e);
    }
  }

  /** Where it listens: the host as configured, and the port that was had. */
  public String address() {
    return host + ":" + port();
  }

  /** The port that was had. */
  public int port() {
    return server.actualPort();
  }

  // ---- methods
  // --------------------------------------------------------------------------------------------------

  private void addMethods(GrpcServer grpc, KvtierService service) {
    unary(
        grpc,
        KvtierGrpcService.Ping,
        PingRequest.parser(),
        outcome -> PingResponse.newBuilder().setOutcome(outcome).build(),
        service::ping);
    unary(
        grpc,
        KvtierGrpcService.Register,
        RegisterRequest.parser(),
        outcome -> RegisterResponse.newBuilder().setOutcome(outcome).build(),
        service::register);
    unary(
        grpc,
        KvtierGrpcService.Unregister,
        NamespaceRequest.parser(),
        GrpcFront::outcomeOnly,
        service::unregister);
    unary(
        grpc,
        KvtierGrpcService.Lookup,
        KeysRequest.parser(),
        outcome -> LookupResponse.newBuilder().setOutcome(outcome).build(),
        service::lookup);
    keys(grpc, KvtierGrpcService.Prefetch, (c, m) -> service.eachBlock(Verb.PREFETCH, c, m));
    keys(grpc, KvtierGrpcService.Delete, (c, m) -> service.eachBlock(Verb.DELETE, c, m));
    keys(grpc, KvtierGrpcService.Pin, service::pin);
    keys(grpc, KvtierGrpcService.Unpin, service::unpin);
    count(grpc, KvtierGrpcService.Clear, (c, m) -> service.countBlocks(Verb.CLEAR, c, m));
    count(grpc, KvtierGrpcService.Flush, (c, m) -> service.countBlocks(Verb.FLUSH, c, m));
    unary(
        grpc,
        KvtierGrpcService.Cancel,
        CancelRequest.parser(),
        GrpcFront::outcomeOnly,
        service::cancel);
    unary(
        grpc,
        KvtierGrpcService.Stats,
        StatsRequest.parser(),
        outcome -> StatsResponse.newBuilder().setOutcome(outcome).build(),
        service::stats);
    grpc.callHandler(
        KvtierGrpcService.Get,
        request -> begin(request, arrival -> new GetCall(callEnvironment, arrival)));
    grpc.callHandler(
        KvtierGrpcService.Put,
        request -> begin(request, arrival -> new PutCall(callEnvironment, arrival)));
  }

  private static OutcomeResponse outcomeOnly(Outcome outcome) {
    return OutcomeResponse.newBuilder().setOutcome(outcome).build();
  }

  private void keys(
      GrpcServer grpc,
      ServiceMethod<KeysRequest, BlocksResponse> method,
      UnaryCall.Method<KeysRequest, BlocksResponse> handler) {
    unary(
        grpc,
        method,
        KeysRequest.parser(),
        outcome -> BlocksResponse.newBuilder().setOutcome(outcome).build(),
        handler);
  }

  private void count(
      GrpcServer grpc,
      ServiceMethod<NamespaceRequest, CountResponse> method,
      UnaryCall.Method<NamespaceRequest, CountResponse> handler) {
    unary(
        grpc,
        method,
        NamespaceRequest.parser(),
        outcome -> CountResponse.newBuilder().setOutcome(outcome).build(),
        handler);
  }

  private <Q, R> void unary(
      GrpcServer grpc,
      ServiceMethod<Q, R> method,
      Parser<Q> parser,
      Function<Outcome, R> refusal,
      UnaryCall.Method<Q, R> handler) {
    grpc.callHandler(
        method,
        request ->
            begin(
                request,
                arrival -> new UnaryCall<>(callEnvironment, arrival, parser, refusal, handler)));
  }

  // ---- calls and connections
  // ------------------------------------------------------------------------------------

  private <Q, R> void begin(
      GrpcServerRequest<Q, R> request, Function<Call.Arrival<Q, R>, Call<Q, R>> maker) {
    HttpServerRequest http = arriving;
    if (http == null) {
      throw new IllegalStateException("a call came outside of its HTTP request");
    }
    Call<Q, R> call =
        maker.apply(new Call.Arrival<>(connection(request.connection()), http, request));
    boolean carriesBytes = !(call instanceof UnaryCall);
    boolean isTooMany = calls.size() >= CALLS_MAX || (carriesBytes && byteCalls >= BYTE_CALLS_MAX);
    calls.add(call);
    byteCalls += carriesBytes ? 1 : 0;
    if (isTooMany) {
      call.fail(GrpcStatus.RESOURCE_EXHAUSTED, "too many calls at once: try again");
    }
    call.start();
  }

  private void ended(Call<?, ?> call) {
    if (calls.remove(call)) {
      byteCalls -= call instanceof UnaryCall ? 0 : 1;
    }
  }

  private void connected(HttpConnection connection) {
    connections.put(connection, new RemoteConnection(gateway));
    connection.closeHandler(v -> {
      RemoteConnection closed = connections.remove(connection);
      if (closed != null) {
        closed.close();
      }
    });
  }

  private RemoteConnection connection(HttpConnection connection) {
    return connections.computeIfAbsent(connection, c -> new RemoteConnection(gateway));
  }

  private void checkTime() {
    if (!calls.isEmpty()) {
      long now = System.nanoTime();
      for (Call<?, ?> call : calls.toArray(Call<?, ?>[]::new)) {
        call.checkTime(now);
      }
    }
  }

  // ---- stopping
  // -------------------------------------------------------------------------------------------------

  /** Stops serving; the index must still run. */
  @Override
  public void close() {
    stop(vertx.close());
    gateway.close();
  }

  private static void stop(Future<Void> closing) {
    try {
      closing.toCompletionStage().toCompletableFuture().get(STOP_TIMEOUT_S, TimeUnit.SECONDS);
    } catch (ExecutionException | TimeoutException e) {
      LOG.warn("the gRPC server did not stop in order: {}", e.toString());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
