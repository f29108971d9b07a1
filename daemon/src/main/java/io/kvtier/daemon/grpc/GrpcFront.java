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
 * The gRPC server. A connection stays on one of a few event loops, each with its own calls and its
 * own session with the index, so that none of them needs a lock; the limits here bound what they
 * all can take of the heap.
 */
public final class GrpcFront implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(GrpcFront.class);

  /**
   * Of all connections: more than there are calls, and answers that wait for their clients' end.
   */
  private static final int STREAMS_MAX = 2560;

  private static final int STREAM_WINDOW_BYTES = 1 << 20;
  private static final int CONNECTION_WINDOW_BYTES = 8 << 20;

  /** What a message may take besides the bytes of a block: the keys of a batch and their frames. */
  static final int MESSAGE_OVERHEAD_BYTES = 128 << 10;

  private static final long STOP_TIMEOUT_S = 5;

  /** One port, the same for all loops. */
  private static final int ANY_PORT = -1;

  /**
   * What the server needs of the daemon.
   *
   * @param stallNs how long a call may wait for a client that neither sends nor takes bytes
   * @param tls null where the port has none
   * @param tenants whose calls get a share of all each
   * @param requests is told of calls that are refused here
   * @param heartbeat whether the index goes on
   * @param areas the tiers that the daemon has, and what else has parts that can be in trouble
   */
  public record Environment(
      String version,
      IndexAgent index,
      Runnable indexBell,
      SlabStore slabs,
      Counters counters,
      long stallNs,
      @Nullable ServerTls tls,
      Callers callers,
      Tenants tenants,
      RequestTap requests,
      Heartbeat heartbeat,
      List<String> areas) {}

  /** What the event loops share; from any thread. */
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
                  daemon.index()::health, daemon.heartbeat()::isLive, daemon.areas()));
      this.calls = new CallLimits(daemon.tenants());
      this.places = new CallPlaces(calls, daemon.tenants().count());
      this.peers = new PeerLimits(config.limits(), System::nanoTime);
      this.connections =
          new ConnectionTable(
              config.limits().connections(),
              config.limits().connectionsPerPeer(),
              daemon.counters()::countRefusal);
      this.namespaces = daemon.tenants().names().stream().map(tenant -> new Namespaces()).toList();
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

    /** What a tenant's callers registered: no other's callers can name it. */
    Namespaces namespaces(int tenant) {
      return namespaces.get(tenant);
    }

    PeerLimits peers() {
      return peers;
    }

    ConnectionTable connections() {
      return connections;
    }

    /** What anybody may call. */
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
   * Starts to serve; throws naming the key to change when the port can't be had.
   *
   * @param place where it listens
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
    // For those that do not even say which protocol they speak; the loops look after the others.
    options
        .setIdleTimeoutUnit(TimeUnit.MILLISECONDS)
        .setIdleTimeout((int) Math.ceilDiv(config.limits().firstCallNs(), 1_000_000L));
    ServerTls tls = environment.tls();
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

  /** Where it listens: the host as configured, and the port that was had. */
  public String address() {
    return ListenerRules.address(place.listener().host(), port());
  }

  /** The port that was had. */
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
