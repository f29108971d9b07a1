package io.kvtier.client;

import com.google.protobuf.UnsafeByteOperations;
import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.v1.BlockResult;
import io.kvtier.protocol.v1.BlocksResponse;
import io.kvtier.protocol.v1.CountResponse;
import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.kvtier.protocol.v1.LookupResponse;
import io.kvtier.protocol.v1.NamespaceRequest;
import io.kvtier.protocol.v1.OutcomeResponse;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.kvtier.protocol.v1.ReportLoadsRequest;
import io.vertx.core.Future;
import io.vertx.grpc.common.ServiceMethod;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** One cache layout of a daemon that is asked by gRPC. Thread-safe. */
public final class RemoteNamespace implements CacheNamespace {
  /** The number that the daemon gave the namespace, until it is restarted. */
  record Registration(long number, int chunkBytes) {}

  /** The keys of a batch that go in one call. */
  private record Part(Keys keys, int from, int count, Options options, long deadlineNs) {
    static Part at(int from, Keys keys, Options options, long deadlineNs) {
      return new Part(
          keys, from, Math.min(Protocol.KEYS_MAX, keys.count() - from), options, deadlineNs);
    }

    int end() {
      return from + count;
    }

    <T> List<T> of(List<T> batch) {
      return batch.subList(from, end());
    }

    /** The keys; the key before them is their parent. */
    io.kvtier.protocol.v1.Keys message(Registration known) {
      Options own = Transfers.at(options, keys, from);
      io.kvtier.protocol.v1.Keys.Builder message =
          io.kvtier.protocol.v1.Keys.newBuilder()
              .setNamespaceId(known.number())
              .setGroup(own.group())
              .setDepth(own.depth());
      for (int i = from; i < end(); i++) {
        message.addKeys(UnsafeByteOperations.unsafeWrap(keys.get(i)));
      }
      Keys parent = own.parent();
      if (parent != null) {
        message.setParent(UnsafeByteOperations.unsafeWrap(parent.get(0)));
      }
      return message.build();
    }
  }

  /** The leading run of a lookup, and the estimate of its load time. */
  private static final class LoadTime {
    private int run;
    private long ns;

    void add(Part part, LookupResponse answer) {
      if (run == part.from()) {
        run += answer.getLeadingRun();
        ns += answer.getEstimatedLoadNs();
      }
    }
  }

  /** A put of this many bytes or more looks up first, and sends only the missing blocks. */
  private static final long LOOKED_UP_BYTES = 64 << 10;

  private final RemoteClient client;
  private final RemoteChannel channel;
  private final NamespaceProperties properties;
  private volatile @Nullable Registration registration;
  private volatile Status status = Status.UNAVAILABLE;
  private volatile String detail = "";
  private volatile boolean isUnregistered;

  RemoteNamespace(RemoteClient client, NamespaceProperties properties) {
    this.client = client;
    this.channel = client.channel();
    this.properties = properties;
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
    return status;
  }

  @Override
  public String detail() {
    return detail;
  }

  // ---- registration

  void registerOrThrow() {
    Status outcome =
        RemoteClient.done(
                channel.begin(
                    () -> register(client.deadlineNs(Options.DEFAULT)).map(known -> Status.OK)),
                RemoteChannel.Failure::status)
            .join();
    if (outcome == Status.NAMESPACE_MISMATCH
        || outcome == Status.INVALID_ARGUMENT
        || outcome == Status.TOO_LARGE
        || outcome == Status.DENIED) {
      throw new KvtierException(outcome, detail);
    }
  }

  private Future<Registration> register(long deadlineNs) {
    if (isUnregistered) {
      return Future.failedFuture(
          new RemoteChannel.Failure(Status.NAMESPACE_UNKNOWN, "the namespace was unregistered"));
    }
    RegisterRequest.Builder request =
        RegisterRequest.newBuilder().setName(name()).setBlockBytes(blockBytes());
    properties
        .all()
        .forEach((property, value) -> {
          if (!property.equals("name")) {
            request.putProperties(property, value);
          }
        });
    return channel
        .call(KvtierGrpcClient.Register, request.build(), deadlineNs)
        .compose(this::registered)
        .onFailure(error -> {
          if (error instanceof RemoteChannel.Failure failure) {
            status = failure.status();
            detail = failure.why();
          }
        });
  }

  private Future<Registration> registered(RegisterResponse answer) {
    Status outcome = Status.of(answer.getOutcome().getStatusValue());
    if (outcome != Status.OK) {
      return Future.failedFuture(new RemoteChannel.Failure(outcome, answer.getOutcome().getText()));
    }
    Registration made =
        new Registration(
            answer.getNamespaceId(), Math.clamp(answer.getChunkBytesMax(), 1, 4 << 20));
    registration = made;
    status = Status.OK;
    detail = "";
    return Future.succeededFuture(made);
  }

  /**
   * Makes a call that names the namespace by its number. A restarted daemon has forgotten the
   * number: the call then did nothing, and is made once more with a new number.
   */
  private <T> Future<T> withNumber(
      long deadlineNs, Function<Registration, Future<T>> call, Function<T, Status> outcome) {
    Registration known = registration;
    Future<Registration> ready =
        known == null ? register(deadlineNs) : Future.succeededFuture(known);
    return ready.compose(number ->
        call.apply(number)
            .compose(answer -> {
              if (outcome.apply(answer) != Status.NAMESPACE_UNKNOWN || known == null) {
                return Future.succeededFuture(answer);
              }
              registration = null;
              return register(deadlineNs).compose(call);
            }));
  }

  @Override
  public CompletableFuture<ValueResult> unregister() {
    Registration known = registration;
    isUnregistered = true;
    registration = null;
    status = Status.NAMESPACE_UNKNOWN;
    if (known == null) {
      return CompletableFuture.completedFuture(new ValueResult(Status.OK, "", 0));
    }
    NamespaceRequest request = NamespaceRequest.newBuilder().setNamespaceId(known.number()).build();
    return RemoteClient.done(
        channel.begin(() ->
            channel
                .call(KvtierGrpcClient.Unregister, request, client.deadlineNs(Options.DEFAULT))
                .map(RemoteNamespace::value)),
        failure -> new ValueResult(failure.status(), failure.why(), 0));
  }

  private static ValueResult value(OutcomeResponse answer) {
    return new ValueResult(
        Status.of(answer.getOutcome().getStatusValue()), answer.getOutcome().getText(), 0);
  }

  // ---- batches

  /**
   * Carries out a batch, one part after the other. The blocks of a part that fails have the status
   * of its failure.
   *
   * @param call carries out a part; false: nothing further is asked for
   */
  private CompletableFuture<BatchResult> batch(
      Keys keys, Options options, BiFunction<Part, Outcome, Future<Boolean>> call) {
    Part first = Part.at(0, keys, options, client.deadlineNs(options));
    Outcome outcome = new Outcome(keys.count());
    return RemoteClient.done(
        channel.begin(() -> parts(first, outcome, call)).map(v -> outcome.result()),
        failure -> {
          fail(outcome, 0, keys.count(), failure);
          return outcome.result();
        });
  }

  private static Future<Void> parts(
      Part part, Outcome outcome, BiFunction<Part, Outcome, Future<Boolean>> call) {
    if (part.count() == 0) {
      return Future.succeededFuture();
    }
    return call.apply(part, outcome)
        .recover(error -> {
          if (error instanceof RemoteChannel.Failure failure) {
            fail(outcome, part.from(), part.count(), failure);
            return Future.succeededFuture(true);
          }
          return Future.failedFuture(error);
        })
        .compose(goesOn ->
            goesOn
                ? parts(
                    Part.at(part.end(), part.keys(), part.options(), part.deadlineNs()),
                    outcome,
                    call)
                : Future.succeededFuture());
  }

  private static void fail(Outcome outcome, int from, int count, RemoteChannel.Failure failure) {
    outcome.note(failure.status(), failure.why());
    for (int i = from; i < from + count; i++) {
      outcome.set(i, failure.status(), TierId.NONE);
    }
  }

  private static Status statusOf(io.kvtier.protocol.v1.Outcome outcome) {
    return Status.of(outcome.getStatusValue());
  }

  private static TierId tierOf(BlockResult block) {
    int code = block.getTierValue();
    return code >= 0 && code < TierId.values().length ? TierId.of(code) : TierId.NONE;
  }

  private static void fill(
      Outcome outcome,
      Part part,
      io.kvtier.protocol.v1.Outcome answered,
      List<BlockResult> blocks) {
    Status whole = statusOf(answered);
    if (whole == Status.OK && blocks.size() != part.count()) {
      whole = Status.INTERNAL;
    }
    if (whole != Status.OK) {
      outcome.note(whole, answered.getText());
    }
    for (int i = 0; i < part.count(); i++) {
      outcome.set(
          part.from() + i,
          whole == Status.OK ? Status.of(blocks.get(i).getStatusValue()) : whole,
          whole == Status.OK ? tierOf(blocks.get(i)) : TierId.NONE);
    }
  }

  private <R> Future<R> ask(
      ServiceMethod<R, KeysRequest> method,
      Part part,
      Function<R, io.kvtier.protocol.v1.Outcome> outcome) {
    return withNumber(
        part.deadlineNs(),
        known ->
            channel.call(
                method,
                KeysRequest.newBuilder().setKeys(part.message(known)).build(),
                part.deadlineNs()),
        answer -> statusOf(outcome.apply(answer)));
  }

  private CompletableFuture<BatchResult> blocks(
      ServiceMethod<BlocksResponse, KeysRequest> method, Keys keys, Options options) {
    return batch(
        keys,
        options,
        (part, outcome) ->
            ask(method, part, BlocksResponse::getOutcome)
                .map(answer -> {
                  fill(outcome, part, answer.getOutcome(), answer.getBlocksList());
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
  public CompletableFuture<LookupResult> lookup(Keys keys, Options options) {
    LoadTime load = new LoadTime();
    return batch(
            keys,
            options,
            (part, outcome) ->
                ask(KvtierGrpcClient.Lookup, part, LookupResponse::getOutcome)
                    .map(answer -> {
                      fill(outcome, part, answer.getOutcome(), answer.getBlocksList());
                      load.add(part, answer);
                      return true;
                    }))
        .thenApply(result ->
            new LookupResult(
                result.status(), result.detail(), result.blocks(), result.run(), load.ns, null));
  }

  // ---- bytes

  @Override
  public CompletableFuture<BatchResult> get(
      Keys keys, List<MemorySegment> destinations, Options options) {
    Transfers.checkDestinations(this, keys, destinations);
    return batch(
        keys,
        options,
        (part, outcome) ->
            withNumber(
                    part.deadlineNs(),
                    known ->
                        RemoteGet.of(
                            channel,
                            part.message(known),
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
    Transfers.checkSources(this, keys, sources, null);
    return batch(keys, options, (part, outcome) -> put(part, sources, List.of(), outcome));
  }

  @Override
  public CompletableFuture<BatchResult> put(
      Keys keys, List<MemorySegment> sources, List<byte[]> annotations, Options options) {
    Transfers.checkSources(this, keys, sources, annotations);
    return batch(
        keys, options, (part, outcome) -> put(part, sources, part.of(annotations), outcome));
  }

  private Future<Boolean> put(
      Part part, List<MemorySegment> sources, List<byte[]> annotations, Outcome outcome) {
    Future<LookupResponse> found =
        part.count() * blockBytes() < LOOKED_UP_BYTES
            ? Future.succeededFuture(LookupResponse.getDefaultInstance())
            : ask(KvtierGrpcClient.Lookup, part, LookupResponse::getOutcome);
    return found
        .compose(there ->
            withNumber(
                part.deadlineNs(),
                known ->
                    RemotePut.of(
                        channel,
                        part.message(known),
                        part.of(sources),
                        annotations,
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
    long deadlineNs = client.deadlineNs(options);
    return RemoteClient.done(
        channel.begin(() ->
            withNumber(
                    deadlineNs,
                    known ->
                        channel.call(
                            method,
                            NamespaceRequest.newBuilder().setNamespaceId(known.number()).build(),
                            deadlineNs),
                    (CountResponse answer) -> statusOf(answer.getOutcome()))
                .map(answer ->
                    new ValueResult(
                        statusOf(answer.getOutcome()),
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
    Operations.check(report);
    long deadlineNs = client.deadlineNs(options);
    return RemoteClient.done(
        channel.begin(() ->
            withNumber(
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
                    (OutcomeResponse answer) -> statusOf(answer.getOutcome()))
                .map(answer ->
                    new ValueResult(
                        statusOf(answer.getOutcome()), answer.getOutcome().getText(), 0))),
        failure -> new ValueResult(failure.status(), failure.why(), 0));
  }

  @Override
  public String toString() {
    return properties.toString();
  }
}
