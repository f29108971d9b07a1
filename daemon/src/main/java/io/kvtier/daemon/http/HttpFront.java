package io.kvtier.daemon.http;

import io.kvtier.daemon.access.Callers;
import io.kvtier.daemon.access.ConnectionTable;
import io.kvtier.daemon.access.GuardedTransport;
import io.kvtier.daemon.access.Listener;
import io.kvtier.daemon.access.ListenerRules;
import io.kvtier.daemon.access.PipelinedRequests;
import io.kvtier.daemon.access.ServerTls;
import io.kvtier.daemon.config.LoadedConfig;
import io.kvtier.daemon.index.IndexAgent;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.node.NodeFinder;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.handler.codec.http.TooLongHttpHeaderException;
import io.netty.handler.codec.http.TooLongHttpLineException;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.file.FileSystemOptions;
import io.vertx.core.http.HttpConnection;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.http.impl.HttpServerConnection;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The HTTP server for operators. It has its own event loop, so that its requests can't delay
 * engines' calls over gRPC. All requests only read. A connection without progress is closed.
 */
public final class HttpFront implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(HttpFront.class);

  /** Maximum connections, without connections that are being closed. */
  public static final int CONNECTIONS_MAX = 1024;

  private static final int BACKLOG = 1024;

  /** Buffer size for answers that a peer does not take; the kernel doubles it. */
  private static final int SEND_BYTES = 64 << 10;

  /** Maximum first line of a request: some hundred keys fit into it. */
  private static final int LINE_BYTES_MAX = 16 << 10;

  private static final int HEADER_BYTES_MAX = 16 << 10;

  /** Maximum time in which a connection neither receives a whole request nor sends an answer. */
  private static final long STILL_NS_MAX = 30_000_000_000L;

  private static final long SAMPLE_MS = 1_000;
  private static final long STOP_TIMEOUT_S = 5;

  /** The parts of the daemon that the server needs. */
  public record Environment(
      About about, IndexSide index, NodeSide nodes, Numbers numbers, Access access) {}

  /**
   * What the server says about the daemon.
   *
   * @param socket of the daemon
   * @param settings the current configuration, for people
   */
  public record About(String version, Path socket, Supplier<List<LoadedConfig.Entry>> settings) {}

  /**
   * The index, and the way to wake it.
   *
   * @param daemonRegion the shared memory in which the index notes its progress
   */
  public record IndexSide(IndexAgent agent, Runnable bell, MemorySegment daemonRegion) {}

  /**
   * The other nodes of the cluster.
   *
   * @param finder finds the nodes that have blocks
   * @param figures as {@code kvtier nodes --json} shows them
   */
  public record NodeSide(NodeFinder finder, Supplier<JsonObject> figures) {}

  /** What the server shows as metrics. */
  public record Numbers(Counters counters, Latencies latencies) {}

  /**
   * The callers that the server accepts.
   *
   * @param hosts names by which callers know this machine
   * @param tls null for no TLS
   * @param tenants the count of tenants, with the one of all callers without a tenant
   */
  public record Access(List<String> hosts, @Nullable ServerTls tls, Callers callers, int tenants) {}

  private final Vertx vertx;
  private final Listener.Place place;
  private final Gate gate;
  private final Routes routes;
  private final RecentErrors errors = RecentErrors.listen();
  private final History history;

  private final Counters counters;
  private final KnownHosts hosts;
  private final ConnectionTable table;
  private final HttpServer server;
  private @Nullable MetricsPage metrics;

  /**
   * Starts to serve; throws, naming the key to change, if the port can't be opened.
   *
   * @param place where the server listens
   */
  public HttpFront(Listener.Place place, Environment environment) throws IOException {
    this.place = place;
    counters = environment.numbers().counters();
    Access access = environment.access();
    hosts = new KnownHosts(place.listener().host(), access.hosts(), access.tls() != null);
    table = new ConnectionTable(CONNECTIONS_MAX, 0, counters::countRefusal);
    gate = new Gate(access.callers(), access.tenants() > 1, counters::countRefusal);
    routes = new Routes(gate);
    vertx =
        GuardedTransport.newVertx(
            new VertxOptions()
                .setEventLoopPoolSize(1)
                .setWorkerPoolSize(1)
                .setInternalBlockingPoolSize(1)
                .setBlockedThreadCheckInterval(10_000)
                .setFileSystemOptions(
                    new FileSystemOptions()
                        .setFileCachingEnabled(false)
                        .setClassPathResolvingEnabled(false)),
            table);
    Context loop = vertx.getOrCreateContext();
    history = new History(counters, environment.numbers().latencies());
    addRoutes(environment, loop);
    HttpServerOptions options =
        new HttpServerOptions()
            .setHost(place.address().getHostAddress())
            .setPort(place.listener().port())
            .setAcceptBacklog(BACKLOG)
            .setHttp2ClearTextEnabled(false)
            .setMaxInitialLineLength(LINE_BYTES_MAX)
            .setMaxHeaderSize(HEADER_BYTES_MAX)
            .setSendBufferSize(SEND_BYTES)
            .setTcpKeepAlive(true);
    ServerTls tls = access.tls();
    if (tls != null) {
      tls.apply(options);
      options.setAlpnVersions(List.of(HttpVersion.HTTP_1_1));
    }
    server =
        vertx
            .createHttpServer(options)
            .connectionHandler(this::connected)
            .invalidRequestHandler(this::mistaken)
            .requestHandler(this::requested);
    try {
      listen(loop);
    } catch (IOException e) {
      close();
      throw e;
    }
  }

  private void addRoutes(Environment environment, Context loop) {
    IndexReports reports =
        new IndexReports(
            environment.index().agent()::offerReport, environment.index().bell(), loop);
    Health health =
        new Health(
            environment.index().daemonRegion(), reports, environment.index().agent()::health);
    State state =
        new State(environment.about().socket(), environment.about().settings(), counters, reports);
    new Dashboard().addTo(routes);
    // Monitoring programs add their own parameters.
    routes.add("/healthz", request -> Future.succeededFuture(health.live(gate.isOpen(request))));
    routes.add("/readyz", request -> health.ready(gate.isOpen(request)));
    routes.addGuarded(
        "/metrics",
        request ->
            metrics(environment, health, reports)
                .scrape(MetricsFormat.of(request.getHeader("Accept"))));
    List<String> none = List.of();
    Answer description = Answer.text("application/yaml", description());
    routes.add("/api/v1/openapi.yaml", none, query -> Future.succeededFuture(description));
    routes.add("/api/v1/status", none, query -> state.status());
    routes.add("/api/v1/stats", none, query -> state.stats());
    routes.add("/api/v1/tiers", none, query -> state.tiers());
    routes.add("/api/v1/sessions", none, query -> state.sessions());
    routes.add("/api/v1/namespaces", none, query -> state.namespaces());
    routes.add("/api/v1/policies", none, query -> state.policies());
    routes.add("/api/v1/whatif", none, query -> state.whatIf());
    routes.add("/api/v1/config", none, query -> Future.succeededFuture(state.config()));
    NodeRoute nodes = new NodeRoute(environment.nodes().finder(), loop);
    routes.add(
        "/api/v1/nodes",
        none,
        query -> Future.succeededFuture(Answer.json(environment.nodes().figures().get())));
    routes.add("/api/v1/nodes/find", NodeRoute.PARAMETERS, nodes::find);
    routes.add("/api/v1/errors", none, query -> Future.succeededFuture(Answer.json(errors.json())));
    routes.add(
        "/api/v1/history",
        List.of("seconds", "step"),
        query ->
            Future.succeededFuture(
                history.answer(
                    query.number("seconds", 1, History.SECONDS_MAX, 300),
                    query.number("step", 1, History.STEP_MAX, 0),
                    System.currentTimeMillis(),
                    System.nanoTime())));
  }

  /**
   * The page of metrics. It is made at the first request, because that takes half a second on a
   * cold JVM.
   */
  private MetricsPage metrics(Environment environment, Health health, IndexReports reports) {
    MetricsPage page = metrics;
    if (page == null) {
      page =
          new MetricsPage(
              environment.about().version(),
              counters,
              environment.numbers().latencies(),
              health,
              reports,
              environment.nodes().figures());
      metrics = page;
    }
    return page;
  }

  /** The OpenAPI file of the distribution. */
  private static String description() {
    try (InputStream in = HttpFront.class.getResourceAsStream("/openapi.yaml")) {
      if (in == null) {
        throw new IllegalStateException("openapi.yaml is missing from the class path");
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new IllegalStateException("openapi.yaml can't be read", e);
    }
  }

  // ---- starting

  private void listen(Context loop) throws IOException {
    place.await(
        Future.<HttpServer>future(promise ->
                loop.runOnContext(v -> {
                  vertx.setPeriodic(SAMPLE_MS, timer -> tick());
                  tick();
                  server.listen().onComplete(promise);
                }))
            .toCompletionStage());
  }

  /** The address of the server: the configured host, and the port on which it listens. */
  public String address() {
    return ListenerRules.address(place.listener().host(), server.actualPort());
  }

  // ---- connections and requests, on the event loop

  private void connected(HttpConnection connection) {
    ChannelHandlerContext server = ((HttpServerConnection) connection).channelHandlerContext();
    server.pipeline().addBefore(server.name(), null, new PipelinedRequests(counters::countRefusal));
  }

  /** Notes progress on a connection: of all connections it is now the last that is closed. */
  private void touch(HttpConnection connection) {
    table.touch(((HttpServerConnection) connection).channelHandlerContext().channel());
  }

  private void tick() {
    history.sample(System.nanoTime());
    for (Channel still : table.idleFor(STILL_NS_MAX)) {
      ConnectionTable.cut(still);
    }
  }

  private void requested(HttpServerRequest request) {
    touch(request.connection());
    Answer refusal = hosts.refusal(request);
    if (refusal != null) {
      counters.countRefusal();
      write(request, refusal);
      return;
    }
    var _ = routes.answer(request).onSuccess(answer -> write(request, answer));
  }

  private void mistaken(HttpServerRequest request) {
    Throwable cause = request.decoderResult().cause();
    if (cause instanceof TooLongHttpLineException) {
      write(
          request,
          Answer.problem(414, "the first line has more than " + LINE_BYTES_MAX + " bytes"));
    } else if (cause instanceof TooLongHttpHeaderException) {
      write(
          request,
          Answer.problem(431, "the headers have more than " + HEADER_BYTES_MAX + " bytes"));
    } else {
      write(request, Answer.problem(400, "this is no HTTP request: " + cause.getMessage()));
    }
  }

  private void write(HttpServerRequest request, Answer answer) {
    HttpConnection connection = request.connection();
    var _ =
        Routes.write(request, answer)
            .onComplete(done -> {
              touch(connection);
              if (done.failed()) {
                LOG.debug("an answer was not taken", done.cause());
              }
            });
  }

  // ---- stopping

  /** Stops serving; the index must still run. */
  @Override
  public void close() {
    errors.detach();
    try {
      vertx.close().toCompletionStage().toCompletableFuture().get(STOP_TIMEOUT_S, TimeUnit.SECONDS);
    } catch (ExecutionException | TimeoutException e) {
      LOG.warn("the HTTP server did not stop in order: {}", e.toString());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    MetricsPage page = metrics;
    if (page != null) {
      page.close();
    }
  }
}
