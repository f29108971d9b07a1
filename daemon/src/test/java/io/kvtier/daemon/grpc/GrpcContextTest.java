package io.kvtier.daemon.grpc;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.sun.net.httpserver.HttpServer;
import io.kvtier.daemon.Daemon;
import io.kvtier.daemon.SmallDaemon;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.protocol.v1.Keys;
import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.kvtier.protocol.v1.LookupResponse;
import io.kvtier.protocol.v1.PingRequest;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.kvtier.protocol.v1.StatusCode;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.net.SocketAddress;
import io.vertx.grpc.client.GrpcClient;
import io.vertx.grpc.client.GrpcClientResponse;
import io.vertx.grpc.common.ServiceMethod;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The metadata {@code traceparent}, up to the spans that a collector gets. */
@Timeout(120)
final class GrpcContextTest {
  private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
  private static final String PARENT = "00-" + TRACE + "-00f067aa0ba902b7-01";

  @TempDir private Path directory;
  private final BlockingQueue<byte[]> taken = new LinkedBlockingQueue<>();
  private HttpServer collector;
  private Daemon daemon;
  private Vertx vertx;
  private GrpcClient grpc;
  private SocketAddress address;

  @BeforeEach
  void start() throws Exception {
    collector = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    collector.createContext(
        "/v1/traces",
        exchange -> {
          taken.add(exchange.getRequestBody().readAllBytes());
          exchange.sendResponseHeaders(200, -1);
          exchange.close();
        });
    collector.start();
    daemon =
        new Daemon(
            ConfigLoader.load(
                null,
                SmallDaemon.settings(
                    directory,
                    "grpc.port=0",
                    "grpc.threads=2",
                    "http.enabled=false",
                    "traces.endpoint=http://127.0.0.1:"
                        + collector.getAddress().getPort()
                        + "/v1/traces")));
    String[] hostAndPort = String.valueOf(daemon.grpcAddress()).split(":", -1);
    address = SocketAddress.inetSocketAddress(Integer.parseInt(hostAndPort[1]), hostAndPort[0]);
    vertx = Vertx.vertx();
    grpc = GrpcClient.client(vertx);
  }

  @AfterEach
  void stop() throws Exception {
    wait(vertx.close());
    daemon.close();
    collector.stop(0);
  }

  private static <T> T wait(Future<T> future) throws Exception {
    return future.toCompletionStage().toCompletableFuture().get(60, TimeUnit.SECONDS);
  }

  private <Q, R> R ask(GrpcClient client, ServiceMethod<R, Q> method, Q message, String... parents)
      throws Exception {
    return wait(
        client
            .request(address, method)
            .compose(request -> {
              for (String parent : parents) {
                request.headers().add("traceparent", parent);
              }
              return request.send(message);
            })
            .compose(GrpcClientResponse::last));
  }

  private void ping(String... parents) throws Exception {
    assertNotNull(ask(grpc, KvtierGrpcClient.Ping, PingRequest.getDefaultInstance(), parents));
  }

  private static boolean contains(byte[] bytes, byte[] part) {
    return HexFormat.of().formatHex(bytes).contains(HexFormat.of().formatHex(part));
  }

  @Test
  void call_withTraceparent_isItsSpansParent() throws Exception {
    ping(PARENT);
    byte[] spans = taken.poll(60, TimeUnit.SECONDS);
    assertNotNull(spans);
    assertTrue(contains(spans, HexFormat.of().parseHex(TRACE)));
    // The field parent_span_id of 8 bytes, and not span_id.
    assertTrue(contains(spans, HexFormat.of().parseHex("220800f067aa0ba902b7")));
    assertTrue(contains(spans, "kvtier.ping".getBytes(US_ASCII)));
  }

  @Test
  void register_asAnotherLoopNeedsIt_isOfNobodysTrace() throws Exception {
    RegisterResponse registered =
        ask(
            grpc,
            KvtierGrpcClient.Register,
            RegisterRequest.newBuilder().setName("model").setBlockBytes(4096).build(),
            PARENT);
    KeysRequest keys =
        KeysRequest.newBuilder()
            .setKeys(
                Keys.newBuilder()
                    .setNamespaceId(registered.getNamespaceId())
                    .addKeys(ByteString.copyFromUtf8("a key of 16 byte")))
            .build();
    // Connections take the loops in turn.
    for (int i = 0; i < 4; i++) {
      LookupResponse found = ask(GrpcClient.client(vertx), KvtierGrpcClient.Lookup, keys);
      assertEquals(StatusCode.STATUS_OK, found.getOutcome().getStatus());
    }
    String last = TRACE.replace('4', '5');
    ping(PARENT.replace(TRACE, last));
    String register = HexFormat.of().formatHex("kvtier.register".getBytes(US_ASCII));
    int registers = 0;
    boolean isLast = false;
    while (!isLast) {
      byte[] spans = taken.poll(60, TimeUnit.SECONDS);
      assertNotNull(spans);
      registers += HexFormat.of().formatHex(spans).split(register, -1).length - 1;
      isLast = contains(spans, HexFormat.of().parseHex(last));
    }
    assertEquals(1, registers);
  }

  @Test
  void call_withMalformedTraceparents_isAnsweredAndNotTraced() throws Exception {
    ping("00-" + TRACE + "-0000000000000000-01");
    ping("garbage");
    ping(PARENT, PARENT);
    ping(PARENT.substring(0, 53) + "00");
    String other = TRACE.replace('4', '5');
    ping(PARENT.replace(TRACE, other));
    byte[] spans = taken.poll(60, TimeUnit.SECONDS);
    assertNotNull(spans);
    assertTrue(contains(spans, HexFormat.of().parseHex(other)));
    assertFalse(contains(spans, HexFormat.of().parseHex(TRACE)));
    assertEquals(0, taken.size());
  }
}
