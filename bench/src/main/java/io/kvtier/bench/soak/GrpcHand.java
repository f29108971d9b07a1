package io.kvtier.bench.soak;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.kvtier.protocol.v1.BlockResult;
import io.kvtier.protocol.v1.BlocksResponse;
import io.kvtier.protocol.v1.CountResponse;
import io.kvtier.protocol.v1.GetRequest;
import io.kvtier.protocol.v1.GetResponse;
import io.kvtier.protocol.v1.Keys;
import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.kvtier.protocol.v1.NamespaceRequest;
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
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.net.SocketAddress;
import io.vertx.grpc.client.GrpcClient;
import io.vertx.grpc.client.GrpcClientOptions;
import io.vertx.grpc.client.GrpcClientRequest;
import io.vertx.grpc.client.GrpcClientResponse;
import io.vertx.grpc.common.ServiceMethod;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import java.util.zip.CRC32C;

/**
 * A remote client: bytes inline, each block's checksum sent along with it, and compared with what
 * comes.
 *
 * <p>A call that fails is UNAVAILABLE for all its blocks; UNANSWERED is one for which there was no
 * answer of any kind some time after its deadline; CHECKSUM is a block whose bytes do not have the
 * checksum that came with them.
 */
final class GrpcHand implements Hand {
  private static final int MESSAGE_BYTES_MAX = 8 << 20;
  private static final Duration GRACE = Duration.ofSeconds(50);
  private static final byte[] NOTHING = {};
  private static final String STATUS_PREFIX = "STATUS_";

  private final Vertx vertx = Vertx.vertx();
  private final Context loop = vertx.getOrCreateContext();
  private final GrpcClient client;
  private final SocketAddress address;
  private final String token;
  private final Duration timeout;
  private final Map<String, RegisterResponse> registered = new HashMap<>();

  /**
   * Connects when it is first used.
   *
   * @param hostPort {@code HOST:PORT}
   */
  GrpcHand(String hostPort, String token, Duration timeout) {
    int colon = hostPort.lastIndexOf(':');
    address =
        SocketAddress.inetSocketAddress(
            Integer.parseInt(hostPort.substring(colon + 1)), hostPort.substring(0, colon));
    this.token = token;
    this.timeout = timeout;
    client =
        GrpcClient.client(
            vertx,
            new GrpcClientOptions().setMaxMessageSize(MESSAGE_BYTES_MAX),
            new HttpClientOptions()
                .setProtocolVersion(HttpVersion.HTTP_2)
                .setHttp2ClearTextUpgrade(false));
  }

  @Override
  public List<String> put(
      Space space, List<byte[]> keys, List<byte[]> blocks, List<byte[]> annotations)
      throws Exception {
    return ask(
        space,
        keys.size(),
        namespace -> {
          PutResponse response =
              stream(
                  KvtierGrpcClient.Put,
                  request -> write(request, namespace, keys, blocks, annotations));
          return names(response.getOutcome().getStatus(), response.getBlocksList(), keys.size());
        });
  }

  private static Future<Void> write(
      GrpcClientRequest<PutRequest, PutResponse> request,
      RegisterResponse namespace,
      List<byte[]> keys,
      List<byte[]> blocks,
      List<byte[]> annotations) {
    PutHeader header =
        PutHeader.newBuilder()
            .setKeys(keys(namespace, keys))
            .addAllAnnotations(annotations.stream().map(ByteString::copyFrom).toList())
            .build();
    var _ = request.write(PutRequest.newBuilder().setHeader(header).build());
    int chunkBytes = namespace.getChunkBytesMax();
    for (int block = 0; block < blocks.size(); block++) {
      ByteString whole = UnsafeByteOperations.unsafeWrap(blocks.get(block));
      int sum = checksum(blocks.get(block));
      for (int at = 0; at < whole.size(); at += chunkBytes) {
        PutChunk chunk =
            PutChunk.newBuilder()
                .setBlock(block)
                .setOffset(at)
                .setData(whole.substring(at, Math.min(whole.size(), at + chunkBytes)))
                .setCrc32C(sum)
                .build();
        var _ = request.write(PutRequest.newBuilder().setChunk(chunk).build());
      }
    }
    return request.end();
  }

  @Override
  public Read get(Space space, List<byte[]> keys) throws Exception {
    List<byte[]> blocks = new ArrayList<>(Collections.nCopies(keys.size(), NOTHING));
    int[] checksums = new int[keys.size()];
    List<String> statuses =
        ask(
            space,
            keys.size(),
            namespace -> {
              String[] names = new String[keys.size()];
              GetRequest message = GetRequest.newBuilder().setKeys(keys(namespace, keys)).build();
              StatusCode refusal =
                  await(() ->
                      request(KvtierGrpcClient.Get)
                          .compose(request -> response(request, request.end(message)))
                          .compose(response -> {
                            Promise<StatusCode> done = Promise.promise();
                            var _ = response.exceptionHandler(done::tryFail);
                            var _ =
                                response.handler(piece -> {
                                  if (piece.hasRefusal()) {
                                    done.tryComplete(piece.getRefusal().getStatus());
                                  } else {
                                    take(piece, space.blockBytes(), blocks, checksums, names);
                                  }
                                });
                            var _ =
                                response.endHandler(end -> done.tryComplete(StatusCode.STATUS_OK));
                            return done.future();
                          }));
              List<String> all = new ArrayList<>();
              for (String name : names) {
                all.add(
                    refusal != StatusCode.STATUS_OK
                        ? name(refusal)
                        : name == null ? "UNAVAILABLE" : name);
              }
              return all;
            });
    List<String> checked = new ArrayList<>(statuses);
    for (int i = 0; i < blocks.size(); i++) {
      if (checked.get(i).equals("OK") && checksum(blocks.get(i)) != checksums[i]) {
        checked.set(i, "CHECKSUM");
      }
    }
    return new Read(checked, blocks);
  }

  private static void take(
      GetResponse piece, int blockBytes, List<byte[]> blocks, int[] checksums, String[] names) {
    int block = piece.getBlock();
    long end = piece.getOffset() + piece.getData().size();
    // A wire that lies may send anything.
    if (block < 0 || block >= blocks.size() || piece.getOffset() < 0 || end > blockBytes) {
      return;
    }
    if (blocks.get(block).length == 0) {
      blocks.set(block, new byte[blockBytes]);
    }
    piece.getData().copyTo(blocks.get(block), (int) piece.getOffset());
    checksums[block] = piece.getCrc32C();
    if (piece.getLast()) {
      names[block] = name(piece.getStatus());
    }
  }

  @Override
  public List<String> delete(Space space, List<byte[]> keys) throws Exception {
    return ask(
        space,
        keys.size(),
        namespace -> {
          KeysRequest message = KeysRequest.newBuilder().setKeys(keys(namespace, keys)).build();
          BlocksResponse response =
              stream(KvtierGrpcClient.Delete, request -> request.end(message));
          return names(response.getOutcome().getStatus(), response.getBlocksList(), keys.size());
        });
  }

  @Override
  public List<String> flush(Space space) throws Exception {
    return ask(
        space,
        1,
        namespace -> {
          NamespaceRequest message =
              NamespaceRequest.newBuilder().setNamespaceId(namespace.getNamespaceId()).build();
          CountResponse response = stream(KvtierGrpcClient.Flush, request -> request.end(message));
          return List.of(name(response.getOutcome().getStatus()));
        });
  }

  private interface Asking {
    List<String> ask(RegisterResponse namespace) throws Exception;
  }

  private List<String> ask(Space space, int blocks, Asking asking) throws InterruptedException {
    try {
      RegisterResponse namespace = registered.get(space.name());
      if (namespace == null) {
        namespace = register(space);
        if (namespace.getOutcome().getStatus() != StatusCode.STATUS_OK) {
          return Collections.nCopies(blocks, name(namespace.getOutcome().getStatus()));
        }
        registered.put(space.name(), namespace);
      }
      List<String> statuses = asking.ask(namespace);
      if (statuses.contains("NAMESPACE_UNKNOWN")) {
        // A daemon that was started again: the call did nothing.
        registered.clear();
        return Collections.nCopies(blocks, "UNAVAILABLE");
      }
      return statuses;
    } catch (ExecutionException e) {
      return Collections.nCopies(blocks, "UNAVAILABLE");
    } catch (TimeoutException e) {
      return Collections.nCopies(blocks, "UNANSWERED");
    } catch (InterruptedException e) {
      throw e;
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  private RegisterResponse register(Space space) throws Exception {
    RegisterRequest message =
        RegisterRequest.newBuilder()
            .setName(space.name())
            .setBlockBytes(space.blockBytes())
            .putProperties("model", "soak")
            .build();
    return stream(KvtierGrpcClient.Register, request -> request.end(message));
  }

  private interface Writing<Q, R> {
    /** Sends the question. */
    Future<Void> write(GrpcClientRequest<Q, R> request);
  }

  /** A call with one answer. */
  private <Q, R> R stream(ServiceMethod<R, Q> method, Writing<Q, R> writing) throws Exception {
    return await(() ->
        request(method)
            .compose(request -> response(request, writing.write(request)))
            .compose(response -> response.last()));
  }

  /** What comes of a question. One that could not be sent has no answer: that is known at once. */
  private static <Q, R> Future<GrpcClientResponse<Q, R>> response(
      GrpcClientRequest<Q, R> request, Future<Void> sent) {
    Promise<GrpcClientResponse<Q, R>> response = Promise.promise();
    var _ = sent.onFailure(response::tryFail);
    var _ = request.response().onSuccess(response::tryComplete).onFailure(response::tryFail);
    return response.future();
  }

  private <Q, R> Future<GrpcClientRequest<Q, R>> request(ServiceMethod<R, Q> method) {
    return client
        .request(address, method)
        .map(request -> {
          request.headers().set("authorization", "Bearer " + token);
          return request.timeout(timeout.toMillis(), TimeUnit.MILLISECONDS);
        });
  }

  /** Begins a call on its event loop: from elsewhere, messages could come before their handler. */
  private <T> T await(Supplier<Future<T>> call) throws Exception {
    Promise<T> done = Promise.promise();
    loop.runOnContext(nothing -> call.get().onComplete(done));
    return done.future()
        .toCompletionStage()
        .toCompletableFuture()
        .get(timeout.plus(GRACE).toMillis(), TimeUnit.MILLISECONDS);
  }

  private static Keys keys(RegisterResponse namespace, List<byte[]> keys) {
    Keys.Builder builder = Keys.newBuilder().setNamespaceId(namespace.getNamespaceId());
    keys.forEach(key -> builder.addKeys(ByteString.copyFrom(key)));
    return builder.build();
  }

  private static List<String> names(StatusCode outcome, List<BlockResult> blocks, int count) {
    return blocks.size() == count
        ? blocks.stream().map(block -> name(block.getStatus())).toList()
        : Collections.nCopies(count, name(outcome));
  }

  private static String name(StatusCode status) {
    return status.name().startsWith(STATUS_PREFIX)
        ? status.name().substring(STATUS_PREFIX.length())
        : "UNRECOGNIZED";
  }

  private static int checksum(byte[] bytes) {
    CRC32C checksum = new CRC32C();
    checksum.update(bytes);
    return (int) checksum.getValue();
  }

  @Override
  public void close() {
    var _ = client.close().eventually(vertx::close);
  }
}
