package io.kvtier.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
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
import io.kvtier.protocol.v1.Outcome;
import io.kvtier.protocol.v1.OutcomeResponse;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.vertx.core.Future;
import io.vertx.grpc.common.ServiceMethod;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** One cache layout of a daemon that is asked by gRPC. Thread-safe. */
public final class RemoteNamespace implements CacheNamespace {
  /** How the daemon names it, until it has forgotten that. */
  record Registration(long number, int chunkBytes) {}

  /** From here on a put asks first which blocks are there: their bytes need not be sent. */
  private static final long LOOKED_UP_BYTES = 64 << 10;

  private static final int ANNOTATION_BYTES_MAX = 2048;

  private final RemoteClient client;
  private final RemoteChannel channel;
  private final String name;
  private final long blockBytes;
  private final Map<String, String> properties;
  private volatile @Nullable Registration registration;
  private volatile Status status = Status.UNAVAILABLE;
  private volatile String detail = "";
  private volatile boolean isUnregistered;

  RemoteNamespace(
      RemoteClient client, String name, long blockBytes, Map<String, String> properties) {
    this.client = client;
    this.channel = client.channel();
    this.name = Objects.requireNonNull(name, "the namespace's name is null");
    this.blockBytes = blockBytes;
    if (name.isEmpty()) {
      throw new IllegalArgumentException(
          "the namespace has no name: give it one that all who share its blocks use");
    }
    if (blockBytes <= 0) {
      throw new IllegalArgumentException("a block has at least 1 byte, not " + blockBytes);
    }
    Map<String, String> all = new TreeMap<>(properties);
    String given = all.put("name", name);
    if (given != null && !given.equals(name)) {
      throw new IllegalArgumentException(
          "the namespace is called '" + name + "', its properties say '" + given + "'");
    }
    this.properties = Map.copyOf(all);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public long blockBytes() {
    return blockBytes;
  }

  @Override
  public Map<String, String> properties() {
    return properties;
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
        RegisterRequest.newBuilder().setName(name).setBlockBytes(blockBytes);
    properties.forEach((property, value) -> {
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
   * Does something with the daemon's number of the namespace. A daemon that was restarted has
   * forgotten it: then it is done once more with a new one, as nothing was done before.
   */
  private <T> Future<T> withNumber(
      long deadlineNs, Function<Registration, Future<T>> what, Function<T, Status> outcome) {
    Registration known = registration;
    Future<Registration> ready =
        known == null ? register(deadlineNs) : Future.succeededFuture(known);
    return ready.compose(number ->
        what.apply(number)
            .compose(answer -> {
              if (outcome.apply(answer) != Status.NAMESPACE_UNKNOWN || known == null) {
                return Future.succeededFuture(answer);
              }
              registration = null;
              return register(deadlineNs).compose(what);
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

  // ---- keys

  private static io.kvtier.protocol.v1.Keys message(
      Registration number, Keys keys, int from, int count, Options options) {
    io.kvtier.protocol.v1.Keys.Builder message =
        io.kvtier.protocol.v1.Keys.newBuilder()
            .setNamespaceId(number.number())
            .setGroup(options.group())
            .setDepth(options.depth() + from);
    for (int i = from; i < from + count; i++) {
      message.addKeys(UnsafeByteOperations.unsafeWrap(keys.get(i)));
    }
    Keys parent = options.parent();
    if (from > 0) {
      message.setParent(ByteString.copyFrom(keys.get(from - 1)));
    } else if (parent != null) {
      message.setParent(ByteString.copyFrom(parent.get(0)));
    }
    return message.build();
  }

  /** One part of a batch after the other. */
  private static Future<Void> eachPart(int count, Function<int[], Future<Boolean>> part, int from) {
    if (from >= count) {
      return Future.succeededFuture();
    }
    int size = Math.min(Protocol.KEYS_MAX, count - from);
    return part.apply(new int[] {from, size})
        .compose(goesOn -> goesOn ? eachPart(count, part, from + size) : Future.succeededFuture());
  }

  private static Status statusOf(Outcome outcome) {
    return Status.of(outcome.getStatusValue());
  }

  private static TierId tierOf(BlockResult block) {
    int code = block.getTierValue();
    return code >= 0 && code < TierId.values().length ? TierId.of(code) : TierId.NONE;
  }

  private static void fill(
      io.kvtier.client.Outcome into, int from, int count, Outcome outcome, List<BlockResult> of) {
    Status whole = statusOf(outcome);
    if (whole == Status.OK && of.size() != count) {
      whole = Status.INTERNAL;
    }
    if (whole != Status.OK) {
      into.note(whole, outcome.getText());
    }
    for (int i = 0; i < count; i++) {
      into.set(
          from + i,
          whole == Status.OK ? Status.of(of.get(i).getStatusValue()) : whole,
          whole == Status.OK ? tierOf(of.get(i)) : TierId.NONE);
    }
  }

  private static void fail(
      io.kvtier.client.Outcome into, int from, int count, RemoteChannel.Failure failure) {
    into.note(failure.status(), failure.why());
    for (int i = from; i < from + count; i++) {
      into.set(i, failure.status(), TierId.NONE);
    }
  }

  /** What does not answer for a part has a status all the same, and the next is asked. */
  private static Future<Boolean> orFail(
      Future<Boolean> part, io.kvtier.client.Outcome into, int[] range) {
    return part.recover(error -> {
      if (error instanceof RemoteChannel.Failure failure) {
        fail(into, range[0], range[1], failure);
        return Future.succeededFuture(true);
      }
      return Future.failedFuture(error);
    });
  }

  private CompletableFuture<BatchResult> blocks(
      ServiceMethod<BlocksResponse, KeysRequest> method, Keys keys, Options options) {
    long deadlineNs = client.deadlineNs(options);
    io.kvtier.client.Outcome outcome = new io.kvtier.client.Outcome(keys.count());
    return RemoteClient.done(
        channel
            .begin(() ->
                eachPart(
                    keys.count(),
                    range ->
                        orFail(
                            withNumber(
                                    deadlineNs,
                                    number ->
                                        channel.call(
                                            method,
                                            KeysRequest.newBuilder()
                                                .setKeys(
                                                    message(
                                                        number, keys, range[0], range[1], options))
                                                .build(),
                                            deadlineNs),
                                    (BlocksResponse answer) -> statusOf(answer.getOutcome()))
                                .map(answer -> {
                                  fill(
                                      outcome,
                                      range[0],
                                      range[1],
                                      answer.getOutcome(),
                                      answer.getBlocksList());
                                  return true;
                                }),
                            outcome,
                            range),
                    0))
            .map(v -> outcome.result()),
        failure -> whole(keys.count(), failure));
  }

  private static BatchResult whole(int count, RemoteChannel.Failure failure) {
    io.kvtier.client.Outcome outcome = new io.kvtier.client.Outcome(count);
    fail(outcome, 0, count, failure);
    return outcome.result();
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

  private Future<LookupResponse> ask(Keys keys, int[] range, Options options, long deadlineNs) {
    return withNumber(
        deadlineNs,
        number -> lookup(number, keys, range, options, deadlineNs),
        answer -> statusOf(answer.getOutcome()));
  }

  private Future<LookupResponse> lookup(
      Registration number, Keys keys, int[] range, Options options, long deadlineNs) {
    return channel.call(
        KvtierGrpcClient.Lookup,
        KeysRequest.newBuilder()
            .setKeys(message(number, keys, range[0], range[1], options))
            .build(),
        deadlineNs);
  }

  @Override
  public CompletableFuture<LookupResult> lookup(Keys keys, Options options) {
    long deadlineNs = client.deadlineNs(options);
    io.kvtier.client.Outcome outcome = new io.kvtier.client.Outcome(keys.count());
    long[] loadNs = new long[1];
    return RemoteClient.done(
            channel
                .begin(() ->
                    eachPart(
                        keys.count(),
                        range ->
                            orFail(
                                ask(keys, range, options, deadlineNs)
                                    .map(answer -> {
                                      fill(
                                          outcome,
                                          range[0],
                                          range[1],
                                          answer.getOutcome(),
                                          answer.getBlocksList());
                                      loadNs[0] += answer.getEstimatedLoadNs();
                                      return true;
                                    }),
                                outcome,
                                range),
                        0))
                .map(v -> outcome.result()),
            failure -> whole(keys.count(), failure))
        .thenApply(result ->
            new LookupResult(
                result.status(), result.detail(), result.blocks(), result.run(), loadNs[0], null));
  }

  // ---- bytes

  private void check(Keys keys, List<MemorySegment> memory, boolean isExact) {
    if (memory.size() != keys.count()) {
      throw new IllegalArgumentException(
          memory.size() + " pieces of memory for " + keys.count() + " keys");
    }
    for (int i = 0; i < memory.size(); i++) {
      long bytes = memory.get(i).byteSize();
      if (isExact ? bytes != blockBytes : bytes < blockBytes) {
        throw new IllegalArgumentException(
            "the memory of block " + i + " has " + bytes + " bytes, a block has " + blockBytes);
      }
    }
  }

  @Override
  public CompletableFuture<BatchResult> get(
      Keys keys, List<MemorySegment> destinations, Options options) {
    check(keys, destinations, false);
    long deadlineNs = client.deadlineNs(options);
    io.kvtier.client.Outcome outcome = new io.kvtier.client.Outcome(keys.count());
    return RemoteClient.done(
        channel
            .begin(() ->
                eachPart(
                    keys.count(),
                    range ->
                        orFail(
                            withNumber(
                                    deadlineNs,
                                    number ->
                                        RemoteGet.of(
                                            channel,
                                            message(number, keys, range[0], range[1], options),
                                            destinations.subList(range[0], range[0] + range[1]),
                                            blockBytes,
                                            options,
                                            deadlineNs),
                                    RemoteGet::refusal)
                                .map(got -> got.into(outcome, range[0], keys.count(), options)),
                            outcome,
                            range),
                    0))
            .map(v -> outcome.result()),
        failure -> whole(keys.count(), failure));
  }

  @Override
  public CompletableFuture<BatchResult> put(
      Keys keys, List<MemorySegment> sources, Options options) {
    return put(keys, sources, List.of(), options);
  }

  @Override
  public CompletableFuture<BatchResult> put(
      Keys keys, List<MemorySegment> sources, List<byte[]> annotations, Options options) {
    check(keys, sources, true);
    if (!annotations.isEmpty() && annotations.size() != keys.count()) {
      throw new IllegalArgumentException(
          annotations.size() + " annotations for " + keys.count() + " keys");
    }
    for (byte[] annotation : annotations) {
      if (annotation.length > ANNOTATION_BYTES_MAX) {
        throw new IllegalArgumentException(
            "an annotation of "
                + annotation.length
                + " bytes, at most "
                + ANNOTATION_BYTES_MAX
                + " are possible");
      }
    }
    long deadlineNs = client.deadlineNs(options);
    io.kvtier.client.Outcome outcome = new io.kvtier.client.Outcome(keys.count());
    return RemoteClient.done(
        channel
            .begin(() ->
                eachPart(
                    keys.count(),
                    range ->
                        orFail(
                            putPart(keys, sources, annotations, range, options, deadlineNs)
                                .map(put -> {
                                  put.into(outcome, range[0]);
                                  return true;
                                }),
                            outcome,
                            range),
                    0))
            .map(v -> outcome.result()),
        failure -> whole(keys.count(), failure));
  }

  private Future<RemotePut> putPart(
      Keys keys,
      List<MemorySegment> sources,
      List<byte[]> annotations,
      int[] range,
      Options options,
      long deadlineNs) {
    Future<LookupResponse> found =
        range[1] * blockBytes < LOOKED_UP_BYTES
            ? Future.succeededFuture(LookupResponse.getDefaultInstance())
            : ask(keys, range, options, deadlineNs);
    return found.compose(there ->
        withNumber(
            deadlineNs,
            number ->
                RemotePut.of(
                    channel,
                    message(number, keys, range[0], range[1], options),
                    sources.subList(range[0], range[0] + range[1]),
                    annotations.isEmpty()
                        ? annotations
                        : annotations.subList(range[0], range[0] + range[1]),
                    there.getBlocksList(),
                    number.chunkBytes(),
                    deadlineNs),
            RemotePut::status));
  }

  // ---- the whole namespace

  private CompletableFuture<ValueResult> counted(
      ServiceMethod<CountResponse, NamespaceRequest> method, Options options) {
    long deadlineNs = client.deadlineNs(options);
    return RemoteClient.done(
        channel.begin(() ->
            withNumber(
                    deadlineNs,
                    number ->
                        channel.call(
                            method,
                            NamespaceRequest.newBuilder().setNamespaceId(number.number()).build(),
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
  public String toString() {
    return "namespace " + name + ", blocks of " + blockBytes + " bytes";
  }
}
