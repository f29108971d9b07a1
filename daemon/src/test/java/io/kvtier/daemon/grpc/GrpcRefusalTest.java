package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import com.google.protobuf.ByteString;
import com.google.protobuf.MessageLite;
import io.kvtier.daemon.Daemon;
import io.kvtier.daemon.SmallDaemon;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.daemon.tracing.RequestTeller;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.access.Token;
import io.kvtier.protocol.access.TokenLine;
import io.kvtier.protocol.v1.CancelRequest;
import io.kvtier.protocol.v1.Keys;
import io.kvtier.protocol.v1.PutChunk;
import io.kvtier.protocol.v1.PutHeader;
import io.kvtier.protocol.v1.PutRequest;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.http.RequestOptions;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.LoggerFactory;

/** What the log says of calls with an id that are refused, be it before the index or in it. */
@Timeout(120)
final class GrpcRefusalTest {
  private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e47";
  private static final SecureRandom RANDOM = new SecureRandom();

  @TempDir private Path folder;
  private final Vertx vertx = Vertx.vertx();
  private final Logger log = (Logger) LoggerFactory.getLogger(RequestTeller.class);
  private final BlockingQueue<ILoggingEvent> lines = new LinkedBlockingQueue<>();
  private final AppenderBase<ILoggingEvent> appender =
      new AppenderBase<>() {
        @Override
        protected void append(ILoggingEvent event) {
          event.prepareForDeferredProcessing(); // it asks for its thread's name late
          lines.add(event);
        }
      };
  private final Token writes = Token.make(RANDOM);
  private final Token reads = Token.make(RANDOM);
  private Daemon daemon;
  private HttpClient client;
  private int calls;

  @BeforeEach
  void start() throws Exception {
    log.setLevel(Level.INFO);
    log.setAdditive(false);
    appender.start();
    log.addAppender(appender);
    Files.write(
        folder.resolve("tokens"),
        List.of(
            TokenLine.of(writes, "w", Role.WRITE, "", null, RANDOM).text(),
            TokenLine.of(reads, "r", Role.READ, "", null, RANDOM).text()));
    daemon =
        new Daemon(
            ConfigLoader.load(
                null,
                SmallDaemon.settings(
                    folder,
                    "http.enabled=false",
                    "grpc.port=0",
                    "access.tokens=" + folder.resolve("tokens"))));
    client =
        vertx.createHttpClient(
            new HttpClientOptions()
                .setProtocolVersion(HttpVersion.HTTP_2)
                .setHttp2ClearTextUpgrade(false));
  }

  @AfterEach
  void stop() throws Exception {
    await(vertx.close());
    daemon.close();
    log.detachAppender(appender);
    log.setAdditive(true);
    log.setLevel(null);
  }

  private static <T> T await(Future<T> future) throws Exception {
    return future.toCompletionStage().toCompletableFuture().get(60, TimeUnit.SECONDS);
  }

  /** Calls with an id of its own; answers with the answer's bytes. */
  private Buffer call(String method, @Nullable Token token, MessageLite... messages)
      throws Exception {
    Buffer framed = Buffer.buffer();
    for (MessageLite message : messages) {
      byte[] bytes = message.toByteArray();
      framed.appendByte((byte) 0).appendInt(bytes.length).appendBytes(bytes);
    }
    return call(method, token, framed);
  }

  private Buffer call(String method, @Nullable Token token, Buffer framed) throws Exception {
    calls++;
    RequestOptions options =
        new RequestOptions()
            .setMethod(HttpMethod.POST)
            .setHost("127.0.0.1")
            .setPort(Integer.parseInt(String.valueOf(daemon.grpcAddress()).split(":", -1)[1]))
            .setURI("/kvtier.v1.Kvtier/" + method)
            .putHeader("content-type", "application/grpc")
            .putHeader("traceparent", "00-" + TRACE + (10 + calls) + "-00f067aa0ba902b7-00");
    if (token != null) {
      options.putHeader("authorization", "Bearer " + token.secretText());
    }
    return await(
        client
            .request(options)
            .compose(request -> {
              // Before it is sent: an answer of which nobody wants the body yet may end unheard.
              Future<Buffer> body = request.response().compose(HttpClientResponse::body);
              var _ = request.send(framed);
              return body;
            }));
  }

  /** That the last call, and none before it, has one line more, which no event loop writes. */
  private void assertTold(Level level, String text) throws InterruptedException {
    ILoggingEvent line = lines.poll(60, TimeUnit.SECONDS);
    assertTrue(line != null, text);
    assertEquals("request " + TRACE + (10 + calls) + ": " + text, line.getFormattedMessage());
    assertEquals(level, line.getLevel());
    assertEquals("kvtier-requests", line.getThreadName());
  }

  private static Keys keys(long namespace) {
    return Keys.newBuilder()
        .setNamespaceId(namespace)
        .addKeys(ByteString.copyFromUtf8("a key of 16 byte"))
        .build();
  }

  private static PutRequest header(long namespace) {
    return PutRequest.newBuilder()
        .setHeader(PutHeader.newBuilder().setKeys(keys(namespace)))
        .build();
  }

  private static PutChunk.Builder chunk(int length) {
    return PutChunk.newBuilder().setData(ByteString.copyFrom(new byte[length]));
  }

  private static PutRequest of(PutChunk.Builder chunk) {
    return PutRequest.newBuilder().setChunk(chunk).build();
  }

  @Test
  void refusal_ofACallWithAnId_isToldOnce() throws Exception {
    RegisterRequest model =
        RegisterRequest.newBuilder().setName("model").setBlockBytes(4096).build();
    Buffer registered = call("Register", writes, model);
    long namespace =
        RegisterResponse.parseFrom(registered.getBytes(5, registered.length())).getNamespaceId();

    var _ = call("Ping", null);
    ILoggingEvent stranger = lines.poll(60, TimeUnit.SECONDS);
    assertTrue(
        String.valueOf(stranger).contains(TRACE + (10 + calls) + ": refused: UNAUTHENTICATED: "),
        String.valueOf(stranger));

    var _ = call("NoSuch", writes);
    assertTold(Level.INFO, "refused: UNIMPLEMENTED: no method /kvtier.v1.Kvtier/NoSuch");
    var _ = call("Ping", writes, Buffer.buffer(new byte[] {0, 0, 0, 0, 1, 7}));
    assertTold(Level.INFO, "refused: INVALID_ARGUMENT: not a message of this method");
    var _ = call("Register", writes, Buffer.buffer(new byte[] {0, 0, 0, 0, 3, 10, 1, (byte) 0xff}));
    assertTold(
        Level.INFO,
        "refused: INVALID_ARGUMENT: a name in the message is not UTF-8; names are UTF-8");
    var _ = call("Register", writes, model.toBuilder().putProperties("x\ny", "").build());
    assertTold(
        Level.INFO,
        "refused: INVALID_ARGUMENT: property 'x\ny': expected a name without '=', and no line"
            + " breaks");
    var _ = call("Cancel", writes, CancelRequest.newBuilder().setOperationId(5).build());
    assertTold(Level.INFO, "refused: MISS: no call of this connection runs as operation 5");
    var _ = call("Put", writes, header(namespace), of(chunk(4096).setBlock(1)));
    assertTold(Level.INFO, "refused: INVALID_ARGUMENT: a chunk of block 1, expected 0 to 0");
    var _ = call("Put", writes, header(namespace), of(chunk(4095)));
    assertTold(Level.INFO, "refused: 1 block of a Put: INVALID_ARGUMENT: not all bytes came");
    var _ = call("Put", writes, header(namespace), of(chunk(4096).setCrc32C(1)));
    assertTold(Level.WARN, "refused: 1 block of a Put: CORRUPT: bytes do not match the checksum");
    // By the index, which tells of it itself.
    var _ = call("Register", writes, model.toBuilder().setBlockBytes(0).build());
    ILoggingEvent byIndex = lines.poll(60, TimeUnit.SECONDS);
    assertTrue(
        String.valueOf(byIndex).contains(TRACE + (10 + calls) + ": REGISTER refused: "),
        String.valueOf(byIndex));
    var _ = call("Put", reads);
    ILoggingEvent reader = lines.poll(60, TimeUnit.SECONDS);
    assertTrue(
        String.valueOf(reader).contains(TRACE + (10 + calls) + ": refused: PERMISSION_DENIED: "),
        String.valueOf(reader));
    assertEquals(List.of(), List.copyOf(lines));
  }
}
