package io.kvtier.client;

import io.kvtier.client.internal.remote.RemoteAddress;
import io.kvtier.client.internal.remote.RemoteChannel;
import io.kvtier.client.internal.remote.RemoteNamespace;
import io.kvtier.client.internal.remote.RemoteSettings;
import io.kvtier.client.internal.shared.NamespaceProperties;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.kvtier.protocol.v1.PingRequest;
import io.kvtier.protocol.v1.PingResponse;
import io.kvtier.protocol.v1.StatsRequest;
import io.kvtier.protocol.v1.StatsResponse;
import io.vertx.core.Future;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * A client of a daemon by gRPC, with the operations and outcomes of {@link KvtierClient}.
 * Thread-safe.
 *
 * <p>A daemon that is not there is no exception: operations answer {@link Status#UNAVAILABLE} or
 * {@link Status#DEADLINE}, and a later one connects again. Reads are sent again when the connection
 * breaks. The client compares the bytes of blocks with their checksums. Futures complete on the
 * client's event loop: dependent stages that take long belong on an executor of their own.
 */
public final class RemoteClient implements CacheClient {
  private final RemoteSettings settings;
  private final RemoteChannel channel;

  private RemoteClient(RemoteSettings settings) {
    this.settings = settings;
    channel = new RemoteChannel(settings);
  }

  /**
   * A client's settings.
   *
   * @param address {@code grpcs://HOST[:PORT]}, or {@code grpc://HOST[:PORT]} without TLS
   */
  public static Builder builder(String address) {
    return new Builder(RemoteAddress.parse(address));
  }

  /** Whether a text is the address of a daemon, and not the path of a socket. */
  static boolean isAddress(String place) {
    return RemoteAddress.isOne(place);
  }

  @Override
  public String place() {
    return settings.address().toString();
  }

  /** Whether the daemon answered the last call. */
  @Override
  public boolean isConnected() {
    return channel.trouble().isEmpty();
  }

  /** Why the last call was not carried out, in words; empty if it was. */
  public String trouble() {
    return channel.trouble();
  }

  @Override
  public CacheNamespace namespace(String name, long blockBytes, Map<String, String> properties) {
    return RemoteNamespace.register(channel, NamespaceProperties.of(name, blockBytes, properties));
  }

  /**
   * Which nodes of the cluster have most of a sequence of blocks, for routers. The daemon asks the
   * other nodes. This changes nothing, renews nothing, and counts as no lookup.
   *
   * @param namespace made by this client
   * @param keys at most 2048, in the order of their blocks in the prompt
   * @param limit the most nodes in the answer, 1 to 1024
   * @throws IllegalArgumentException for a namespace of another client, and for numbers of keys or
   *     nodes beyond these limits
   */
  public CompletableFuture<NodesResult> findNodes(
      CacheNamespace namespace, Keys keys, int limit, Options options) {
    if (!(namespace instanceof RemoteNamespace remote) || !remote.isOf(channel)) {
      throw new IllegalArgumentException(
          "namespace '" + namespace.name() + "' is of another client");
    }
    return remote.findNodes(keys, limit, options);
  }

  @Override
  public CompletableFuture<PingResult> ping() {
    long deadlineNs = channel.deadlineNs(Options.DEFAULT);
    if (isConnected()) {
      return RemoteChannel.done(timedPing(deadlineNs), RemoteClient::silent);
    }
    // The first ping connects: connecting is not part of the round trip.
    return RemoteChannel.done(
        timedPing(deadlineNs).compose(first -> timedPing(deadlineNs)), RemoteClient::silent);
  }

  private Future<PingResult> timedPing(long deadlineNs) {
    return channel.begin(() -> {
      long start = System.nanoTime();
      return channel
          .call(KvtierGrpcClient.Ping, PingRequest.getDefaultInstance(), deadlineNs)
          .map(answer -> pingResult(answer, System.nanoTime() - start));
    });
  }

  private static PingResult pingResult(PingResponse answer, long roundTripNs) {
    Status status = Status.of(answer.getOutcome().getStatusValue());
    if (status != Status.OK) {
      return new PingResult(status, answer.getOutcome().getText(), roundTripNs);
    }
    return new PingResult(status, "kvtierd " + answer.getVersion(), roundTripNs);
  }

  private static PingResult silent(RemoteChannel.Failure failure) {
    return new PingResult(failure.status(), failure.why(), 0);
  }

  @Override
  public CompletableFuture<TextResult> stats() {
    return RemoteChannel.done(
        askStats()
            .map(answer -> {
              Status status = Status.of(answer.getOutcome().getStatusValue());
              return new TextResult(
                  status, status == Status.OK ? answer.getJson() : answer.getOutcome().getText());
            }),
        failure -> new TextResult(failure.status(), failure.why()));
  }

  @Override
  public Map<String, Long> counters() {
    return RemoteChannel.done(
            askStats().map(StatsResponse::getCountersMap), failure -> Map.<String, Long>of())
        .join();
  }

  private Future<StatsResponse> askStats() {
    return channel.begin(() ->
        channel.call(
            KvtierGrpcClient.Stats,
            StatsRequest.getDefaultInstance(),
            channel.deadlineNs(Options.DEFAULT)));
  }

  /** Answers everything in flight with UNAVAILABLE, and ends the connection. */
  @Override
  public void close() {
    channel.close();
  }

  @Override
  public String toString() {
    return "client of " + settings.address() + (isConnected() ? "" : ", not connected");
  }

  /** A client's settings. */
  public static final class Builder {
    private final RemoteAddress address;
    private Duration timeout = Duration.ofSeconds(10);
    private @Nullable String token;
    private @Nullable Path tokenFile;
    private @Nullable Path authority;
    private @Nullable Path certificate;
    private @Nullable Path key;

    private Builder(RemoteAddress address) {
      this.address = address;
    }

    /** The default deadline of an operation: 10 s after its begin if it is not set here. */
    public Builder timeout(Duration value) {
      if (value.isNegative() || value.isZero()) {
        throw new IllegalArgumentException("a timeout is positive, not " + value);
      }
      timeout = value;
      return this;
    }

    /** The token that {@code kvtier token make} printed. */
    public Builder token(String value) {
      token = value;
      return this;
    }

    /** A file with the token, read with each call. */
    public Builder tokenFile(Path value) {
      tokenFile = value;
      return this;
    }

    /** A PEM file with the certificate that signed the daemon's; else those that Java trusts. */
    public Builder authority(Path value) {
      authority = value;
      return this;
    }

    /** PEM files with this client's certificate and key, for a daemon that asks for them. */
    public Builder certificate(Path chain, Path privateKey) {
      certificate = chain;
      key = privateKey;
      return this;
    }

    /**
     * Makes the client, which connects with its first operation.
     *
     * @throws IllegalArgumentException if the token would go over the network unencrypted, or has
     *     another form
     */
    public RemoteClient build() {
      boolean hasToken = token != null || tokenFile != null;
      if (token != null && tokenFile != null) {
        throw new IllegalArgumentException("both a token and a token file; expected one of them");
      }
      if (hasToken && !address.hasTls() && !address.isLoopback()) {
        throw new IllegalArgumentException(
            "a token would go to "
                + address
                + " unencrypted: use grpcs:// with a daemon that has TLS");
      }
      if (!address.hasTls() && (authority != null || certificate != null)) {
        throw new IllegalArgumentException(
            "certificates are for TLS, and " + address + " is without: use grpcs://");
      }
      RemoteSettings.Credentials credentials =
          new RemoteSettings.Credentials(token, tokenFile, authority, certificate, key);
      var _ = credentials.currentToken();
      return new RemoteClient(new RemoteSettings(address, timeout, credentials));
    }
  }
}
