package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.kvtier.daemon.Daemon;
import io.kvtier.daemon.SmallDaemon;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.v1.BlockResult;
import io.kvtier.protocol.v1.BlocksResponse;
import io.kvtier.protocol.v1.CancelRequest;
import io.kvtier.protocol.v1.CountResponse;
import io.kvtier.protocol.v1.FindNodesRequest;
import io.kvtier.protocol.v1.FindNodesResponse;
import io.kvtier.protocol.v1.GetRequest;
import io.kvtier.protocol.v1.GetResponse;
import io.kvtier.protocol.v1.Keys;
import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.kvtier.protocol.v1.LookupResponse;
import io.kvtier.protocol.v1.NamespaceRequest;
import io.kvtier.protocol.v1.PingRequest;
import io.kvtier.protocol.v1.PingResponse;
import io.kvtier.protocol.v1.PutChunk;
import io.kvtier.protocol.v1.PutHeader;
import io.kvtier.protocol.v1.PutRequest;
import io.kvtier.protocol.v1.PutResponse;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.kvtier.protocol.v1.StatsRequest;
import io.kvtier.protocol.v1.StatsResponse;
import io.kvtier.protocol.v1.StatusCode;
import io.kvtier.protocol.v1.Tier;
import io.netty.channel.ChannelConfig;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.Http2Settings;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.http.RequestOptions;
import io.vertx.core.net.SocketAddress;
import io.vertx.core.net.impl.ConnectionBase;
import io.vertx.grpc.client.GrpcClient;
import io.vertx.grpc.client.GrpcClientOptions;
import io.vertx.grpc.client.GrpcClientRequest;
import io.vertx.grpc.client.GrpcClientResponse;
import io.vertx.grpc.common.GrpcMessage;
import io.vertx.grpc.common.GrpcStatus;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The gRPC server of a whole daemon on loopback, with a client of Vert.x. */
@Timeout(120)
final class GrpcFrontTest {
  private static final int CHUNK_BYTES = 64 << 10;
  private static final int BLOCK_BYTES = 200_000; // four chunks, the last one shorter
  private static final int LARGE_BYTES = 3 << 20;

  @TempDir private Path directory;
  private Daemon daemon;
  private Vertx vertx;
  private GrpcClient grpc;
  private SocketAddress address;
  private KvtierGrpcClient client;

  @BeforeEach
  void start() throws Exception {
    daemon = new Daemon(ConfigLoader.load(null, settings(0)));
    String[] hostAndPort = String.valueOf(daemon.grpcAddress()).split(":", -1);
    address = SocketAddress.inetSocketAddress(Integer.parseInt(hostAndPort[1]), hostAndPort[0]);
    vertx = Vertx.vertx();
    grpc = newClient();
    client = KvtierGrpcClient.create(grpc, address);
  }

  private List<String> settings(int port) {
    return SmallDaemon.withSsd(
        directory,
        "socket.path=" + directory.resolve("kvtier-" + port + ".sock"),
        "ssd.directory=" + directory.resolve("ssd-" + port),
        "grpc.port=" + port,
        "http.enabled=false",
        "grpc.threads=3",
        "grpc.chunk_bytes=64KiB");
  }

  private GrpcClient newClient() {
    return GrpcClient.client(
        vertx,
        new GrpcClientOptions().setMaxMessageSize(8 << 20),
        new HttpClientOptions()
            .setProtocolVersion(HttpVersion.HTTP_2)
            // A stream that is not read takes from the window of all: let it not take everything.
            .setHttp2ConnectionWindowSize(32 << 20)
            .setHttp2ClearTextUpgrade(false));
  }

  @AfterEach
  void stop() {
    await(grpc.close());
    await(vertx.close());
    daemon.close();
  }

  // ---- helpers
  // --------------------------------------------------------------------------------------------------

  private static <T> T await(Future<T> future) {
    try {
      return future.toCompletionStage().toCompletableFuture().get(60, TimeUnit.SECONDS);
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }

  private static void eventually(BooleanSupplier condition) {
    long end = System.nanoTime() + 60_000_000_000L;
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() < end, "it never came true");
      LockSupport.parkNanos(1_000_000);
    }
  }

  private long register(String name, int blockBytes) {
    return register(name, blockBytes, "m");
  }

  private long register(String name, int blockBytes, String model) {
    RegisterResponse response =
        await(
            client.register(
                RegisterRequest.newBuilder()
                    .setName(name)
                    .setBlockBytes(blockBytes)
                    .putProperties("model", model)
                    .build()));
    assertEquals(StatusCode.STATUS_OK, response.getOutcome().getStatus());
    assertEquals(CHUNK_BYTES, response.getChunkBytesMax());
    return response.getNamespaceId();
  }

  private static Keys keys(long namespace, int from, int count) {
    return Keys.newBuilder()
        .setNamespaceId(namespace)
        .addAllKeys(IntStream.range(from, from + count).mapToObj(GrpcFrontTest::key).toList())
        .build();
  }

  private static ByteString key(int i) {
    byte[] key = new byte[20];
    new Random(i).nextBytes(key);
    return ByteString.copyFrom(key);
  }

  private static KeysRequest keysRequest(long namespace, int from, int count) {
    return KeysRequest.newBuilder().setKeys(keys(namespace, from, count)).build();
  }

  private static byte[] bytes(int block, int length) {
    byte[] bytes = new byte[length];
    new Random(block * 31L + 7).nextBytes(bytes);
    return bytes;
  }

  private static int crc(byte[] bytes) {
    CRC32C crc = new CRC32C();
    crc.update(bytes);
    return (int) crc.getValue();
  }

  private static PutRequest header(Keys keys, long operationId) {
    return PutRequest.newBuilder()
        .setHeader(PutHeader.newBuilder().setKeys(keys).setOperationId(operationId))
        .build();
  }

  private static PutRequest chunk(int block, byte[] bytes, int offset, int length) {
    PutChunk.Builder chunk =
        PutChunk.newBuilder()
            .setBlock(block)
            .setOffset(offset)
            .setData(ByteString.copyFrom(bytes, offset, length));
    if (offset + length == bytes.length) {
      chunk.setCrc32C(crc(bytes));
    }
    return PutRequest.newBuilder().setChunk(chunk).build();
  }

  private static List<PutRequest> chunks(int block, byte[] bytes) {
    List<PutRequest> chunks = new ArrayList<>();
    for (int offset = 0; offset < bytes.length; offset += CHUNK_BYTES) {
      chunks.add(chunk(block, bytes, offset, Math.min(CHUNK_BYTES, bytes.length - offset)));
    }
    return chunks;
  }

  private GrpcClientRequest<PutRequest, PutResponse> beginPut() {
    return await(grpc.request(address, KvtierGrpcClient.Put));
  }

  /** Puts of one block each that have sent their headers, and no more. */
  private List<GrpcClientRequest<PutRequest, PutResponse>> beginPuts(long namespace, int count) {
    List<GrpcClientRequest<PutRequest, PutResponse>> requests = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      GrpcClientRequest<PutRequest, PutResponse> request = beginPut();
      request.exceptionHandler(e -> {});
      request.write(header(keys(namespace, i, 1), 0));
      requests.add(request);
    }
    return requests;
  }

  private PutResponse put(List<PutRequest> messages) {
    GrpcClientRequest<PutRequest, PutResponse> request = beginPut();
    Future<PutResponse> response = request.response().compose(r -> r.last());
    messages.forEach(request::write);
    request.end();
    return await(response);
  }

  private PutResponse put(long namespace, int from, int count, int blockBytes) {
    List<PutRequest> messages = new ArrayList<>();
    messages.add(header(keys(namespace, from, count), 0));
    for (int i = 0; i < count; i++) {
      messages.addAll(chunks(i, bytes(from + i, blockBytes)));
    }
    return put(messages);
  }

  private static List<StatusCode> statuses(List<BlockResult> blocks) {
    return blocks.stream().map(BlockResult::getStatus).toList();
  }

  private static List<StatusCode> all(StatusCode status, int count) {
    return IntStream.range(0, count).mapToObj(i -> status).toList();
  }

  private List<GetResponse> get(GetRequest request) {
    CompletableFuture<List<GetResponse>> all = new CompletableFuture<>();
    List<GetResponse> messages = new ArrayList<>();
    // On the stream's own loop: elsewhere messages may come before their handler.
    vertx.runOnContext(v ->
        client
            .get(request)
            .onFailure(all::completeExceptionally)
            .onSuccess(stream ->
                stream
                    .handler(messages::add)
                    .exceptionHandler(all::completeExceptionally)
                    .endHandler(end -> all.complete(messages))));
    try {
      return all.get(60, TimeUnit.SECONDS);
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void put_annotated_annotationsAreKeptUntilTheBlocksGo() {
    long namespace = register("annotated", 1000);
    List<PutRequest> messages = new ArrayList<>();
    PutHeader.Builder header = PutHeader.newBuilder().setKeys(keys(namespace, 0, 40));
    for (int i = 0; i < 40; i++) {
      header.addAnnotations(ByteString.copyFrom(new byte[i * 50]));
    }
    messages.add(PutRequest.newBuilder().setHeader(header).build());
    for (int i = 0; i < 40; i++) {
      messages.addAll(chunks(i, bytes(i, 1000)));
    }
    assertEquals(all(StatusCode.STATUS_OK, 40), statuses(put(messages).getBlocksList()));
    assertTrue(counters().getOrDefault("annotation_bytes", 0L) > 50 * 40 * 39 / 2);
    await(client.delete(keysRequest(namespace, 0, 40)));
    assertEquals(0, counters().get("annotation_bytes"));
  }

  @Test
  void put_wrongAnnotations_isRefused() {
    long namespace = register("annotated", 1000);
    PutHeader.Builder header =
        PutHeader.newBuilder().setKeys(keys(namespace, 0, 2)).addAnnotations(ByteString.EMPTY);
    PutResponse few = put(List.of(PutRequest.newBuilder().setHeader(header).build()));
    assertEquals(StatusCode.STATUS_INVALID_ARGUMENT, few.getOutcome().getStatus());
    assertEquals("1 annotation for 2 keys", few.getOutcome().getText());
    header.addAnnotations(ByteString.copyFrom(new byte[2049]));
    PutResponse large = put(List.of(PutRequest.newBuilder().setHeader(header).build()));
    assertEquals(StatusCode.STATUS_TOO_LARGE, large.getOutcome().getStatus());
  }

  private void assertBytes(long namespace, int from, int count, int blockBytes) {
    List<GetResponse> messages =
        get(GetRequest.newBuilder().setKeys(keys(namespace, from, count)).build());
    int message = 0;
    for (int i = 0; i < count; i++) {
      byte[] expected = bytes(from + i, blockBytes);
      byte[] got = new byte[blockBytes];
      for (int offset = 0; offset < blockBytes; offset += CHUNK_BYTES) {
        GetResponse chunk = messages.get(message++);
        int length = Math.min(CHUNK_BYTES, blockBytes - offset);
        assertEquals(StatusCode.STATUS_OK, chunk.getStatus());
        assertEquals(i, chunk.getBlock());
        assertEquals(offset, chunk.getOffset());
        assertEquals(length, chunk.getData().size());
        assertEquals(crc(expected), chunk.getCrc32C());
        assertEquals(offset + length == blockBytes, chunk.getLast());
        chunk.getData().copyTo(got, offset);
      }
      assertArrayEquals(expected, got);
    }
    assertEquals(messages.size(), message);
  }

  private Map<String, Long> counters() {
    return await(client.stats(StatsRequest.getDefaultInstance())).getCountersMap();
  }

  private void assertNothingHeld() {
    eventually(() -> {
      Map<String, Long> counters = counters();
      return counters.getOrDefault("leases", -1L) == 0
          && counters.getOrDefault("reservations", -1L) == 0
          && counters.getOrDefault("operations", -1L) == 0;
    });
  }

  // ---- verbs
  // ----------------------------------------------------------------------------------------------------

  @Test
  void ping_saysWhatTheDaemonIs() {
    PingResponse response = await(client.ping(PingRequest.getDefaultInstance()));

    assertEquals(StatusCode.STATUS_OK, response.getOutcome().getStatus());
    assertEquals(Daemon.VERSION, response.getVersion());
    assertEquals(Protocol.VERSION_MAJOR + "." + Protocol.VERSION_MINOR, response.getProtocol());
    assertEquals(CHUNK_BYTES, response.getChunkBytesMax());
  }

  @Test
  void putThenGet_givesTheSameBytesInChunks() {
    long namespace = register("a", BLOCK_BYTES);

    PutResponse stored = put(namespace, 0, 5, BLOCK_BYTES);

    assertEquals(StatusCode.STATUS_OK, stored.getOutcome().getStatus());
    assertEquals(all(StatusCode.STATUS_OK, 5), statuses(stored.getBlocksList()));
    assertBytes(namespace, 0, 5, BLOCK_BYTES);
    assertNothingHeld();
    assertEquals(
        all(StatusCode.STATUS_EXISTS, 5),
        statuses(put(namespace, 0, 5, BLOCK_BYTES).getBlocksList()));
  }

  @Test
  void putThenGet_moreThanTheHostTier_comesBackFromSsd() {
    long namespace = register("a", LARGE_BYTES);

    for (int i = 0; i < 6; i++) {
      assertEquals(
          List.of(StatusCode.STATUS_OK),
          statuses(put(namespace, i, 1, LARGE_BYTES).getBlocksList()));
    }

    assertBytes(namespace, 0, 6, LARGE_BYTES);
    assertNothingHeld();
    assertTrue(counters().getOrDefault("hits_ssd", 0L) > 0);
  }

  @Test
  void putThenGet_manySmallBlocks_crossWindows() {
    long namespace = register("a", 1000);

    PutResponse stored = put(namespace, 0, 1500, 1000);

    assertEquals(all(StatusCode.STATUS_OK, 1500), statuses(stored.getBlocksList()));
    assertBytes(namespace, 0, 1500, 1000);
    assertNothingHeld();
  }

  @Test
  void lookup_givesTheLeadingRun() {
    long namespace = register("a", BLOCK_BYTES);
    put(namespace, 0, 3, BLOCK_BYTES);

    LookupResponse found = await(client.lookup(keysRequest(namespace, 0, 4)));

    assertEquals(3, found.getLeadingRun());
    assertEquals(StatusCode.STATUS_MISS, found.getBlocks(3).getStatus());
    assertEquals(Tier.TIER_HOST, found.getBlocks(0).getTier());
  }

  @Test
  void findNodes_onOneNode_givesTheRunOfThatNode() {
    long namespace = register("a", BLOCK_BYTES);
    put(namespace, 0, 3, BLOCK_BYTES);
    FindNodesRequest.Builder request =
        FindNodesRequest.newBuilder().setKeys(keysRequest(namespace, 0, 4).getKeys());

    FindNodesResponse found = await(client.findNodes(request.build()));

    assertEquals(StatusCode.STATUS_OK, found.getOutcome().getStatus());
    assertEquals(1, found.getNodesCount());
    assertTrue(found.getNodes(0).getIsSelf());
    assertEquals(3, found.getNodes(0).getRun());
    assertEquals(3, found.getNodes(0).getMemoryRun());
    FindNodesResponse tooMany = await(client.findNodes(request.setLimit(1025).build()));
    assertEquals(StatusCode.STATUS_INVALID_ARGUMENT, tooMany.getOutcome().getStatus());
    assertTrue(tooMany.getOutcome().getText().contains("1 to 1024"), tooMany::toString);
  }

  @Test
  void get_withMisses_saysWhich() {
    long namespace = register("a", 1000);
    put(namespace, 1, 2, 1000);

    List<GetResponse> messages =
        get(GetRequest.newBuilder().setKeys(keys(namespace, 0, 4)).build());

    assertEquals(
        List.of(
            StatusCode.STATUS_MISS,
            StatusCode.STATUS_OK,
            StatusCode.STATUS_OK,
            StatusCode.STATUS_MISS),
        messages.stream().map(GetResponse::getStatus).toList());
    messages =
        get(GetRequest.newBuilder().setKeys(keys(namespace, 0, 4)).setLeadingRun(true).build());
    assertEquals(
        all(StatusCode.STATUS_MISS, 4), messages.stream().map(GetResponse::getStatus).toList());
    assertNothingHeld();
  }

  @Test
  void prefetchDeleteClearFlush_actOnBlocks() {
    long namespace = register("a", BLOCK_BYTES);
    put(namespace, 0, 4, BLOCK_BYTES);
    NamespaceRequest whole = NamespaceRequest.newBuilder().setNamespaceId(namespace).build();

    CountResponse flushed = await(client.flush(whole));
    BlocksResponse prefetched = await(client.prefetch(keysRequest(namespace, 0, 5)));
    BlocksResponse deleted = await(client.delete(keysRequest(namespace, 3, 2)));
    CountResponse cleared = await(client.clear(whole));

    assertEquals(StatusCode.STATUS_OK, flushed.getOutcome().getStatus());
    assertEquals(
        List.of(0, 0, 0, 0, 1),
        prefetched.getBlocksList().stream().map(BlockResult::getStatusValue).toList());
    assertEquals(
        List.of(StatusCode.STATUS_OK, StatusCode.STATUS_MISS), statuses(deleted.getBlocksList()));
    assertEquals(3, cleared.getBlocks());
    assertEquals(0, await(client.lookup(keysRequest(namespace, 0, 4))).getLeadingRun());
  }

  @Test
  void stats_hasJsonAndCounters() {
    StatsResponse stats = await(client.stats(StatsRequest.getDefaultInstance()));

    assertTrue(stats.getJson().startsWith("{\"version\":"), stats.getJson());
    assertTrue(stats.getCountersMap().containsKey("put_blocks"));
  }

  // ---- pins
  // -----------------------------------------------------------------------------------------------------

  private long pins() {
    String json = await(client.stats(StatsRequest.getDefaultInstance())).getJson();
    String field = "\"pins\":";
    long pins = 0;
    int at = json.indexOf("\"name\":\"gRPC\"");
    while (at >= 0) {
      int from = json.indexOf(field, at) + field.length();
      pins += Long.parseLong(json.substring(from, json.indexOf(',', from)));
      at = json.indexOf("\"name\":\"gRPC\"", from);
    }
    return pins;
  }

  @Test
  void pin_isCountedAndTakenBackByItsConnectionOnly() {
    long namespace = register("a", 1000);
    put(namespace, 0, 2, 1000);
    GrpcClient other = newClient();
    KvtierGrpcClient otherClient = KvtierGrpcClient.create(other, address);

    BlocksResponse pinned = await(client.pin(keysRequest(namespace, 0, 3)));
    await(client.pin(keysRequest(namespace, 0, 1)));

    assertEquals(
        List.of(StatusCode.STATUS_OK, StatusCode.STATUS_OK, StatusCode.STATUS_MISS),
        statuses(pinned.getBlocksList()));
    assertEquals(3, pins());
    assertEquals(
        List.of(StatusCode.STATUS_MISS),
        statuses(await(otherClient.unpin(keysRequest(namespace, 0, 1))).getBlocksList()));
    assertEquals(
        List.of(StatusCode.STATUS_OK, StatusCode.STATUS_OK, StatusCode.STATUS_MISS),
        statuses(await(client.unpin(keysRequest(namespace, 0, 3))).getBlocksList()));
    assertEquals(1, pins());
    await(otherClient.pin(keysRequest(namespace, 0, 2)));
    assertEquals(3, pins());
    await(other.close());
    eventually(() -> pins() == 1);
  }

  @Test
  void delete_ofPinnedBlock_endsItsPins() {
    long namespace = register("a", 1000);
    put(namespace, 0, 2, 1000);
    await(client.pin(keysRequest(namespace, 0, 2)));
    await(client.pin(keysRequest(namespace, 0, 2)));

    await(client.delete(keysRequest(namespace, 0, 1)));

    assertEquals(2, pins());
    await(client.clear(NamespaceRequest.newBuilder().setNamespaceId(namespace).build()));
    assertEquals(0, pins());
    eventually(() -> counters().getOrDefault("host_bytes_used", -1L) == 0);
  }

  // ---- what goes wrong
  // ------------------------------------------------------------------------------------------

  @Test
  void put_thatBreaksOff_leavesNothing() {
    long namespace = register("a", BLOCK_BYTES);
    byte[] bytes = bytes(0, BLOCK_BYTES);
    GrpcClientRequest<PutRequest, PutResponse> request = beginPut();
    request.exceptionHandler(e -> {});
    request.write(header(keys(namespace, 0, 3), 0));
    request.write(chunk(0, bytes, 0, CHUNK_BYTES));
    eventually(() -> counters().getOrDefault("reservations", 0L) == 3);

    request.cancel();

    assertNothingHeld();
    assertEquals(
        all(StatusCode.STATUS_MISS, 3),
        statuses(await(client.lookup(keysRequest(namespace, 0, 3))).getBlocksList()));
    assertEquals(0L, counters().get("blocks"));
    assertEquals(
        all(StatusCode.STATUS_OK, 3), statuses(put(namespace, 0, 3, BLOCK_BYTES).getBlocksList()));
  }

  @Test
  void put_whoseConnectionBreaks_leavesNothing() {
    long namespace = register("a", BLOCK_BYTES);
    GrpcClient other = newClient();
    GrpcClientRequest<PutRequest, PutResponse> request =
        await(other.request(address, KvtierGrpcClient.Put));
    request.exceptionHandler(e -> {});
    request.write(header(keys(namespace, 0, 2), 0));
    request.write(chunk(0, bytes(0, BLOCK_BYTES), 0, CHUNK_BYTES));
    eventually(() -> counters().getOrDefault("reservations", 0L) == 2);

    await(request.connection().close());

    assertNothingHeld();
    await(other.close());
  }

  @Test
  void put_ofSomeBlocks_storesThese() {
    long namespace = register("a", BLOCK_BYTES);
    List<PutRequest> messages = new ArrayList<>();
    messages.add(header(keys(namespace, 0, 4), 0));
    messages.addAll(chunks(1, bytes(1, BLOCK_BYTES)));
    messages.addAll(chunks(3, bytes(3, BLOCK_BYTES)).subList(0, 2));

    PutResponse response = put(messages);

    assertEquals(
        List.of(
            StatusCode.STATUS_MISS,
            StatusCode.STATUS_OK,
            StatusCode.STATUS_MISS,
            StatusCode.STATUS_INVALID_ARGUMENT),
        statuses(response.getBlocksList()));
    assertNothingHeld();
    assertBytes(namespace, 1, 1, BLOCK_BYTES);
  }

  @Test
  void put_withWrongChecksum_storesNothing() {
    long namespace = register("a", 1000);
    PutChunk chunk =
        PutChunk.newBuilder()
            .setData(ByteString.copyFrom(bytes(0, 1000)))
            .setCrc32C(crc(bytes(0, 1000)) ^ 1)
            .build();

    PutResponse response =
        put(
            List.of(
                header(keys(namespace, 0, 1), 0), PutRequest.newBuilder().setChunk(chunk).build()));

    assertEquals(List.of(StatusCode.STATUS_CORRUPT), statuses(response.getBlocksList()));
    assertEquals(0, await(client.lookup(keysRequest(namespace, 0, 1))).getLeadingRun());
    assertNothingHeld();
  }

  @Test
  void put_ofAWindowWithMixedResults_saysEachAndStoresTheSoundOnes() {
    long namespace = register("a", BLOCK_BYTES);
    put(namespace, 2, 1, BLOCK_BYTES);
    byte[] wrong = bytes(1, BLOCK_BYTES);
    List<PutRequest> messages = new ArrayList<>();
    messages.add(header(keys(namespace, 0, 6), 0));
    messages.addAll(chunks(0, bytes(0, BLOCK_BYTES)));
    messages.addAll(chunks(1, wrong).subList(0, 3));
    PutRequest last = chunks(1, wrong).getLast();
    messages.add(
        last.toBuilder().setChunk(last.getChunk().toBuilder().setCrc32C(crc(wrong) ^ 1)).build());
    messages.addAll(chunks(2, bytes(2, BLOCK_BYTES)));
    messages.addAll(chunks(3, bytes(3, BLOCK_BYTES)).subList(0, 2));
    messages.addAll(chunks(5, bytes(5, BLOCK_BYTES)));

    PutResponse response = put(messages);

    assertEquals(
        List.of(
            StatusCode.STATUS_OK,
            StatusCode.STATUS_CORRUPT,
            StatusCode.STATUS_EXISTS,
            StatusCode.STATUS_INVALID_ARGUMENT,
            StatusCode.STATUS_MISS,
            StatusCode.STATUS_OK),
        statuses(response.getBlocksList()));
    assertNothingHeld();
    assertEquals(3L, counters().get("blocks"));
    for (int stored : new int[] {0, 2, 5}) {
      assertBytes(namespace, stored, 1, BLOCK_BYTES);
    }
  }

  @Test
  void put_thatPausesInItsWindow_showsTheBlocksThatAreWhole() {
    long namespace = register("a", BLOCK_BYTES);
    GrpcClientRequest<PutRequest, PutResponse> request = beginPut();
    Future<PutResponse> response = request.response().compose(r -> r.last());
    request.write(header(keys(namespace, 0, 3), 0));
    chunks(0, bytes(0, BLOCK_BYTES)).forEach(request::write);

    eventually(() -> await(client.lookup(keysRequest(namespace, 0, 3))).getLeadingRun() == 1);

    chunks(1, bytes(1, BLOCK_BYTES)).forEach(request::write);
    request.end();
    assertEquals(
        List.of(StatusCode.STATUS_OK, StatusCode.STATUS_OK, StatusCode.STATUS_MISS),
        statuses(await(response).getBlocksList()));
    assertBytes(namespace, 0, 2, BLOCK_BYTES);
  }

  @Test
  void get_ofBytesThatWereDamaged_saysCorruptAndHasThatBlockLookedAt() throws Exception {
    long namespace = register("a", BLOCK_BYTES);
    put(namespace, 0, 3, BLOCK_BYTES);
    assertTrue(damage(bytes(1, BLOCK_BYTES)), "the block was found in no slab");

    List<GetResponse> messages =
        get(GetRequest.newBuilder().setKeys(keys(namespace, 0, 3)).build());

    assertEquals(
        List.of(StatusCode.STATUS_OK, StatusCode.STATUS_CORRUPT, StatusCode.STATUS_OK),
        messages.stream().filter(GetResponse::getLast).map(GetResponse::getStatus).toList());
    assertNothingHeld();
    assertEquals(0L, counters().get("sessions_ended_bad"));
    eventually(() ->
        statuses(await(client.lookup(keysRequest(namespace, 0, 3))).getBlocksList())
            .equals(List.of(StatusCode.STATUS_OK, StatusCode.STATUS_MISS, StatusCode.STATUS_OK)));
    assertBytes(namespace, 0, 1, BLOCK_BYTES);
    assertBytes(namespace, 2, 1, BLOCK_BYTES);
  }

  /** Flips a bit of a block in the memory of this process's slabs. */
  private static boolean damage(byte[] block) throws IOException {
    try (DirectoryStream<Path> descriptors = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
      for (Path descriptor : descriptors) {
        if (isMemory(descriptor) && damage(descriptor, block)) {
          return true;
        }
      }
    }
    return false;
  }

  private static boolean isMemory(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor).toString().contains("memfd:");
    } catch (IOException e) {
      return false; // closed meanwhile
    }
  }

  private static boolean damage(Path memory, byte[] block) throws IOException {
    try (FileChannel file =
        FileChannel.open(memory, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      ByteBuffer start = ByteBuffer.allocate(64);
      for (long at = 0; at + block.length <= file.size(); at += 4096) {
        file.read(start.clear(), at);
        if (Arrays.equals(start.array(), 0, 64, block, 0, 64)) {
          file.write(ByteBuffer.wrap(new byte[] {(byte) (block[999] ^ 1)}), at + 999);
          return true;
        }
      }
    }
    return false;
  }

  @Test
  void put_withMessagesOutOfOrder_isRefused() {
    long namespace = register("a", BLOCK_BYTES);
    byte[] bytes = bytes(0, BLOCK_BYTES);
    PutRequest first = header(keys(namespace, 0, 2), 0);
    for (List<PutRequest> wrong :
        List.of(
            List.<PutRequest>of(),
            List.of(chunk(0, bytes, 0, 10)),
            List.of(first, first),
            List.of(first, PutRequest.getDefaultInstance()),
            List.of(first, chunk(2, bytes, 0, 10)),
            List.of(first, chunk(-1, bytes, 0, 10)),
            List.of(first, chunk(0, bytes, 10, 10)),
            List.of(first, chunk(0, bytes, 0, 10), chunk(0, bytes, 11, 10)),
            List.of(first, chunk(1, bytes, 0, 10), chunk(0, bytes, 0, 10)),
            List.of(first, chunk(0, bytes, 0, CHUNK_BYTES + 1)),
            List.of(header(keys(namespace + 1, 0, 2), 0)).subList(0, 0))) {
      PutResponse response = put(wrong);
      assertEquals(
          StatusCode.STATUS_INVALID_ARGUMENT, response.getOutcome().getStatus(), wrong.toString());
      assertFalse(response.getOutcome().getText().isEmpty());
    }
    List<PutRequest> tooLong = new ArrayList<>();
    tooLong.add(first);
    tooLong.addAll(chunks(0, Arrays.copyOf(bytes, BLOCK_BYTES + 1)));
    assertEquals(StatusCode.STATUS_INVALID_ARGUMENT, put(tooLong).getOutcome().getStatus());
    assertNothingHeld();
    assertEquals(0L, counters().get("blocks"));
  }

  @Test
  void get_cancelledInTheMiddle_leavesNoLease() {
    long namespace = register("a", LARGE_BYTES);
    put(namespace, 0, 3, LARGE_BYTES);
    GrpcClientRequest<GetRequest, GetResponse> request =
        await(grpc.request(address, KvtierGrpcClient.Get));
    request.exceptionHandler(e -> {});
    request.end(GetRequest.newBuilder().setKeys(keys(namespace, 0, 3)).build());
    GrpcClientResponse<GetRequest, GetResponse> response = await(request.response());
    response.exceptionHandler(e -> {});
    response.pause();
    eventually(() -> counters().getOrDefault("leases", 0L) > 0);

    request.cancel();

    assertNothingHeld();
    assertBytes(namespace, 0, 3, LARGE_BYTES);
  }

  @Test
  void get_whoseConnectionBreaksWhileBytesWait_leavesNoLease() {
    long namespace = register("a", LARGE_BYTES);
    put(namespace, 0, 3, LARGE_BYTES);
    GrpcClient other = newClient();
    GrpcClientRequest<GetRequest, GetResponse> request =
        await(other.request(address, KvtierGrpcClient.Get));
    request.exceptionHandler(e -> {});
    request.end(GetRequest.newBuilder().setKeys(keys(namespace, 0, 3)).build());
    GrpcClientResponse<GetRequest, GetResponse> response = await(request.response());
    response.exceptionHandler(e -> {});
    response.pause();
    eventually(() -> counters().getOrDefault("leases", 0L) > 0);

    await(request.connection().close());

    assertNothingHeld();
    assertBytes(namespace, 0, 3, LARGE_BYTES);
    await(other.close());
  }

  @Test
  void get_byAReaderThatStopsReading_holdsFewBytes() {
    long namespace = register("a", 100_000);
    put(namespace, 0, 100, 100_000);
    GrpcClientRequest<GetRequest, GetResponse> request =
        await(grpc.request(address, KvtierGrpcClient.Get));
    request.exceptionHandler(e -> {});
    // On the event loop, before the first message: what comes while nobody listens is dropped.
    Future<GrpcClientResponse<GetRequest, GetResponse>> paused =
        request
            .response()
            .map(first -> {
              first.pause();
              return first;
            });
    request.end(GetRequest.newBuilder().setKeys(keys(namespace, 0, 100)).build());
    GrpcClientResponse<GetRequest, GetResponse> response = await(paused);
    eventually(() -> counters().getOrDefault("leases", 0L) > 0);

    // Two windows of 4 MiB at most.
    assertTrue(counters().getOrDefault("leases", 0L) <= 2 * (4 << 20) / 100_000);
    List<GetResponse> messages = new ArrayList<>();
    response.handler(messages::add);
    Future<Void> end = response.end();
    response.resume();
    await(end);
    assertEquals(200, messages.size());
    assertNothingHeld();
  }

  @Test
  void cancel_endsAGetByItsOperationId() {
    long namespace = register("a", LARGE_BYTES);
    put(namespace, 0, 3, LARGE_BYTES);
    GrpcClientRequest<GetRequest, GetResponse> request =
        await(grpc.request(address, KvtierGrpcClient.Get));
    request.end(GetRequest.newBuilder().setKeys(keys(namespace, 0, 3)).setOperationId(77).build());
    GrpcClientResponse<GetRequest, GetResponse> response = await(request.response());
    response.pause();

    assertEquals(
        StatusCode.STATUS_MISS,
        await(client.cancel(CancelRequest.newBuilder().setOperationId(78).build()))
            .getOutcome()
            .getStatus());
    assertEquals(
        StatusCode.STATUS_OK,
        await(client.cancel(CancelRequest.newBuilder().setOperationId(77).build()))
            .getOutcome()
            .getStatus());

    List<GetResponse> messages = new ArrayList<>();
    response.handler(messages::add);
    Future<Void> end = response.end();
    response.resume();
    await(end);
    assertEquals(StatusCode.STATUS_CANCELLED, messages.getLast().getStatus());
    assertEquals(2, messages.getLast().getBlock());
    assertNothingHeld();
  }

  @Test
  void cancel_endsAPutByItsOperationId() {
    long namespace = register("a", BLOCK_BYTES);
    GrpcClientRequest<PutRequest, PutResponse> request = beginPut();
    Future<PutResponse> response = request.response().compose(r -> r.last());
    request.write(header(keys(namespace, 0, 2), 5));
    request.write(chunk(0, bytes(0, BLOCK_BYTES), 0, CHUNK_BYTES));
    eventually(() -> counters().getOrDefault("reservations", 0L) == 2);

    await(client.cancel(CancelRequest.newBuilder().setOperationId(5).build()));

    assertNothingHeld();
    request.write(chunk(0, bytes(0, BLOCK_BYTES), CHUNK_BYTES, CHUNK_BYTES));
    request.end();
    assertEquals(StatusCode.STATUS_CANCELLED, await(response).getOutcome().getStatus());
  }

  @Test
  void unknownNamespace_isSaidByEveryVerb() {
    KeysRequest keys = keysRequest(9, 0, 1);
    NamespaceRequest namespace = NamespaceRequest.newBuilder().setNamespaceId(9).build();
    StatusCode unknown = StatusCode.STATUS_NAMESPACE_UNKNOWN;

    assertEquals(unknown, await(client.lookup(keys)).getOutcome().getStatus());
    FindNodesRequest find = FindNodesRequest.newBuilder().setKeys(keys.getKeys()).build();
    assertEquals(unknown, await(client.findNodes(find)).getOutcome().getStatus());
    assertEquals(unknown, await(client.prefetch(keys)).getOutcome().getStatus());
    assertEquals(unknown, await(client.pin(keys)).getOutcome().getStatus());
    assertEquals(unknown, await(client.unpin(keys)).getOutcome().getStatus());
    assertEquals(unknown, await(client.delete(keys)).getOutcome().getStatus());
    assertEquals(unknown, await(client.clear(namespace)).getOutcome().getStatus());
    assertEquals(unknown, await(client.flush(namespace)).getOutcome().getStatus());
    assertEquals(unknown, await(client.unregister(namespace)).getOutcome().getStatus());
    assertEquals(unknown, put(9, 0, 1, 1000).getOutcome().getStatus());
    List<GetResponse> got = get(GetRequest.newBuilder().setKeys(keys.getKeys()).build());
    assertEquals(1, got.size());
    assertEquals(unknown, got.get(0).getRefusal().getStatus());
  }

  @Test
  void unregister_byTheLastConnection_makesTheNamespaceUnknown() {
    long namespace = register("a", 1000);
    put(namespace, 0, 1, 1000);
    NamespaceRequest request = NamespaceRequest.newBuilder().setNamespaceId(namespace).build();
    GrpcClient other = newClient();
    KvtierGrpcClient otherClient = KvtierGrpcClient.create(other, address);
    await(
        otherClient.register(
            RegisterRequest.newBuilder()
                .setName("a")
                .setBlockBytes(1000)
                .putProperties("model", "m")
                .build()));

    await(otherClient.unregister(request));
    assertEquals(1, await(client.lookup(keysRequest(namespace, 0, 1))).getLeadingRun());
    await(client.unregister(request));
    assertEquals(
        StatusCode.STATUS_NAMESPACE_UNKNOWN,
        await(client.lookup(keysRequest(namespace, 0, 1))).getOutcome().getStatus());
    long anew = register("a", 1000);
    assertNotEquals(namespace, anew);
    assertEquals(1, await(client.lookup(keysRequest(anew, 0, 1))).getLeadingRun());
    await(other.close());
  }

  @Test
  void lastConnectionOfANamespaceEnds_otherPropertiesMayHaveItsName() {
    GrpcClient leaving = newClient();
    KvtierGrpcClient leavingClient = KvtierGrpcClient.create(leaving, address);
    RegisterRequest first =
        RegisterRequest.newBuilder()
            .setName("left")
            .setBlockBytes(1000)
            .putProperties("model", "m")
            .build();
    RegisterRequest second = first.toBuilder().putProperties("model", "other").build();
    await(leavingClient.register(first));
    assertEquals(
        StatusCode.STATUS_NAMESPACE_MISMATCH,
        await(client.register(second)).getOutcome().getStatus());
    await(leaving.close());
    StatusCode last = StatusCode.STATUS_NAMESPACE_MISMATCH;
    long end = System.nanoTime() + 10_000_000_000L;
    while (last != StatusCode.STATUS_OK && System.nanoTime() < end) {
      last = await(client.register(second)).getOutcome().getStatus();
    }
    assertEquals(StatusCode.STATUS_OK, last);
  }

  @Test
  void namespaceOfBeforeARestart_namesNothing() throws Exception {
    long before = register("a", 1000);
    put(before, 0, 1, 1000);
    stop();
    start();
    long now = register("a", 1000);
    put(now, 0, 1, 1000);

    List<GetResponse> got = get(GetRequest.newBuilder().setKeys(keys(before, 0, 1)).build());
    assertEquals(StatusCode.STATUS_NAMESPACE_UNKNOWN, got.get(0).getRefusal().getStatus());
    assertTrue(got.get(0).getRefusal().getText().contains("Register again"), got.toString());
    assertEquals(
        StatusCode.STATUS_NAMESPACE_UNKNOWN, put(before, 1, 1, 1000).getOutcome().getStatus());
  }

  /** Two texts with one CRC32C are found among some 100,000. */
  @Test
  void namespaceOfBeforeARestart_whoseChecksumAnotherHas_namesNothing() throws Exception {
    Map<Integer, String> byChecksum = new HashMap<>();
    String one = null;
    String other = "";
    for (int i = 0; one == null; i++) {
      other = String.format(Locale.ROOT, "m%08x", i * 0x9E37_79B9);
      CRC32C checksum = new CRC32C();
      checksum.update(("model=" + other + "\nname=a\n").getBytes(StandardCharsets.UTF_8));
      one = byChecksum.put((int) checksum.getValue(), other);
    }
    long before = register("a", 1000, one);
    stop();
    start();
    put(register("a", 1000, other), 0, 1, 1000);

    List<GetResponse> got = get(GetRequest.newBuilder().setKeys(keys(before, 0, 1)).build());
    assertEquals(StatusCode.STATUS_NAMESPACE_UNKNOWN, got.get(0).getRefusal().getStatus());
  }

  @Test
  void register_withOtherProperties_namesTheDifference() {
    register("a", 1000);

    RegisterResponse response =
        await(
            client.register(
                RegisterRequest.newBuilder()
                    .setName("a")
                    .setBlockBytes(1000)
                    .putProperties("model", "another")
                    .build()));

    assertEquals(StatusCode.STATUS_NAMESPACE_MISMATCH, response.getOutcome().getStatus());
    assertTrue(response.getOutcome().getText().contains("model"), response.toString());
  }

  @Test
  void wrongRequests_areRefusedAndTheSessionLives() {
    long namespace = register("a", 1000);
    Keys good = keys(namespace, 0, 2);
    Keys.Builder tooMany = Keys.newBuilder().setNamespaceId(namespace);
    for (int i = 0; i < 2049; i++) {
      tooMany.addKeys(key(0));
    }
    for (Keys wrong :
        List.of(
            good.toBuilder().clearKeys().build(),
            good.toBuilder().addKeys(ByteString.copyFrom(new byte[19])).build(),
            good.toBuilder().clearKeys().addKeys(ByteString.copyFrom(new byte[33])).build(),
            good.toBuilder().clearKeys().addKeys(ByteString.EMPTY).build(),
            good.toBuilder().setParent(ByteString.copyFrom(new byte[1])).build(),
            good.toBuilder().setGroup(1 << 16).build(),
            good.toBuilder().setGroup(-1).build(),
            good.toBuilder().setDepth(-1).build(),
            tooMany.build())) {
      StatusCode status =
          await(client.lookup(KeysRequest.newBuilder().setKeys(wrong).build()))
              .getOutcome()
              .getStatus();
      assertEquals(
          wrong.getKeysCount() > 2048
              ? StatusCode.STATUS_TOO_LARGE
              : StatusCode.STATUS_INVALID_ARGUMENT,
          status);
    }
    for (RegisterRequest wrong :
        List.of(
            RegisterRequest.newBuilder().setName("x").build(),
            RegisterRequest.newBuilder().setName("").setBlockBytes(1).build(),
            RegisterRequest.newBuilder().setName("x\ny=z").setBlockBytes(1).build(),
            RegisterRequest.newBuilder().setName("x").setBlockBytes(5 << 20).build(),
            RegisterRequest.newBuilder().setName("x").setBlockBytes(-1).build())) {
      assertEquals(
          StatusCode.STATUS_INVALID_ARGUMENT,
          await(client.register(wrong)).getOutcome().getStatus());
    }
    assertEquals(0, await(client.lookup(keysRequest(namespace, 0, 1))).getLeadingRun());
    assertEquals(0L, counters().get("sessions_ended_bad"));
  }

  @Test
  void messages_tooLargeOrGarbledOrCompressed_failTheirCallOnly() {
    long namespace = register("a", 1000);
    for (Buffer wrong :
        List.of(Buffer.buffer(new byte[1 << 20]), Buffer.buffer(new byte[] {-1, -1, -1}))) {
      GrpcClientRequest<KeysRequest, LookupResponse> request =
          await(grpc.request(address, KvtierGrpcClient.Lookup));
      request.endMessage(GrpcMessage.message("identity", wrong));
      assertFailed(request);
    }
    GrpcClientRequest<KeysRequest, LookupResponse> request =
        await(grpc.request(address, KvtierGrpcClient.Lookup));
    request.encoding("gzip");
    request.end(keysRequest(namespace, 0, 1));
    assertFailed(request);
    assertEquals(0, await(client.lookup(keysRequest(namespace, 0, 1))).getLeadingRun());
  }

  private static void assertFailed(GrpcClientRequest<?, ?> request) {
    GrpcClientResponse<?, ?> response = await(request.response());
    await(response.end().otherwiseEmpty());
    assertTrue(
        response.status() != null && response.status() != GrpcStatus.OK,
        String.valueOf(response.status()));
  }

  @Test
  void deadline_ofPutThatFindsNoRoom_isToldPerBlock() {
    long namespace = register("a", LARGE_BYTES);
    List<StatusCode> told = List.of();
    // Who has not sent all that by its deadline is cut off: a busy machine gets more time.
    for (int seconds = 2; told.isEmpty() && seconds <= 32; seconds *= 2) {
      told = putThatFindsNoRoom(namespace, seconds);
    }
    assertEquals(List.of(StatusCode.STATUS_DEADLINE), told);
  }

  /** What its blocks are told; nothing where the call was cut off. */
  private List<StatusCode> putThatFindsNoRoom(long namespace, int seconds) {
    List<GrpcClientRequest<PutRequest, PutResponse>> others = beginPuts(namespace, 4);
    for (int i = 0; i < 4; i++) {
      others.get(i).write(chunk(0, bytes(i, LARGE_BYTES), 0, CHUNK_BYTES));
    }
    eventually(() -> counters().getOrDefault("reservations", 0L) == 4);
    GrpcClientRequest<PutRequest, PutResponse> request = beginPut();
    request.exceptionHandler(e -> {});
    request.timeout(seconds, TimeUnit.SECONDS);
    Future<PutResponse> response = request.response().compose(r -> r.last());
    long start = System.nanoTime();
    request.write(header(keys(namespace, 10, 1), 0));
    chunks(0, bytes(10, LARGE_BYTES)).forEach(request::write);
    request.end();
    PutResponse answer = await(response.otherwise(PutResponse.getDefaultInstance()));
    if (answer.getBlocksCount() > 0) {
      assertTrue(System.nanoTime() - start >= seconds * 1_000_000_000L - 100_000_000);
    }
    others.forEach(GrpcClientRequest::cancel);
    assertNothingHeld();
    return statuses(answer.getBlocksList());
  }

  @Test
  void deadline_ofPutThatStandsStill_endsTheCall() {
    long namespace = register("a", BLOCK_BYTES);
    GrpcClientRequest<PutRequest, PutResponse> request = beginPut();
    request.exceptionHandler(e -> {});
    request.timeout(200, TimeUnit.MILLISECONDS);
    Future<PutResponse> response = request.response().compose(r -> r.last());
    request.write(header(keys(namespace, 0, 1), 0));
    request.write(chunk(0, bytes(0, BLOCK_BYTES), 0, CHUNK_BYTES));

    eventually(response::isComplete);

    assertTrue(response.failed());
    assertNothingHeld();
    assertEquals(0L, counters().get("blocks"));
  }

  @Test
  void callsThatStandStill_endAfterTheTimeOfALease() throws Exception {
    List<String> settings = new ArrayList<>(settings(1));
    settings.addAll(List.of("grpc.port=0", "limits.lease=500ms"));
    try (Daemon impatient = new Daemon(ConfigLoader.load(null, settings))) {
      String[] hostAndPort = String.valueOf(impatient.grpcAddress()).split(":", -1);
      address = SocketAddress.inetSocketAddress(Integer.parseInt(hostAndPort[1]), hostAndPort[0]);
      client = KvtierGrpcClient.create(grpc, address);
      long namespace = register("a", LARGE_BYTES);
      put(namespace, 0, 2, LARGE_BYTES);
      GrpcClientRequest<PutRequest, PutResponse> request = beginPut();
      request.exceptionHandler(e -> {});
      Future<PutResponse> response = request.response().compose(r -> r.last());
      request.write(header(keys(namespace, 5, 1), 0));
      request.write(chunk(0, bytes(5, LARGE_BYTES), 0, CHUNK_BYTES));
      // Refused for what it begins with; its client does not end it.
      GrpcClientRequest<PutRequest, PutResponse> refused = beginPut();
      refused.exceptionHandler(e -> {});
      Future<PutResponse> refusal = refused.response().compose(r -> r.last());
      refused.write(chunk(0, bytes(5, LARGE_BYTES), 0, CHUNK_BYTES));
      GrpcClientRequest<GetRequest, GetResponse> get =
          await(grpc.request(address, KvtierGrpcClient.Get));
      get.exceptionHandler(e -> {});
      get.end(GetRequest.newBuilder().setKeys(keys(namespace, 0, 2)).build());
      GrpcClientResponse<GetRequest, GetResponse> notRead = await(get.response());
      notRead.exceptionHandler(e -> {});
      notRead.pause();

      eventually(() -> response.isComplete() && refusal.isComplete());

      assertTrue(response.failed());
      assertTrue(refusal.failed());
      assertNothingHeld();
    }
  }

  @Test
  void put_refusedBeforeItsEnd_isToldWhyHoweverMuchItSends() {
    long namespace = register("a", LARGE_BYTES);
    GrpcClientRequest<PutRequest, PutResponse> request = beginPut();
    Future<PutResponse> response = request.response().compose(r -> r.last());
    for (int i = 0; i < 4; i++) {
      // The header is missing.
      chunks(0, bytes(i, LARGE_BYTES)).forEach(request::write);
    }
    request.end();
    assertEquals(StatusCode.STATUS_INVALID_ARGUMENT, await(response).getOutcome().getStatus());
    put(namespace, 0, 1, LARGE_BYTES);
  }

  @Test
  void put_beyondTheCallsAtOnce_isToldSoHoweverMuchItSends() {
    long namespace = register("a", LARGE_BYTES);
    List<GrpcClientRequest<PutRequest, PutResponse>> others = beginPuts(namespace, 64);
    assertEquals(0, await(client.lookup(keysRequest(namespace, 0, 1))).getLeadingRun());
    GrpcClientRequest<PutRequest, PutResponse> request = beginPut();
    request.write(header(keys(namespace, 70, 1), 0));
    chunks(0, bytes(70, LARGE_BYTES)).forEach(request::write);
    request.end();
    GrpcClientResponse<PutRequest, PutResponse> response = await(request.response());
    await(response.end().otherwiseEmpty());
    assertEquals(GrpcStatus.RESOURCE_EXHAUSTED, response.status());
    others.forEach(GrpcClientRequest::cancel);
  }

  @Test
  void get_whoseClientTakesNothingOffTheSocket_endsWithItsConnectionBeforeItsLeases()
      throws Exception {
    List<String> settings = new ArrayList<>(settings(1));
    settings.addAll(
        List.of("grpc.port=0", "limits.lease=500ms", "host.bytes=32MiB", "host.keep=0"));
    try (Daemon impatient = new Daemon(ConfigLoader.load(null, settings))) {
      String[] hostAndPort = String.valueOf(impatient.grpcAddress()).split(":", -1);
      address = SocketAddress.inetSocketAddress(Integer.parseInt(hostAndPort[1]), hostAndPort[0]);
      client = KvtierGrpcClient.create(grpc, address);
      long namespace = register("a", LARGE_BYTES);
      // One at a time: each has to come within the lease.
      for (int i = 0; i < 8; i++) {
        put(namespace, i, 1, LARGE_BYTES);
      }
      int window = 64 << 20; // HTTP/2 shall not hold the bytes back, so that the socket must
      GrpcClient deaf =
          GrpcClient.client(
              vertx,
              new GrpcClientOptions().setMaxMessageSize(8 << 20),
              new HttpClientOptions()
                  .setProtocolVersion(HttpVersion.HTTP_2)
                  .setInitialSettings(new Http2Settings().setInitialWindowSize(window))
                  .setHttp2ConnectionWindowSize(window)
                  .setHttp2ClearTextUpgrade(false));
      GrpcClientRequest<GetRequest, GetResponse> get =
          await(deaf.request(address, KvtierGrpcClient.Get));
      get.exceptionHandler(e -> {});
      CompletableFuture<Void> closed = new CompletableFuture<>();
      get.connection().closeHandler(v -> closed.complete(null));
      List<GetResponse> messages = new ArrayList<>();
      var _ =
          get.response()
              .onSuccess(response -> {
                response.exceptionHandler(e -> {});
                response.handler(messages::add);
              });
      ChannelConfig socket = ((ConnectionBase) get.connection()).channel().config();
      get.end(GetRequest.newBuilder().setKeys(keys(namespace, 0, 8)).build());
      socket.setAutoRead(false);
      eventually(() -> counters().getOrDefault("leases", 0L) > 0);

      assertNothingHeld();
      Thread.sleep(1000);
      socket.setAutoRead(true);

      closed.get(60, TimeUnit.SECONDS);
      assertTrue(messages.stream().filter(GetResponse::getLast).count() < 8);
      for (GetResponse message : messages) {
        int at = (int) message.getOffset();
        byte[] expected = bytes(message.getBlock(), LARGE_BYTES);
        assertArrayEquals(
            Arrays.copyOfRange(expected, at, at + message.getData().size()),
            message.getData().toByteArray());
      }
      await(deaf.close());
    }
  }

  @Test
  void moreCallsThanTheLimit_areTurnedAway() {
    long namespace = register("a", 1000);
    List<GrpcClientRequest<PutRequest, PutResponse>> others = beginPuts(namespace, 64);
    assertEquals(0, await(client.lookup(keysRequest(namespace, 0, 1))).getLeadingRun());

    GrpcClientRequest<GetRequest, GetResponse> request =
        await(grpc.request(address, KvtierGrpcClient.Get));
    request.end(GetRequest.newBuilder().setKeys(keys(namespace, 0, 1)).build());

    GrpcClientResponse<GetRequest, GetResponse> response = await(request.response());
    await(response.end().otherwiseEmpty());
    assertEquals(GrpcStatus.RESOURCE_EXHAUSTED, response.status());
    others.forEach(GrpcClientRequest::cancel);
    eventually(() ->
        statuses(put(namespace, 0, 1, 1000).getBlocksList()).equals(List.of(StatusCode.STATUS_OK)));
  }

  // ---- the server
  // -----------------------------------------------------------------------------------------------

  @Test
  void takenPort_isAnErrorThatNamesTheKey() {
    IOException e =
        assertThrows(
            IOException.class,
            () -> new Daemon(ConfigLoader.load(null, settings(address.port()))).close());

    assertTrue(String.valueOf(e.getMessage()).contains("grpc.port"), e.getMessage());
    assertTrue(
        String.valueOf(e.getMessage()).contains("127.0.0.1:" + address.port()), e.getMessage());
    assertFalse(
        Files.exists(directory.resolve("ssd-" + address.port())),
        "disk space was taken for a daemon that could not start");
  }

  @Test
  void unknownHost_isAnErrorThatNamesTheKey() {
    List<String> settings = new ArrayList<>(settings(1));
    settings.add("grpc.host=no.such.host.invalid");

    IOException e =
        assertThrows(
            IOException.class, () -> new Daemon(ConfigLoader.load(null, settings)).close());

    assertTrue(String.valueOf(e.getMessage()).contains("grpc.host"), e.getMessage());
    assertFalse(Files.exists(directory.resolve("ssd-1")));
  }

  @Test
  void connectionsOfSeveralLoops_shareNamespacesAndBlocks() {
    long namespace = register("a", BLOCK_BYTES);
    put(namespace, 0, 3, BLOCK_BYTES);
    List<GrpcClient> others = new ArrayList<>();
    for (int i = 0; i < 5; i++) {
      GrpcClient other = newClient();
      others.add(other);
      KvtierGrpcClient otherClient = KvtierGrpcClient.create(other, address);
      assertEquals(3, await(otherClient.lookup(keysRequest(namespace, 0, 3))).getLeadingRun());
    }
    await(client.unregister(NamespaceRequest.newBuilder().setNamespaceId(namespace).build()));
    for (GrpcClient other : others) {
      KvtierGrpcClient otherClient = KvtierGrpcClient.create(other, address);
      assertEquals(
          StatusCode.STATUS_NAMESPACE_UNKNOWN,
          await(otherClient.lookup(keysRequest(namespace, 0, 3))).getOutcome().getStatus());
    }
    long anew = register("a", BLOCK_BYTES);
    for (GrpcClient other : others) {
      KvtierGrpcClient otherClient = KvtierGrpcClient.create(other, address);
      assertEquals(3, await(otherClient.lookup(keysRequest(anew, 0, 3))).getLeadingRun());
      await(other.close());
    }
  }

  @Test
  void requestsThatAreNoCalls_areAnsweredAsHttpAndGrpcSay() {
    HttpClient http =
        vertx.createHttpClient(
            new HttpClientOptions()
                .setProtocolVersion(HttpVersion.HTTP_2)
                .setHttp2ClearTextUpgrade(false));
    RequestOptions post =
        new RequestOptions()
            .setServer(address)
            .setMethod(HttpMethod.POST)
            .setURI("/kvtier.v1.Kvtier/Nothing");

    assertEquals(415, await(http.request(post).compose(r -> r.send())).statusCode());

    HttpClientResponse unknown =
        await(
            http.request(new RequestOptions(post).putHeader("content-type", "application/grpc"))
                .compose(r -> r.send()));
    assertEquals(200, unknown.statusCode());
    assertEquals("12", unknown.getHeader("grpc-status"));
    await(http.close());
  }

  @Test
  void manyCallsAtOnce_areAllAnswered() {
    long namespace = register("a", 1000);
    put(namespace, 0, 10, 1000);

    List<Future<LookupResponse>> lookups = new ArrayList<>();
    for (int i = 0; i < 2000; i++) {
      lookups.add(client.lookup(keysRequest(namespace, 0, 10)));
    }

    for (Future<LookupResponse> lookup : lookups) {
      assertEquals(10, await(lookup).getLeadingRun());
    }
  }

  /**
   * One that polls is awake every few milliseconds, one that spins takes a processor: a slow or
   * busy machine makes neither out of one that sleeps.
   */
  @Test
  void idleServer_sleeps() throws Exception {
    register("a", 1000);
    Thread.sleep(200);
    Used before = usedByServer();
    Thread.sleep(2000);
    Used after = usedByServer();

    assertTrue(after.turns - before.turns < 200, after.turns - before.turns + " turns in 2 s");
    assertTrue(after.ns - before.ns < 1_000_000_000L, after.ns - before.ns + " ns in 2 s");
  }

  /** Turns on a processor, and the time there, by the kernel's count. */
  private record Used(long turns, long ns) {}

  private static Used usedByServer() throws IOException {
    long turns = 0;
    long ns = 0;
    try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
      for (Path task : tasks) {
        try {
          if (Files.readString(task.resolve("comm")).startsWith("vert.x-event")) {
            // Time on a processor, time waiting for one, and turns.
            String[] counts = Files.readString(task.resolve("schedstat")).strip().split(" ", 3);
            ns += Long.parseLong(counts[0]);
            turns += Long.parseLong(counts[2]);
          }
        } catch (NoSuchFileException _) {
          // A thread that has just ended.
        }
      }
    }
    assertTrue(turns > 0, "no thread of the server is found");
    return new Used(turns, ns);
  }
}
