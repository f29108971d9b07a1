package io.kvtier.client.internal.remote;

import io.kvtier.client.BatchResult;
import io.kvtier.client.CacheNamespace;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierException;
import io.kvtier.client.LookupResult;
import io.kvtier.client.NodesResult;
import io.kvtier.client.Options;
import io.kvtier.client.ValueResult;
import io.kvtier.client.internal.shared.CopyArguments;
import io.kvtier.client.internal.shared.Lifetimes;
import io.kvtier.client.internal.shared.LoadReports;
import io.kvtier.client.internal.shared.NamespaceProperties;
import io.kvtier.client.internal.shared.Outcome;
import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.v1.BlocksResponse;
import io.kvtier.protocol.v1.CountResponse;
import io.kvtier.protocol.v1.FindNodesRequest;
import io.kvtier.protocol.v1.FindNodesResponse;
import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.kvtier.protocol.v1.LookupResponse;
import io.kvtier.protocol.v1.NamespaceRequest;
import io.kvtier.protocol.v1.OutcomeResponse;
import io.kvtier.protocol.v1.ReportLoadsRequest;
import io.kvtier.protocol.v1.RetainRequest;
import io.vertx.core.Future;
import io.vertx.grpc.common.ServiceMethod;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/** One cache layout of a daemon that is asked over gRPC. Thread-safe. */
public final class RemoteNamespace implements CacheNamespace {
  /** The leading run of a lookup, and the estimate of its load time. */
  private static final class LoadTime {
    private int run;
    private long ns;

    void add(KeysPart part, LookupResponse answer) {
      if (run == part.from()) {
        run += answer.getLeadingRun();
        ns += answer.getEstimatedLoadNs();
      }
    }
  }

  /** A put of this many bytes or more looks up first, and sends only the missing blocks. */
  private static final long LOOKED_UP_BYTES = 64 << 10;

  /** The most nodes that a daemon names in an answer. */
  private static final int NODES_MAX = 1024;

  private final RemoteChannel channel;
  private final NamespaceProperties properties;
  private final RemoteRegistrar registrar;

  private RemoteNamespace(RemoteChannel channel, NamespaceProperties properties) {
    this.channel = channel;
    this.properties = properties;
    this.registrar = new RemoteRegistrar(channel, properties);
  }

  /**
   * A namespace, which is registered now if the daemon answers.
   *
   * @throws KvtierException when the daemon refuses the namespace
   */
  public static RemoteNamespace register(RemoteChannel channel, NamespaceProperties properties) {
    RemoteNamespace namespace = new RemoteNamespace(channel, properties);
    namespace.registrar.registerOrThrow();
    return namespace;
  }

  @Override
  public String name() {
    return properties.name();
  }

  @Override
  public long blockBytes() {
    return properties.blockBytes();
  }

  @Override
  public Map<String, String> properties() {
    return properties.all();
  }

  @Override
  public Status status() {
    return registrar.status();
  }

  @Override
  public String detail() {
    return registrar.detail();
  }

  @Override
  public CompletableFuture<ValueResult> unregister() {
    RemoteRegistrar.Registration known = registrar.forget();
    if (known == null) {
      return CompletableFuture.completedFuture(new ValueResult(Status.OK, "", 0));
    }
    NamespaceRequest request = NamespaceRequest.newBuilder().setNamespaceId(known.number()).build();
    return RemoteChannel.done(
        channel.begin(() ->
            channel
                .call(KvtierGrpcClient.Unregister, request, channel.deadlineNs(Options.DEFAULT))
                .map(RemoteNamespace::value)),
        failure -> new ValueResult(failure.status(), failure.why(), 0));
  }

  private static ValueResult value(OutcomeResponse answer) {
    return new ValueResult(
        Status.of(answer.getOutcome().getStatusValue()), answer.getOutcome().getText(), 0);
  }

  private <R> Future<R> ask(
      ServiceMethod<R, KeysRequest> method,
      KeysPart part,
      Function<R, io.kvtier.protocol.v1.Outcome> outcome) {
    return registrar.withNumber(
        part.deadlineNs(),
        known ->
            channel.call(
                method,
                KeysRequest.newBuilder().setKeys(part.message(known.number())).build(),
                part.deadlineNs()),
        answer -> RemoteBatch.statusOf(outcome.apply(answer)));
  }

  private CompletableFuture<BatchResult> blocks(
      ServiceMethod<BlocksResponse, KeysRequest> method, Keys keys, Options options) {
    return RemoteBatch.run(
        channel,
        keys,
        options,
        (part, outcome) ->
            ask(method, part, BlocksResponse::getOutcome)
                .map(answer -> {
                  RemoteBatch.fill(outcome, part, answer.getOutcome(), answer.getBlocksList());
                  return true;
                }));
  }

  @Override
  public CompletableFuture<BatchResult> prefetch(Keys keys, Options options) {
    return blocks(KvtierGrpcClient.Prefetch, keys, options);
  }

  @Override
  public CompletableFuture<BatchResult> pin(Keys keys, Options options) {
    return blocks(KvtierGrpcClient.Pin, keys, options);
  }

  @Override
  public CompletableFuture<BatchResult> unpin(Keys keys, Options options) {
    return blocks(KvtierGrpcClient.Unpin, keys, options);
  }

  @Override
  public CompletableFuture<BatchResult> delete(Keys keys, Options options) {
    return blocks(KvtierGrpcClient.Delete, keys, options);
  }

  @Override
  public CompletableFuture<BatchResult> retain(Keys keys, Duration lifetime, Options options) {
    long lifetimeNs = Lifetimes.nanoseconds(lifetime);
    return RemoteBatch.run(
        channel,
        keys,
        options,
        (part, outcome) ->
            registrar
                .withNumber(
                    part.deadlineNs(),
                    known ->
                        channel.call(
                            KvtierGrpcClient.Retain,
                            RetainRequest.newBuilder()
                                .setKeys(part.message(known.number()))
                                .setLifetimeNs(lifetimeNs)
                                .build(),
                            part.deadlineNs()),
                    (BlocksResponse answer) -> RemoteBatch.statusOf(answer.getOutcome()))
                .map(answer -> {
                  RemoteBatch.fill(outcome, part, answer.getOutcome(), answer.getBlocksList());
                  return true;
                }));
  }

  @Override
  public CompletableFuture<LookupResult> lookup(Keys keys, Options options) {
    LoadTime load = new LoadTime();
    return RemoteBatch.run(
            channel,
            keys,
            options,
            (part, outcome) ->
                ask(KvtierGrpcClient.Lookup, part, LookupResponse::getOutcome)
                    .map(answer -> {
                      RemoteBatch.fill(outcome, part, answer.getOutcome(), answer.getBlocksList());
                      load.add(part, answer);
                      return true;
                    }))
        .thenApply(result ->
            new LookupResult(
                result.status(), result.detail(), result.blocks(), result.run(), load.ns, null));
  }

  /** Whether this is a namespace of the client with a channel. */
  public boolean isOf(RemoteChannel other) {
    return channel.equals(other);
  }

  /** As {@code RemoteClient.findNodes}. */
  public CompletableFuture<NodesResult> findNodes(Keys keys, int limit, Options options) {
    if (keys.count() < 1 || keys.count() > Protocol.KEYS_MAX) {
      throw new IllegalArgumentException(
          keys.count() + " keys, expected 1 to " + Protocol.KEYS_MAX);
    }
    if (limit < 1 || limit > NODES_MAX) {
      throw new IllegalArgumentException("limit is " + limit + ", expected 1 to " + NODES_MAX);
    }
    KeysPart all = KeysPart.at(0, keys, options, channel.deadlineNs(options));
    return RemoteChannel.done(
        channel.begin(() ->
            registrar
                .withNumber(
                    all.deadlineNs(),
                    known ->
                        channel.call(
                            KvtierGrpcClient.FindNodes,
                            FindNodesRequest.newBuilder()
                                .setKeys(all.message(known.number()))
                                .setLimit(limit)
                                .build(),
                            all.deadlineNs()),
                    (FindNodesResponse answer) -> RemoteBatch.statusOf(answer.getOutcome()))
                .map(RemoteNamespace::nodes)),
        failure -> new NodesResult(failure.status(), failure.why(), List.of()));
  }

  private static NodesResult nodes(FindNodesResponse answer) {
    return new NodesResult(
        RemoteBatch.statusOf(answer.getOutcome()),
        answer.getOutcome().getText(),
        answer.getNodesList().stream()
            .map(node ->
                new NodesResult.NodeHold(
                    node.getName(),
                    node.getAddress(),
                    node.getIsSelf(),
                    node.getRun(),
                    node.getMemoryRun(),
                    node.getEstimatedLoadNs()))
            .toList());
  }

  // ---- bytes

  @Override
  public CompletableFuture<BatchResult> get(
      Keys keys, List<MemorySegment> destinations, Options options) {
    CopyArguments.checkDestinations(properties, keys, destinations);
    return RemoteBatch.run(
        channel,
        keys,
        options,
        (part, outcome) ->
            registrar
                .withNumber(
                    part.deadlineNs(),
                    known ->
                        RemoteGet.of(
                            channel,
                            part.message(known.number()),
                            part.of(destinations),
                            blockBytes(),
                            options,
                            part.deadlineNs()),
                    RemoteGet::refusal)
                .map(got -> got.into(outcome, part.from(), keys.count(), options)));
  }

  @Override
  public CompletableFuture<BatchResult> put(
      Keys keys, List<MemorySegment> sources, Options options) {
    CopyArguments.checkSources(properties, keys, sources, null);
    return RemoteBatch.run(
        channel, keys, options, (part, outcome) -> put(part, sources, List.of(), outcome));
  }

  @Override
  public CompletableFuture<BatchResult> put(
      Keys keys, List<MemorySegment> sources, List<byte[]> annotations, Options options) {
    CopyArguments.checkSources(properties, keys, sources, annotations);
    return RemoteBatch.run(
        channel,
        keys,
        options,
        (part, outcome) -> put(part, sources, part.of(annotations), outcome));
  }

  private Future<Boolean> put(
      KeysPart part, List<MemorySegment> sources, List<byte[]> annotations, Outcome outcome) {
    Future<LookupResponse> found =
        part.count() * blockBytes() < LOOKED_UP_BYTES
            ? Future.succeededFuture(LookupResponse.getDefaultInstance())
            : ask(KvtierGrpcClient.Lookup, part, LookupResponse::getOutcome);
    return found
        .compose(there ->
            registrar.withNumber(
                part.deadlineNs(),
                known ->
                    RemotePut.of(
                        channel,
                        part.putHeader(known.number(), annotations),
                        part.of(sources),
                        there.getBlocksList(),
                        known.chunkBytes(),
                        part.deadlineNs()),
                RemotePut::status))
        .map(put -> {
          put.into(outcome, part.from());
          return true;
        });
  }

  // ---- the whole namespace

  private CompletableFuture<ValueResult> counted(
      ServiceMethod<CountResponse, NamespaceRequest> method, Options options) {
    long deadlineNs = channel.deadlineNs(options);
    return RemoteChannel.done(
        channel.begin(() ->
            registrar
                .withNumber(
                    deadlineNs,
                    known ->
                        channel.call(
                            method,
                            NamespaceRequest.newBuilder().setNamespaceId(known.number()).build(),
                            deadlineNs),
                    (CountResponse answer) -> RemoteBatch.statusOf(answer.getOutcome()))
                .map(answer ->
                    new ValueResult(
                        RemoteBatch.statusOf(answer.getOutcome()),
                        answer.getOutcome().getText(),
                        answer.getBlocks()))),
        failure -> new ValueResult(failure.status(), failure.why(), 0));
  }

  @Override
  public CompletableFuture<ValueResult> clear(Options options) {
    return counted(KvtierGrpcClient.Clear, options);
  }

  @Override
  public CompletableFuture<ValueResult> flush(Options options) {
    return counted(KvtierGrpcClient.Flush, options);
  }

  @Override
  public CompletableFuture<ValueResult> reportLoads(LoadReport report, Options options) {
    LoadReports.check(report);
    long deadlineNs = channel.deadlineNs(options);
    return RemoteChannel.done(
        channel.begin(() ->
            registrar
                .withNumber(
                    deadlineNs,
                    known ->
                        channel.call(
                            KvtierGrpcClient.ReportLoads,
                            ReportLoadsRequest.newBuilder()
                                .setNamespaceId(known.number())
                                .setBlocks((int) report.blocks())
                                .setTokens(report.tokens())
                                .setPrefillNs(report.prefillNs())
                                .setLoadNs(report.loadNs())
                                .build(),
                            deadlineNs),
                    (OutcomeResponse answer) -> RemoteBatch.statusOf(answer.getOutcome()))
                .map(RemoteNamespace::value)),
        failure -> new ValueResult(failure.status(), failure.why(), 0));
  }

  @Override
  public String toString() {
    return properties.toString();
  }
}
