package io.kvtier.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.ByteString;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.v1.BlockResult;
import io.kvtier.protocol.v1.GetRequest;
import io.kvtier.protocol.v1.GetResponse;
import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.KvtierGrpcService;
import io.kvtier.protocol.v1.LookupResponse;
import io.kvtier.protocol.v1.PutRequest;
import io.kvtier.protocol.v1.PutResponse;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.kvtier.protocol.v1.StatusCode;
import io.vertx.core.Completable;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpServer;
import io.vertx.core.streams.ReadStream;
import io.vertx.core.streams.WriteStream;
import io.vertx.grpc.common.GrpcStatus;
import io.vertx.grpc.server.GrpcServer;
import io.vertx.grpc.server.StatusException;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The client over gRPC against a daemon that lies or fails. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
final class RemoteClientTest {
  private static final int BLOCK_BYTES = 512;
  private static final byte[] DATA = data();
  private static final int CRC = crc(DATA);

  private final Liar liar = new Liar();
  private Vertx vertx;
  private RemoteClient client;
  private CacheNamespace namespace;

  /** A daemon with the answers of a test. */
  private static final class Liar extends KvtierGrpcService {
    private List<GetResponse> blocks = List.of();
    private PutResponse put = PutResponse.getDefaultInstance();
    private int refusals;
    private volatile boolean silent;
    private final List<String> calls = new ArrayList<>();

    /** Notes a call; refuses the first ones. */
    private synchronized void call(String name) {
      calls.add(name);
      if (refusals > 0) {
        refusals--;
        throw new StatusException(GrpcStatus.UNAVAILABLE);
      }
    }

    synchronized List<String> calls() {
      return List.copyOf(calls);
    }

    @Override
    public Future<RegisterResponse> register(RegisterRequest request) {
      return Future.succeededFuture(
          RegisterResponse.newBuilder().setNamespaceId(7).setChunkBytesMax(1 << 20).build());
    }

    @Override
    public Future<LookupResponse> lookup(KeysRequest request) {
      call("lookup");
      int keys = request.getKeys().getKeysCount();
      return Future.succeededFuture(
          LookupResponse.newBuilder()
              .addAllBlocks(
                  Stream.generate(BlockResult::getDefaultInstance).limit(keys - 1L).toList())
              .addBlocks(BlockResult.newBuilder().setStatus(StatusCode.STATUS_MISS))
              .setLeadingRun(keys - 1)
              .setEstimatedLoadNs(5)
              .build());
    }

    @Override
    protected void get(GetRequest request, WriteStream<GetResponse> response) {
      call("get");
      if (!silent) {
        blocks.forEach(response::write);
        response.end();
      }
    }

    @Override
    protected void put(ReadStream<PutRequest> request, Completable<PutResponse> response) {
      call("put");
      request.endHandler(v -> response.succeed(put));
      request.resume();
    }
  }

  @BeforeEach
  void open() {
    vertx = Vertx.vertx();
    GrpcServer grpc = GrpcServer.server(vertx);
    liar.bind(grpc);
    HttpServer server =
        vertx
            .createHttpServer()
            .requestHandler(grpc)
            .listen(0, "127.0.0.1")
            .toCompletionStage()
            .toCompletableFuture()
            .join();
    client =
        RemoteClient.builder("grpc://127.0.0.1:" + server.actualPort())
            .timeout(Duration.ofSeconds(30))
            .build();
    namespace = client.namespace("lies", BLOCK_BYTES, Map.of());
  }

  @AfterEach
  void close() {
    client.close();
    vertx.close().toCompletionStage().toCompletableFuture().join();
  }

  private static byte[] data() {
    byte[] data = new byte[BLOCK_BYTES];
    for (int i = 0; i < data.length; i++) {
      data[i] = (byte) i;
    }
    return data;
  }

  private static int crc(byte[] data) {
    CRC32C crc = new CRC32C();
    crc.update(data);
    return (int) crc.getValue();
  }

  private static Keys keys(int count) {
    List<byte[]> keys = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      keys.add(new byte[] {(byte) i, (byte) (i >> 8)});
    }
    return Keys.of(keys);
  }

  private static GetResponse.Builder block(int bytes) {
    return GetResponse.newBuilder()
        .setData(ByteString.copyFrom(DATA, 0, bytes))
        .setCrc32C(CRC)
        .setLast(true);
  }

  static Stream<Arguments> answers() {
    GetResponse whole = block(BLOCK_BYTES).build();
    GetResponse unfinished = block(BLOCK_BYTES).setLast(false).build();
    return Stream.of(
        Arguments.of(Status.OK, List.of(whole)),
        Arguments.of(Status.CORRUPT, List.of(block(BLOCK_BYTES).setCrc32C(CRC ^ 1).build())),
        Arguments.of(Status.CORRUPT, List.of(block(BLOCK_BYTES - 1).build())),
        Arguments.of(Status.CORRUPT, List.of(block(0).build())),
        Arguments.of(Status.UNAVAILABLE, List.of(block(BLOCK_BYTES).setBlock(9).build())),
        Arguments.of(Status.UNAVAILABLE, List.of(block(BLOCK_BYTES).setOffset(1).build())),
        Arguments.of(Status.UNAVAILABLE, List.of(unfinished, whole)),
        Arguments.of(Status.UNAVAILABLE, List.of(unfinished)),
        Arguments.of(Status.INTERNAL, List.of(block(0).setStatusValue(99).build())),
        Arguments.of(Status.UNAVAILABLE, List.of()));
  }

  @ParameterizedTest
  @MethodSource("answers")
  void get_answerMakesNoSense_isNeverABlock(Status expected, List<GetResponse> answer) {
    liar.blocks = answer;
    byte[] memory = new byte[BLOCK_BYTES + 64];
    MemorySegment into = MemorySegment.ofArray(memory).asSlice(0, BLOCK_BYTES);
    BatchResult got = namespace.get(keys(1), List.of(into), Options.DEFAULT).join();
    assertEquals(expected, got.blocks().status(0), got::toString);
    byte[] behind = Arrays.copyOfRange(memory, BLOCK_BYTES, memory.length);
    assertArrayEquals(new byte[64], behind);
  }

  @Test
  void get_daemonRefusesOnce_isRepeated_aPutIsNot() {
    liar.blocks = List.of(block(BLOCK_BYTES).build());
    liar.refusals = 1;
    MemorySegment memory = MemorySegment.ofArray(new byte[BLOCK_BYTES]);
    BatchResult got = namespace.get(keys(1), List.of(memory), Options.DEFAULT).join();
    assertEquals(Status.OK, got.blocks().status(0), got::toString);
    assertEquals(List.of("get", "get"), liar.calls());
    liar.refusals = 1;
    BatchResult put = namespace.put(keys(1), List.of(memory), Options.DEFAULT).join();
    assertEquals(Status.UNAVAILABLE, put.blocks().status(0), put::toString);
    assertEquals(List.of("get", "get", "put"), liar.calls());
  }

  @Test
  void put_answerWithoutBlocks_isNoSuccess() {
    liar.put = PutResponse.getDefaultInstance();
    MemorySegment memory = MemorySegment.ofArray(new byte[BLOCK_BYTES]);
    BatchResult put = namespace.put(keys(1), List.of(memory), Options.DEFAULT).join();
    assertEquals(Status.INTERNAL, put.blocks().status(0), put::toString);
  }

  @Test
  void lookup_runEndsInTheFirstPart_loadTimeIsOfTheRun() {
    LookupResult found = namespace.lookup(keys(3 * 2048), Options.DEFAULT).join();
    assertEquals(2047, found.run());
    assertEquals(5, found.loadTimeNs());
  }

  @Test
  void ping_serverIsNoDaemon_saysWhatTheServerAnswered() {
    HttpServer other =
        vertx
            .createHttpServer()
            .requestHandler(
                request -> request.response().putHeader("content-type", "text/html").end("hello"))
            .listen(0, "127.0.0.1")
            .toCompletionStage()
            .toCompletableFuture()
            .join();
    try (RemoteClient stray =
        RemoteClient.builder("grpc://127.0.0.1:" + other.actualPort()).build()) {
      PingResult ping = stray.ping().join();
      assertEquals(Status.UNAVAILABLE, ping.status(), ping::toString);
      assertEquals(
          "the server answered HTTP 200 text/html, expected HTTP 200 application/grpc",
          ping.detail());
    }
  }

  @Test
  void get_noAnswerInTime_isDeadline() {
    liar.silent = true;
    MemorySegment memory = MemorySegment.ofArray(new byte[BLOCK_BYTES]);
    Options soon = Options.DEFAULT.withTimeout(Duration.ofMillis(300));
    BatchResult got = namespace.get(keys(1), List.of(memory), soon).join();
    assertEquals(Status.DEADLINE, got.blocks().status(0), got::toString);
  }
}
