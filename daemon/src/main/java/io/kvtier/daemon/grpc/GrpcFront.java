package io.kvtier.daemon.grpc;

import io.kvtier.daemon.access.Callers;
import io.kvtier.daemon.access.ConnectionTable;
import io.kvtier.daemon.access.GuardedTransport;
import io.kvtier.daemon.access.Listener;
import io.kvtier.daemon.access.ListenerRules;
import io.kvtier.daemon.access.ServerTls;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.index.IndexAgent;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.report.Heartbeat;
import io.kvtier.daemon.index.report.RequestTap;
import io.kvtier.daemon.index.session.IndexProcessor;
import io.kvtier.daemon.node.NodeFinder;
import io.kvtier.tiers.host.SlabStore;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.file.FileSystemOptions;
import io.vertx.core.http.Http2Settings;
import io.vertx.core.http.HttpServerOptions;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The gRPC server. A connection stays on one of a few event loops. Each loop has its own calls and
 * its own sessions with the index, and needs no lock. The limits here bound the heap that all loops
 * can take.
 */
public final class GrpcFront implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(GrpcFront.class);

  /**
   * Maximum streams of all connections: more than the calls, and the answers that wait for their
   * clients' end.
   */
  private static final int STREAMS_MAX = 2560;

  private static final int STREAM_WINDOW_BYTES = 1 << 20;
  private static final int CONNECTION_WINDOW_BYTES = 8 << 20;

  /**
   * Maximum size of a message without the bytes of a block: the keys of a batch and their frames.
   */
  static final int MESSAGE_OVERHEAD_BYTES = 128 << 10;

  private static final long STOP_TIMEOUT_S = 5;

  /** A free port, which all loops share. */
  private static final int ANY_PORT = -1;

  /**
   * The parts of the daemon that the server needs.
   *
   * @param stallNs how long a call may wait for a client that neither sends nor takes bytes
   */
  public record Environment(
      String version, IndexSide index, Access access, Reporting reporting, long stallNs) {
    Counters counters() {
      return reporting.counters;
    }
  }

  /**
   * The index, the way to wake it, and the slabs with its blocks.
   *
   * @param processor hears when the index wakes an event loop
   * @param heartbeat tells whether the index makes progress
   * @param finder finds the nodes that have blocks
   */
  public record IndexSide(
      IndexAgent agent,
      Runnable bell,
      IndexProcessor processor,
      SlabStore slabs,
      Heartbeat heartbeat,
      NodeFinder finder) {}

  /**
   * The callers that the server accepts.
   *
   * @param tls null for no TLS
   * @param tenants each tenant has a share of all calls
   */
  public record Access(@Nullable ServerTls tls, Callers callers, Tenants tenants) {}

  /**
   * What the server reports to and of.
   *
   * @param requests told of calls that are refused here
   * @param areas the tiers of the daemon and other areas whose parts can be in trouble
   */
  public record Reporting(Counters counters, RequestTap requests, List<String> areas) {}

  /** The state that the event loops share; for any thread. */
  static final class Shared {
    private final Environment daemon;
    private final int chunkBytes;
    private final int loopsMax;
    private final List<Namespaces> namespaces;
    private final PeerLimits peers;
    private final ConnectionTable connections;
    private final List<FrontLoop> loops = new CopyOnWriteArrayList<>();
    private final CallLimits calls;
    private final OpenMethods open;
    private final CallPlaces places;

    private Shared(Environment daemon, KvtierdConfig.GrpcConfig config) {
      this.daemon = daemon;
      this.chunkBytes = config.chunkBytes();
      this.loopsMax = config.threads();
      this.open =
          new OpenMethods(
              new ServingStates(
                  daemon.index().agent()::health,
                  daemon.index().heartbeat()::isLive,
                  daemon.reporting().areas()));
      this.calls = new CallLimits(daemon.access().tenants());
      this.places = new CallPlaces(calls, daemon.access().tenants().count());
      this.peers = new PeerLimits(config.limits(), System::nanoTime);
      this.connections =
          new ConnectionTable(
              config.limits().connections(),
              config.limits().connectionsPerPeer(),
              daemon.counters()::countRefusal);
      this.namespaces =
          daemon.access().tenants().names().stream().map(tenant -> new Namespaces()).toList();
    }

    Environment daemon() {
      return daemon;
    }

    int chunkBytes() {
      return chunkBytes;
    }

    int streamsOfLoopMax() {
      return STREAMS_MAX / loopsMax;
    }

    int messageBytesMax() {
      return chunkBytes + MESSAGE_OVERHEAD_BYTES;
    }

    /**
     * The namespaces that a tenant's callers have registered. Callers of other tenants can't name
     * them.
     */
    Namespaces namespaces(int tenant) {
      return namespaces.get(tenant);
    }

    PeerLimits peers() {
      return peers;
    }

    ConnectionTable connections() {
      return connections;
    }

    /** The methods that need no token. */
    OpenMethods open() {
      return open;
    }

    CallLimits calls() {
      return calls;
    }

    CallPlaces places() {
      return places;
    }

    /** Has every loop's session forget a namespace. */
    void forget(int tenant, Namespaces.Namespace namespace) {
      loops.forEach(loop -> loop.forget(tenant, namespace));
    }
  }

  private final Vertx vertx;
  private final Listener.Place place;
  private final Shared shared;

  /**
   * Starts to serve; throws, naming the key to change, if the port can't be opened.
   *
   * @param place where the server listens
   */
  public GrpcFront(KvtierdConfig.GrpcConfig config, Listener.Place place, Environment environment)
      throws IOException {
    this.place = place;
    shared = new Shared(environment, config);
    vertx =
        GuardedTransport.newVertx(
            new VertxOptions()
                .setEventLoopPoolSize(config.threads())
                .setWorkerPoolSize(1)
                .setInternalBlockingPoolSize(1)
                .setBlockedThreadCheckInterval(10_000)
                .setFileSystemOptions(
                    new FileSystemOptions()
                        .setFileCachingEnabled(false)
                        .setClassPathResolvingEnabled(false)),
            shared.connections());
    HttpServerOptions options =
        new HttpServerOptions()
            .setHost(place.address().getHostAddress())
            .setPort(config.port() == 0 ? ANY_PORT : config.port())
            .setTcpKeepAlive(true)
            .setInitialSettings(
                new Http2Settings()
                    .setInitialWindowSize(STREAM_WINDOW_BYTES)
                    .setMaxConcurrentStreams(PeerStreams.STREAMS_MAX))
            .setHttp2ConnectionWindowSize(CONNECTION_WINDOW_BYTES);
    // This closes connections that send no protocol preface; the loops close other idle
    // connections.
    options
        .setIdleTimeoutUnit(TimeUnit.MILLISECONDS)
        .setIdleTimeout((int) Math.ceilDiv(config.limits().firstCallNs(), 1_000_000L));
    ServerTls tls = environment.access().tls();
    if (tls != null) {
      tls.apply(options);
    }
    try {
      start(config, options);
    } catch (IOException e) {
      close();
      throw e;
    }
  }

  private FrontLoop newLoop(HttpServerOptions options) {
    FrontLoop loop = new FrontLoop(shared, options);
    shared.loops.add(loop);
    return loop;
  }

  private void start(KvtierdConfig.GrpcConfig config, HttpServerOptions options)
      throws IOException {
    place.await(
        vertx
            .deployVerticle(
                () -> newLoop(options), new DeploymentOptions().setInstances(config.threads()))
            .toCompletionStage());
  }

  /** The address of the server: the configured host, and the port on which it listens. */
  public String address() {
    return ListenerRules.address(place.listener().host(), port());
  }

  /** The port on which the server listens. */
  public int port() {
    return shared.loops.getFirst().port();
  }

  // ---- stopping
  // -------------------------------------------------------------------------------------------------

  /** Stops serving; the index must still run. */
  @Override
  public void close() {
    stop(vertx.close());
    shared.loops.forEach(FrontLoop::close);
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
