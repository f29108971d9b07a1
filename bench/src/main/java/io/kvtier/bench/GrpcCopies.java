package io.kvtier.bench;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.kvtier.protocol.v1.BlockResult;
import io.kvtier.protocol.v1.CountResponse;
import io.kvtier.protocol.v1.GetRequest;
import io.kvtier.protocol.v1.GetResponse;
import io.kvtier.protocol.v1.Keys;
import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.kvtier.protocol.v1.LookupResponse;
import io.kvtier.protocol.v1.NamespaceRequest;
import io.kvtier.protocol.v1.PingRequest;
import io.kvtier.protocol.v1.PutChunk;
import io.kvtier.protocol.v1.PutHeader;
import io.kvtier.protocol.v1.PutRequest;
import io.kvtier.protocol.v1.PutResponse;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.kvtier.protocol.v1.StatusCode;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.http.Http2Settings;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.net.SocketAddress;
import io.vertx.core.streams.ReadStream;
import io.vertx.core.streams.WriteStream;
import io.vertx.grpc.client.GrpcClient;
import io.vertx.grpc.client.GrpcClientOptions;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * Calls of a remote client: one connection, one call after the other, bytes copied to the caller.
 */
final class GrpcCopies implements AutoCloseable {
  private static final int TIMEOUT_S = 30;
  private static final int WINDOW_BYTES = 16 << 20;
  private static final int MESSAGE_BYTES_MAX = 8 << 20;

  private final Vertx vertx = Vertx.vertx();
  private final Context loop = vertx.getOrCreateContext();
  private final GrpcClient grpc;
  private final KvtierGrpcClient client;
  private int blockBytes;
  private int batch;
  private int chunkBytes;
  private long gets;
  private long puts;
  private final List<Keys> getKeys = new ArrayList<>();
  private ByteBuffer destination = ByteBuffer.allocate(0);
  private byte[] source = new byte[0];
  private int next;
  private long nextPut;

  /**
   * Connects.
   *
   * @param address {@code HOST:PORT}
   */
  GrpcCopies(String address) {
    int colon = address.lastIndexOf(':');
    SocketAddress socket =
        SocketAddress.inetSocketAddress(
            Integer.parseInt(address.substring(colon + 1)), address.substring(0, colon));
    grpc =
        GrpcClient.client(
            vertx,
            new GrpcClientOptions().setMaxMessageSize(MESSAGE_BYTES_MAX),
            new HttpClientOptions()
                .setProtocolVersion(HttpVersion.HTTP_2)
                .setHttp2ClearTextUpgrade(false)
                .setInitialSettings(new Http2Settings().setInitialWindowSize(WINDOW_BYTES))
                .setHttp2ConnectionWindowSize(WINDOW_BYTES));
    client = KvtierGrpcClient.create(grpc, socket);
  }

  /** Puts a working set of blocks of one size, which the gets then read. */
  void fill(int newBlockBytes, int blocks, int newBatch) throws Exception {
    blockBytes = newBlockBytes;
    batch = newBatch;
    gets = register("bench-get-" + blockBytes);
    puts = register("bench-put-" + blockBytes);
    destination = ByteBuffer.allocateDirect(batch * blockBytes);
    source = new byte[batch * blockBytes];
    new SplittableRandom(blockBytes).nextBytes(source);
    getKeys.clear();
    next = 0;
    for (int from = 0; from < blocks; from += batch) {
      Keys keys = keys(gets, JavaCopies.GET_TAG, from, batch);
      getKeys.add(keys);
      put(keys);
    }
  }

  private long register(String name) throws Exception {
    RegisterResponse response =
        await(
            client.register(
                RegisterRequest.newBuilder().setName(name).setBlockBytes(blockBytes).build()));
    require(response.getOutcome().getStatus());
    chunkBytes = response.getChunkBytesMax();
    return response.getNamespaceId();
  }

  /** Keys as {@link BenchKeys} has them. */
  private static Keys keys(long namespaceId, long tag, long from, int count) {
    Keys.Builder keys = Keys.newBuilder().setNamespaceId(namespaceId);
    for (int i = 0; i < count; i++) {
      byte[] key = new byte[BenchKeys.KEY_BYTES];
      BenchKeys.put(java.lang.foreign.MemorySegment.ofArray(key), 0, tag, from + i);
      keys.addKeys(UnsafeByteOperations.unsafeWrap(key));
    }
    return keys.build();
  }

  void ping() throws Exception {
    require(await(client.ping(PingRequest.getDefaultInstance())).getOutcome().getStatus());
  }

  /** A request for the first blocks of the working set. */
  KeysRequest lookupRequest(int count) {
    return KeysRequest.newBuilder().setKeys(keys(gets, JavaCopies.GET_TAG, 0, count)).build();
  }

  LookupResponse lookup(KeysRequest request) throws Exception {
    LookupResponse response = await(client.lookup(request));
    require(response.getOutcome().getStatus());
    if (response.getLeadingRun() != request.getKeys().getKeysCount()) {
      throw new IllegalStateException("a run of " + response.getLeadingRun());
    }
    return response;
  }

  /** Copies batches out for a while; bytes per nanosecond. */
  double getGbps(long durationNs) throws Exception {
    long calls = 0;
    long took = 0;
    while (took < durationNs) {
      Keys keys = getKeys.get(next);
      next = (next + 1) % getKeys.size();
      GetRequest request = GetRequest.newBuilder().setKeys(keys).build();
      long started = System.nanoTime();
      int whole = await(onLoop(() -> client.get(request).compose(this::collect)));
      took += System.nanoTime() - started;
      calls++;
      if (whole != batch
          || destination.get(0) != source[0]
          || destination.get(source.length - 1) != source[source.length - 1]) {
        throw new IllegalStateException(whole + " of " + batch + " blocks came, or wrong ones");
      }
    }
    return calls * (double) source.length / took;
  }

  private Future<Integer> collect(ReadStream<GetResponse> responses) {
    Promise<Integer> done = Promise.promise();
    int[] whole = {0};
    var _ = responses.exceptionHandler(done::tryFail);
    var _ =
        responses.handler(message -> {
          ByteString data = message.getData();
          long at = (long) message.getBlock() * blockBytes + message.getOffset();
          data.copyTo(destination.clear().position((int) at));
          if (message.getLast() && message.getStatus() == StatusCode.STATUS_OK) {
            whole[0]++;
          }
        });
    var _ = responses.endHandler(end -> done.tryComplete(whole[0]));
    return done.future();
  }

  /** Copies fresh blocks in for a while, at most that many batches, and clears them. */
  double putGbps(long durationNs) throws Exception {
    long calls = 0;
    long took = 0;
    while (took < durationNs && calls < getKeys.size()) {
      Keys keys = keys(puts, JavaCopies.PUT_TAG, nextPut, batch);
      nextPut += batch;
      long started = System.nanoTime();
      put(keys);
      took += System.nanoTime() - started;
      calls++;
    }
    CountResponse cleared =
        await(client.clear(NamespaceRequest.newBuilder().setNamespaceId(puts).build()));
    if (cleared.getBlocks() != calls * batch) {
      throw new IllegalStateException(
          "cleared " + cleared.getBlocks() + " after " + calls * batch + " blocks were put");
    }
    return calls * (double) source.length / took;
  }

  private void put(Keys keys) throws Exception {
    PutResponse response =
        await(
            client.put((stream, failure) -> {
              if (failure == null) {
                var _ =
                    stream.write(
                        PutRequest.newBuilder()
                            .setHeader(PutHeader.newBuilder().setKeys(keys))
                            .build());
                writeFrom(stream, 0);
              }
            }));
    require(response.getOutcome().getStatus());
    for (BlockResult block : response.getBlocksList()) {
      require(block.getStatus());
    }
  }

  /** Writes the chunks from that byte of the batch on, pausing while the stream is full. */
  private void writeFrom(WriteStream<PutRequest> stream, int from) {
    int at = from;
    while (at < source.length) {
      if (stream.writeQueueFull()) {
        int resumeAt = at;
        var _ =
            stream.drainHandler(nothing -> {
              var _ = stream.drainHandler(null);
              writeFrom(stream, resumeAt);
            });
        return;
      }
      int block = at / blockBytes;
      int offset = at % blockBytes;
      int bytes = Math.min(chunkBytes, blockBytes - offset);
      var _ =
          stream.write(
              PutRequest.newBuilder()
                  .setChunk(
                      PutChunk.newBuilder()
                          .setBlock(block)
                          .setOffset(offset)
                          .setData(UnsafeByteOperations.unsafeWrap(source, at, bytes)))
                  .build());
      at += bytes;
    }
    var _ = stream.end();
  }

  /** Begins a call on its event loop: from elsewhere, messages could come before their handler. */
  private <T> Future<T> onLoop(Supplier<Future<T>> call) {
    Promise<T> done = Promise.promise();
    loop.runOnContext(nothing -> call.get().onComplete(done));
    return done.future();
  }

  private static <T> T await(Future<T> future) throws Exception {
    return future.toCompletionStage().toCompletableFuture().get(TIMEOUT_S, TimeUnit.SECONDS);
  }

  private static void require(StatusCode status) {
    if (status != StatusCode.STATUS_OK) {
      throw new IllegalStateException("answered " + status);
    }
  }

  @Override
  public void close() {
    var _ =
        grpc.close()
            .eventually(vertx::close)
            .toCompletionStage()
            .toCompletableFuture()
            .orTimeout(TIMEOUT_S, TimeUnit.SECONDS)
            .join();
  }
}
