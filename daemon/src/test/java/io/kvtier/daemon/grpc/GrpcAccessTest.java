package io.kvtier.daemon.grpc;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.MessageLite;
import io.kvtier.daemon.Daemon;
import io.kvtier.daemon.SmallDaemon;
import io.kvtier.daemon.access.TestCertificates;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.access.Token;
import io.kvtier.protocol.access.TokenLine;
import io.kvtier.protocol.v1.Keys;
import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.LookupResponse;
import io.kvtier.protocol.v1.Outcome;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.kvtier.protocol.v1.StatsRequest;
import io.kvtier.protocol.v1.StatsResponse;
import io.kvtier.protocol.v1.StatusCode;
import io.kvtier.tiers.slots.SlotAllocator;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.VertxException;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientRequest;
import io.vertx.core.http.HttpConnection;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.http.RequestOptions;
import io.vertx.core.http.StreamResetException;
import io.vertx.core.net.PemKeyCertOptions;
import io.vertx.core.net.PemTrustOptions;
import io.vertx.grpc.health.v1.HealthCheckRequest;
import io.vertx.grpc.health.v1.HealthCheckResponse;
import io.vertx.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.vertx.grpc.health.v1.HealthListResponse;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.SecureRandom;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Who gets in by gRPC, what each may, and what those who may not can disturb. */
@Timeout(180)
final class GrpcAccessTest {
  private static final String PATH = "/kvtier.v1.Kvtier/";
  private static final String OK = "0";
  private static final String RESOURCE_EXHAUSTED = "8";
  private static final String DENIED = "7";
  private static final String UNAUTHENTICATED = "16";
  private static final SecureRandom RANDOM = new SecureRandom();

  /** What takes longer hangs, on a busy machine too. */
  private static final long HANG_NS = 60_000_000_000L;

  private static final List<String> READS =
      List.of("Ping", "Register", "Unregister", "Lookup", "Prefetch", "Cancel", "Stats", "Get");
  private static final List<String> WRITES =
      List.of("Put", "Pin", "Unpin", "Retain", "Delete", "Clear", "Flush");

  @TempDir private Path folder;
  private final Vertx vertx = Vertx.vertx();
  private final Context loop = vertx.getOrCreateContext();
  private final List<HttpClient> clients = new ArrayList<>();
  private final Map<Role, Token> tokens = new EnumMap<>(Role.class);
  private final Token ofBlue = Token.make(RANDOM);
  private final Token ofGreen = Token.make(RANDOM);
  private @Nullable Daemon daemon;
  private int port;

  @BeforeEach
  void makeTokens() throws IOException {
    List<String> lines = new ArrayList<>();
    for (Role role : List.of(Role.READ, Role.WRITE, Role.ADMIN)) {
      Token token = Token.make(RANDOM);
      tokens.put(role, token);
      lines.add(TokenLine.of(token, role.word(), role, "", null, RANDOM).text());
    }
    lines.add(TokenLine.of(ofBlue, "b", Role.WRITE, "blue", null, RANDOM).text());
    lines.add(TokenLine.of(ofGreen, "g", Role.WRITE, "green", null, RANDOM).text());
    Files.write(folder.resolve("tokens"), lines);
  }

  @AfterEach
  void stop() throws Exception {
    for (HttpClient client : clients) {
      await(client.close());
    }
    await(vertx.close());
    Daemon started = daemon;
    if (started != null) {
      started.close();
    }
  }

  private void start(String... more) throws Exception {
    List<String> settings =
        new ArrayList<>(
            SmallDaemon.settings(
                folder,
                "http.enabled=false",
                "grpc.port=0",
                "grpc.threads=2",
                "access.tokens=" + folder.resolve("tokens"),
                "tenants=name=blue host_bytes=4MiB,name=green host_bytes=4MiB"));
    settings.addAll(List.of(more));
    Daemon started = new Daemon(ConfigLoader.load(null, settings));
    daemon = started;
    port = Integer.parseInt(String.valueOf(started.grpcAddress()).split(":", -1)[1]);
  }

  private static <T> T await(Future<T> future) throws Exception {
    try {
      return future.toCompletionStage().toCompletableFuture().get(60, TimeUnit.SECONDS);
    } catch (ExecutionException e) {
      throw e.getCause() instanceof Exception cause ? cause : e;
    }
  }

  private HttpClient newClient(HttpClientOptions options) {
    HttpClient client =
        vertx.createHttpClient(
            options.setProtocolVersion(HttpVersion.HTTP_2).setHttp2ClearTextUpgrade(false));
    clients.add(client);
    return client;
  }

  private record Called(String status, Buffer body) {}

  private Called call(HttpClient client, String method, @Nullable Token token, byte[] message)
      throws Exception {
    return await(begin(client, method, token, message));
  }

  private Future<Called> begin(
      HttpClient client, String method, @Nullable Token token, byte[] message) {
    RequestOptions options =
        new RequestOptions()
            .setMethod(HttpMethod.POST)
            .setHost("127.0.0.1")
            .setPort(port)
            .setURI(method.startsWith("/") ? method : PATH + method)
            .putHeader("content-type", "application/grpc");
    if (token != null) {
      options.putHeader("authorization", "Bearer " + token.secretText());
    }
    Buffer framed =
        Buffer.buffer().appendByte((byte) 0).appendInt(message.length).appendBytes(message);
    // On one loop: elsewhere an answer may come before its handler.
    Promise<Called> called = Promise.promise();
    loop.runOnContext(v ->
        client
            .request(options)
            .compose(request -> request.send(framed))
            .compose(response ->
                response
                    .body()
                    .map(body -> {
                      String early = response.getHeader("grpc-status");
                      return new Called(
                          early == null ? response.getTrailer("grpc-status") : early, body);
                    }))
            .onComplete(called));
    return called.future();
  }

  private String status(HttpClient client, String method, @Nullable Token token) throws Exception {
    return call(client, method, token, new byte[0]).status();
  }

  private <T extends MessageLite> T ask(
      HttpClient client, Token token, String method, MessageLite message, T shape)
      throws Exception {
    Called called = call(client, method, token, message.toByteArray());
    assertEquals(OK, called.status());
    @SuppressWarnings("unchecked") // a message's parser makes messages of its kind
    T parsed =
        (T)
            shape
                .getParserForType()
                .parseFrom(called.body().slice(5, called.body().length()).getBytes());
    return parsed;
  }

  // ---- roles

  @Test
  void everyMethod_everyRole_isRefusedOrNotAsTheTableSays() throws Exception {
    start();
    HttpClient client = newClient(new HttpClientOptions());
    List<String> wrong = new ArrayList<>();
    List<String> methods = new ArrayList<>(READS);
    methods.addAll(WRITES);
    for (String method : methods) {
      for (Role role : List.of(Role.NONE, Role.READ, Role.WRITE, Role.ADMIN)) {
        String expected =
            role == Role.NONE
                ? UNAUTHENTICATED
                : role == Role.READ && WRITES.contains(method) ? DENIED : OK;
        String status = status(client, method, tokens.get(role));
        if (!status.equals(expected)) {
          wrong.add(method + " as " + role + ": " + status + ", expected " + expected);
        }
      }
    }
    assertEquals(List.of(), wrong);
  }

  @Test
  void token_wrongOrRevoked_isUnauthenticated() throws Exception {
    start();
    HttpClient client = newClient(new HttpClientOptions());
    assertEquals(UNAUTHENTICATED, status(client, "Ping", Token.make(RANDOM)));
    Token token = tokens.get(Role.READ);
    assertEquals(OK, status(client, "Ping", token));
    Files.writeString(folder.resolve("tokens"), "# nobody\n");
    long end = System.nanoTime() + HANG_NS;
    boolean isLate = false;
    while (status(client, "Ping", token).equals(OK)) {
      // A call that began in time and ended late says nothing: another one decides.
      assertFalse(isLate, "the token stays valid");
      isLate = System.nanoTime() - end >= 0;
    }
    assertEquals(UNAUTHENTICATED, status(client, "Ping", token));
  }

  @Test
  void tenants_doNotFindEachOthersNamespaces() throws Exception {
    start();
    HttpClient client = newClient(new HttpClientOptions());
    RegisterRequest model =
        RegisterRequest.newBuilder().setName("model").setBlockBytes(4096).build();
    RegisterResponse blue =
        ask(client, ofBlue, "Register", model, RegisterResponse.getDefaultInstance());
    RegisterResponse green =
        ask(client, ofGreen, "Register", model, RegisterResponse.getDefaultInstance());
    assertNotEquals(blue.getNamespaceId(), green.getNamespaceId());
    KeysRequest keys =
        KeysRequest.newBuilder()
            .setKeys(
                Keys.newBuilder()
                    .setNamespaceId(blue.getNamespaceId())
                    .addKeys(ByteString.copyFromUtf8("a key of 16 byte")))
            .build();
    LookupResponse own = ask(client, ofBlue, "Lookup", keys, LookupResponse.getDefaultInstance());
    assertEquals(StatusCode.STATUS_OK, own.getOutcome().getStatus());
    LookupResponse other =
        ask(client, ofGreen, "Lookup", keys, LookupResponse.getDefaultInstance());
    assertEquals(StatusCode.STATUS_NAMESPACE_UNKNOWN, other.getOutcome().getStatus());
  }

  @Test
  void reader_bringsHalfOfTheBlockSizes_andTheRestIsLeftToWriters() throws Exception {
    start("ssd.bytes=0");
    HttpClient client = newClient(new HttpClientOptions());
    Token reader = requireNonNull(tokens.get(Role.READ));
    int half = SlotAllocator.CLASSES_MAX / 2;
    for (int size = 1; size <= half; size++) {
      assertEquals(StatusCode.STATUS_OK, registerSize(client, reader, size).getStatus());
    }
    Outcome refused = registerSize(client, reader, half + 1);
    assertNotEquals(StatusCode.STATUS_OK, refused.getStatus());
    assertTrue(refused.getText().contains("the role write"), refused::getText);
    Token writer = requireNonNull(tokens.get(Role.WRITE));
    assertEquals(StatusCode.STATUS_OK, registerSize(client, writer, half + 1).getStatus());
  }

  private Outcome registerSize(HttpClient client, Token token, int pages) throws Exception {
    RegisterRequest request =
        RegisterRequest.newBuilder().setName("n" + pages).setBlockBytes(4096L * pages).build();
    return ask(client, token, "Register", request, RegisterResponse.getDefaultInstance())
        .getOutcome();
  }

  private String stats(HttpClient client, @Nullable Token token) throws Exception {
    return ask(
            client,
            requireNonNull(token),
            "Stats",
            StatsRequest.getDefaultInstance(),
            StatsResponse.getDefaultInstance())
        .getJson();
  }

  @Test
  void stats_everyRoleAndTenant_tellWhatEachMaySee() throws Exception {
    start();
    HttpClient client = newClient(new HttpClientOptions());
    Map<String, Token> owners = new TreeMap<>();
    owners.put("of-blue", ofBlue);
    owners.put("of-green", ofGreen);
    owners.put("of-nobody", requireNonNull(tokens.get(Role.WRITE)));
    for (Map.Entry<String, Token> owner : owners.entrySet()) {
      RegisterRequest model =
          RegisterRequest.newBuilder().setName(owner.getKey()).setBlockBytes(4096).build();
      ask(client, owner.getValue(), "Register", model, RegisterResponse.getDefaultInstance());
    }
    assertEquals(List.of("of-blue"), namesIn(stats(client, ofBlue), owners.keySet()));
    assertEquals(List.of("of-green"), namesIn(stats(client, ofGreen), owners.keySet()));
    for (Role role : List.of(Role.READ, Role.WRITE)) {
      String told = stats(client, tokens.get(role));
      assertEquals(List.of("of-nobody"), namesIn(told, owners.keySet()), "as " + role);
      assertFalse(told.contains("\"blue\""), "as " + role);
    }
    String all = stats(client, tokens.get(Role.ADMIN));
    assertEquals(List.copyOf(owners.keySet()), namesIn(all, owners.keySet()));
    assertTrue(all.contains("\"blue\""));
  }

  private static List<String> namesIn(String stats, Set<String> names) {
    return names.stream().filter(name -> stats.contains("\"" + name + "\"")).toList();
  }

  // ---- TLS

  private HttpClientOptions tls(TestCertificates certificates, @Nullable String name) {
    HttpClientOptions options =
        new HttpClientOptions()
            .setSsl(true)
            .setUseAlpn(true)
            .setTrustOptions(
                new PemTrustOptions().addCertPath(certificates.file("ca.crt").toString()));
    if (name != null) {
      options.setKeyCertOptions(
          new PemKeyCertOptions()
              .setCertPath(certificates.file(name + ".crt").toString())
              .setKeyPath(certificates.file(name + ".key").toString()));
    }
    return options;
  }

  private X509Certificate shown(HttpClient client) throws Exception {
    return await(
        client
            .request(new RequestOptions().setHost("127.0.0.1").setPort(port).setURI("/"))
            .map(request -> {
              try {
                return (X509Certificate) request.connection().sslSession().getPeerCertificates()[0];
              } catch (IOException e) {
                throw new AssertionError(e);
              }
            }));
  }

  @Test
  void mutualTls_letsInWhomTheAuthorityHasSigned_andRotatesItsOwnCertificate() throws Exception {
    TestCertificates certificates = new TestCertificates(folder);
    certificates.sign("server", "");
    certificates.sign("client", "");
    certificates.sign("late", "-20d");
    certificates.sign("next", "");
    start(
        "grpc.host=0.0.0.0",
        "tls.certificate=" + certificates.file("server.crt"),
        "tls.key=" + certificates.file("server.key"),
        "tls.client_ca=" + certificates.file("ca.crt"));
    HttpClient known = newClient(tls(certificates, "client"));
    assertEquals(OK, status(known, "Ping", tokens.get(Role.READ)));
    assertEquals(UNAUTHENTICATED, status(known, "Ping", null));
    for (String name : Arrays.asList(null, "late")) {
      HttpClient other = newClient(tls(certificates, name));
      assertThrows(
          Exception.class, () -> status(other, "Ping", tokens.get(Role.READ)), "as " + name);
    }
    X509Certificate before = shown(known);
    Files.copy(
        certificates.file("next.key"),
        certificates.file("server.key"),
        StandardCopyOption.REPLACE_EXISTING);
    Files.copy(
        certificates.file("next.crt"),
        certificates.file("server.crt"),
        StandardCopyOption.REPLACE_EXISTING);
    X509Certificate after = before;
    long end = System.nanoTime() + HANG_NS;
    while (after.equals(before)) {
      assertTrue(System.nanoTime() < end, "the certificate stays");
      after = shown(newClient(tls(certificates, "client")));
    }
    assertEquals(OK, status(known, "Ping", tokens.get(Role.READ)), "on the old connection");
  }

  @Test
  void otherAddressThanLoopback_withoutTls_doesNotStart() {
    IOException refused = assertThrows(IOException.class, () -> start("grpc.host=0.0.0.0"));
    assertTrue(String.valueOf(refused.getMessage()).contains("tls.certificate"));
  }

  // ---- limits

  @Test
  void callsPerSecond_beyond_areRefusedUnread() throws Exception {
    start("grpc.calls_per_second=20");
    HttpClient client = newClient(new HttpClientOptions());
    assertEquals(OK, status(client, "Ping", tokens.get(Role.READ)));
    // All at once: one after the other, a slow machine would stay below the limit.
    List<Future<Called>> calls = new ArrayList<>();
    for (int i = 0; i < 200; i++) {
      calls.add(begin(client, "Ping", tokens.get(Role.READ), new byte[0]));
    }
    List<String> statuses = new ArrayList<>();
    for (Future<Called> call : calls) {
      statuses.add(await(call).status());
    }
    assertTrue(statuses.contains(OK), "nobody was let in");
    assertTrue(statuses.contains(RESOURCE_EXHAUSTED), "200 calls were taken at once");
    assertTrue(refusals() > 0, "they are not counted");
  }

  private long refusals() throws Exception {
    long end = System.nanoTime() + 20_000_000_000L;
    long count = 0;
    HttpClient client = newClient(new HttpClientOptions());
    while (count == 0 && System.nanoTime() < end) {
      byte[] empty = StatsRequest.getDefaultInstance().toByteArray();
      Called called = call(client, "Stats", tokens.get(Role.READ), empty);
      // This one may be among too many, too.
      if (called.status().equals(OK)) {
        StatsResponse told =
            StatsResponse.parseFrom(called.body().slice(5, called.body().length()).getBytes());
        count = told.getCountersOrDefault("sessions_refused", 0);
      }
    }
    return count;
  }

  @Test
  void connectionOnWhichNobodyWasLetIn_endsLikeOneThatNeverCalled() throws Exception {
    start("grpc.first_call=1s", "grpc.idle=300s");
    HttpClient client = newClient(new HttpClientOptions());
    Promise<Void> ended = Promise.promise();
    HttpConnection connection =
        await(
            client
                .request(new RequestOptions().setHost("127.0.0.1").setPort(port).setURI("/"))
                .map(HttpClientRequest::connection));
    connection.closeHandler(v -> ended.complete());
    assertEquals(UNAUTHENTICATED, status(client, "Ping", null));
    await(ended.future());
  }

  @Test
  void refusedCallThatNeverEnds_isBrokenOff() throws Exception {
    start("limits.lease=1s");
    HttpClient client = newClient(new HttpClientOptions());
    assertEquals(OK, status(client, "Ping", tokens.get(Role.READ)));
    RequestOptions options =
        new RequestOptions()
            .setMethod(HttpMethod.POST)
            .setHost("127.0.0.1")
            .setPort(port)
            .setURI(PATH + "Ping")
            .putHeader("content-type", "application/grpc");
    // A first byte, and then neither more nor an end.
    Future<?> answer =
        client
            .request(options)
            .compose(request -> {
              request.setChunked(true);
              return request.write(Buffer.buffer(new byte[1])).compose(v -> request.response());
            });
    StreamResetException reset = assertThrows(StreamResetException.class, () -> await(answer));
    assertEquals(8, reset.getCode());
    assertEquals(OK, status(client, "Ping", tokens.get(Role.READ)), "on the same connection");
  }

  // ---- what anybody may call

  private static final String HEALTH = "/grpc.health.v1.Health/";

  private static byte[] service(String name) {
    return HealthCheckRequest.newBuilder().setService(name).build().toByteArray();
  }

  private static ServingStatus serving(Called called) throws Exception {
    assertEquals(OK, called.status());
    return HealthCheckResponse.parseFrom(called.body().slice(5, called.body().length()).getBytes())
        .getStatus();
  }

  @Test
  void healthCheck_ofAnybody_isAnsweredWithoutReasons() throws Exception {
    start();
    HttpClient stranger = newClient(new HttpClientOptions());
    for (String name :
        List.of("", "kvtier.v1.Kvtier", "kvtier.whole", "kvtier.host", "kvtier.puts")) {
      Called called = call(stranger, HEALTH + "Check", null, service(name));
      assertEquals(ServingStatus.SERVING, serving(called), name);
    }
    assertEquals("5", call(stranger, HEALTH + "Check", null, service("nothing")).status());
    Called list = call(stranger, HEALTH + "List", null, new byte[0]);
    assertEquals(
        Set.of("", "kvtier.v1.Kvtier", "kvtier.whole", "kvtier.puts", "kvtier.host"),
        HealthListResponse.parseFrom(list.body().slice(5, list.body().length()).getBytes())
            .getStatusesMap()
            .keySet());
    assertEquals(UNAUTHENTICATED, status(stranger, HEALTH + "Watch", null));
    String reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    assertEquals(UNAUTHENTICATED, status(stranger, reflection, null));
    assertEquals(OK, status(stranger, reflection, tokens.get(Role.READ)));
    assertEquals(UNAUTHENTICATED, status(stranger, "Ping", null), "it is a stranger still");
  }

  @Test
  void healthCheck_thatIsTooLongOrMore_isBrokenOff() throws Exception {
    start();
    HttpClient stranger = newClient(new HttpClientOptions());
    assertThrows(
        StreamResetException.class,
        () -> call(stranger, HEALTH + "Check", null, service("x".repeat(2000))));
    assertEquals(
        ServingStatus.SERVING, serving(call(stranger, HEALTH + "Check", null, service(""))));
  }

  @Test
  void manyHealthChecksThatNeverEnd_endTheConnectionOfAStranger_andTakeNobodysPlace()
      throws Exception {
    start("limits.lease=10min", "grpc.first_call=10min");
    HttpClient stranger = newClient(new HttpClientOptions());
    HttpConnection connection = connection(stranger, port);
    Promise<Void> closed = Promise.promise();
    connection.closeHandler(v -> closed.complete());
    byte[] framed = Buffer.buffer().appendByte((byte) 0).appendInt(0).getBytes();
    for (int i = 0; i < 20; i++) {
      var _ = beginAndNotEnd(stranger, HEALTH + "Check", null, framed);
    }
    await(closed.future());
    HttpClient known = newClient(new HttpClientOptions());
    assertEquals(OK, status(known, "Ping", tokens.get(Role.READ)));
  }

  @Test
  void connectionOnWhichOnlyHealthWasAsked_endsLikeOneThatNeverCalled() throws Exception {
    start("grpc.first_call=1s");
    HttpClient stranger = newClient(new HttpClientOptions());
    HttpConnection connection = connection(stranger, port);
    Promise<Void> closed = Promise.promise();
    connection.closeHandler(v -> closed.complete());
    assertEquals(
        ServingStatus.SERVING, serving(call(stranger, HEALTH + "Check", null, service(""))));
    await(closed.future());
  }

  @Test
  void watches_beyondAFew_areRefused() throws Exception {
    start("grpc.threads=1");
    HttpClient known = newClient(new HttpClientOptions());
    Token token = requireNonNull(tokens.get(Role.READ));
    for (int i = 0; i < 32; i++) {
      var _ = begin(known, HEALTH + "Watch", token, service(""));
    }
    Called refused = call(known, HEALTH + "Watch", token, service(""));
    assertEquals(RESOURCE_EXHAUSTED, refused.status());
    assertEquals(OK, status(known, "Ping", token));
  }

  /** Begins a call that says nothing more; fails when it is broken off, or its connection is. */
  private Future<?> beginAndSayNothing(HttpClient client, @Nullable Token token) {
    return beginAndNotEnd(client, "Put", token, new byte[1]);
  }

  private Future<?> beginAndNotEnd(
      HttpClient client, String method, @Nullable Token token, byte[] sent) {
    RequestOptions options =
        new RequestOptions()
            .setMethod(HttpMethod.POST)
            .setHost("127.0.0.1")
            .setPort(port)
            .setURI(method.startsWith("/") ? method : PATH + method)
            .putHeader("content-type", "application/grpc");
    if (token != null) {
      options.putHeader("authorization", "Bearer " + token.secretText());
    }
    Promise<Void> ended = Promise.promise();
    loop.runOnContext(v ->
        client
            .request(options)
            .compose(request -> {
              request.setChunked(true);
              return request.write(Buffer.buffer(sent)).compose(w -> request.response());
            })
            .<Void>mapEmpty()
            .onComplete(ended));
    return ended.future();
  }

  @Test
  void manyRefusedCallsThatNeverEnd_endAConnectionOnWhichNobodyWasLetIn() throws Exception {
    start("limits.lease=10min", "grpc.first_call=10min");
    HttpClient stranger = newClient(new HttpClientOptions());
    HttpConnection connection = connection(stranger, port);
    Promise<Void> closed = Promise.promise();
    connection.closeHandler(v -> closed.complete());
    for (int i = 0; i < 10; i++) {
      var _ = beginAndSayNothing(stranger, null);
    }
    assertEquals(UNAUTHENTICATED, status(stranger, "Ping", null), "some may wait");
    assertFalse(closed.future().isComplete());
    for (int i = 0; i < 10; i++) {
      var _ = beginAndSayNothing(stranger, null);
    }
    await(closed.future());
    // Somebody who was let in has as many as there are streams.
    HttpClient known = newClient(new HttpClientOptions());
    assertEquals(OK, status(known, "Ping", tokens.get(Role.READ)));
    HttpConnection before = connection(known, port);
    for (int i = 0; i < 40; i++) {
      var _ = beginAndSayNothing(known, null);
    }
    assertEquals(OK, status(known, "Ping", tokens.get(Role.READ)));
    assertSame(before, connection(known, port));
  }

  /** Of three who share, nobody has more than a third of the streams whose answers wait. */
  @Test
  void callsOfKnownConnectionsThatAreOverAndNeverEnd_areBoundedByTenant() throws Exception {
    start("limits.lease=10min");
    byte[] compressed = {1, 0, 0, 0, 0};
    List<Future<?>> calls = new ArrayList<>();
    List<HttpClient> strangers = new ArrayList<>();
    for (int connection = 0; connection < 3; connection++) {
      HttpClient client = newClient(new HttpClientOptions());
      strangers.add(client);
      assertEquals(OK, status(client, "Ping", ofBlue));
      for (int i = 0; i < 60; i++) {
        calls.add(beginAndNotEnd(client, "Put", null, new byte[1]));
        calls.add(beginAndNotEnd(client, "NoSuch", ofBlue, new byte[1]));
        // It is let in, and over as soon as that is read.
        calls.add(beginAndNotEnd(client, "Lookup", ofBlue, compressed));
      }
    }
    int held = 1024 / 3;
    awaitFailed(calls, calls.size() - held);
    StreamResetException reset =
        assertInstanceOf(
            StreamResetException.class,
            calls.stream().filter(Future::failed).findFirst().orElseThrow().cause());
    assertEquals(8, reset.getCode(), "CANCEL");
    HttpClient other = newClient(new HttpClientOptions());
    assertEquals(OK, status(other, "Ping", ofGreen));
    assertEquals(UNAUTHENTICATED, status(other, "Ping", null), "another tenant's may wait");
    for (HttpClient stranger : strangers) {
      await(stranger.close());
    }
    HttpClient again = newClient(new HttpClientOptions());
    assertEquals(OK, status(again, "Ping", ofBlue));
    List<Future<?>> later = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      later.add(beginAndNotEnd(again, "NoSuch", ofBlue, new byte[1]));
    }
    assertEquals(OK, status(again, "Ping", ofBlue));
    assertTrue(later.stream().noneMatch(Future::isComplete), "the others' have gone with them");
  }

  /**
   * Netty would end a connection for which a server resets many streams, but for cancelled ones.
   */
  @Test
  void callsTurnedAway_howeverMany_leaveTheirConnection() throws Exception {
    start("limits.lease=10min");
    int held = 1024 / 3;
    List<Future<?>> calls = new ArrayList<>();
    for (int connection = 0; connection < 2; connection++) {
      HttpClient client = newClient(new HttpClientOptions());
      assertEquals(OK, status(client, "Ping", ofBlue));
      for (int i = 0; i <= held / 2; i++) {
        calls.add(beginAndNotEnd(client, "NoSuch", ofBlue, new byte[1]));
      }
    }
    awaitFailed(calls, calls.size() - held);
    // Frame by frame: a client of Vert.x would end the connection itself.
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
      socket.setSoTimeout(60_000);
      DataOutputStream out = new DataOutputStream(socket.getOutputStream());
      out.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".getBytes(StandardCharsets.ISO_8859_1));
      writeFrame(out, SETTINGS_FRAME, 0, 0, new byte[0]);
      int turnedAway = 250;
      for (int i = 0; i < turnedAway; i++) {
        writeFrame(out, HEADERS_FRAME, END_HEADERS, 2 * i + 1, callOf("NoSuch", ofBlue));
      }
      out.flush();
      DataInputStream in = new DataInputStream(socket.getInputStream());
      for (int resets = 0; resets < turnedAway; ) {
        int type = readFrame(in);
        assertNotEquals(GOAWAY_FRAME, type, "after " + resets);
        resets += type == RESET_FRAME ? 1 : 0;
      }
      writeFrame(out, PING_FRAME, 0, 0, new byte[8]);
      out.flush();
      int type;
      do {
        type = readFrame(in);
        assertNotEquals(GOAWAY_FRAME, type);
      } while (type != PING_FRAME);
    }
  }

  /** A client that needs no more of an answer cancels its call, and keeps the connection. */
  @Test
  void callCancelledBeforeItsAnswerIsWritten_leavesTheOtherCallsOfItsConnection() throws Exception {
    start();
    Token token = requireNonNull(tokens.get(Role.READ));
    List<String> methods =
        List.of(
            "Ping",
            "/grpc.health.v1.Health/Check",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    byte[] emptyMessage = new byte[5];
    for (String method : methods) {
      try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
        socket.setSoTimeout(60_000);
        // Sent at once, so the server reads the reset before it writes the answer.
        ByteArrayOutputStream sent = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(sent);
        out.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".getBytes(StandardCharsets.ISO_8859_1));
        writeFrame(out, SETTINGS_FRAME, 0, 0, new byte[0]);
        writeFrame(out, HEADERS_FRAME, END_HEADERS, 1, callOf("Ping", token));
        writeFrame(out, HEADERS_FRAME, END_HEADERS, 3, callOf(method, token));
        writeFrame(out, DATA_FRAME, END_STREAM, 3, emptyMessage);
        writeFrame(out, RESET_FRAME, 0, 3, new byte[] {0, 0, 0, CANCEL});
        writeFrame(out, PING_FRAME, 0, 0, new byte[8]);
        sent.writeTo(socket.getOutputStream());
        sent.reset();
        // The other call of the connection goes on, and a new one is served.
        writeFrame(out, DATA_FRAME, END_STREAM, 1, emptyMessage);
        writeFrame(out, HEADERS_FRAME, END_HEADERS, 5, callOf("Ping", token));
        writeFrame(out, DATA_FRAME, END_STREAM, 5, emptyMessage);
        DataInputStream in = new DataInputStream(socket.getInputStream());
        Set<Integer> answered = new HashSet<>();
        while (!answered.containsAll(List.of(1, 5))) {
          int lengthAndType = in.readInt();
          boolean isLast = (in.readByte() & END_STREAM) != 0;
          int stream = in.readInt();
          in.skipNBytes(lengthAndType >>> 8);
          int type = lengthAndType & 0xff;
          assertNotEquals(GOAWAY_FRAME, type, method);
          if (type == HEADERS_FRAME && isLast) {
            answered.add(stream);
          }
          if (type == PING_FRAME) {
            sent.writeTo(socket.getOutputStream());
          }
        }
        assertFalse(answered.contains(3), method + " was answered before its reset");
      }
    }
  }

  private static final int DATA_FRAME = 0;
  private static final int HEADERS_FRAME = 1;
  private static final int RESET_FRAME = 3;
  private static final int SETTINGS_FRAME = 4;
  private static final int PING_FRAME = 6;
  private static final int GOAWAY_FRAME = 7;
  private static final int END_STREAM = 1;
  private static final int END_HEADERS = 4;
  private static final byte CANCEL = 8;

  private static void writeFrame(
      DataOutputStream out, int type, int flags, int stream, byte[] payload) throws IOException {
    out.writeInt(payload.length << 8 | type);
    out.writeByte(flags);
    out.writeInt(stream);
    out.write(payload);
  }

  /** Reads a frame; answers with its type. */
  private static int readFrame(DataInputStream in) throws IOException {
    int lengthAndType = in.readInt();
    in.skipNBytes(5L + (lengthAndType >>> 8));
    return lengthAndType & 0xff;
  }

  /** The headers of a call, none of them indexed or compressed. */
  private static byte[] callOf(String method, Token token) {
    Buffer headers = Buffer.buffer();
    List<String> namesAndValues =
        List.of(
            ":method",
            "POST",
            ":scheme",
            "http",
            ":path",
            method.startsWith("/") ? method : PATH + method,
            ":authority",
            "localhost",
            "content-type",
            "application/grpc",
            "authorization",
            "Bearer " + token.secretText());
    for (int i = 0; i < namesAndValues.size(); i++) {
      String text = namesAndValues.get(i);
      if (i % 2 == 0) {
        headers.appendByte((byte) 0);
      }
      headers.appendByte((byte) text.length()).appendString(text);
    }
    return headers.getBytes();
  }

  private static void awaitFailed(List<Future<?>> calls, int count) throws InterruptedException {
    long end = System.nanoTime() + HANG_NS;
    while (calls.stream().filter(Future::failed).count() < count) {
      assertTrue(System.nanoTime() < end, "they all wait");
      Thread.sleep(20);
    }
  }

  /** A client that is told by GOAWAY connects again; one that is not has its next call fail. */
  @Test
  void idleConnection_calledOrNot_isToldThatItEnds() throws Exception {
    start("grpc.first_call=1s", "grpc.idle=1s");
    for (boolean hasCalled : List.of(false, true)) {
      try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
        socket.setSoTimeout(60_000);
        DataOutputStream out = new DataOutputStream(socket.getOutputStream());
        out.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".getBytes(StandardCharsets.ISO_8859_1));
        writeFrame(out, SETTINGS_FRAME, 0, 0, new byte[0]);
        if (hasCalled) {
          byte[] call = callOf("Ping", requireNonNull(tokens.get(Role.READ)));
          writeFrame(out, HEADERS_FRAME, END_HEADERS, 1, call);
          writeFrame(out, DATA_FRAME, END_STREAM, 1, new byte[5]);
        }
        out.flush();
        DataInputStream in = new DataInputStream(socket.getInputStream());
        int lengthAndType = in.readInt();
        while ((lengthAndType & 0xff) != GOAWAY_FRAME) {
          in.skipNBytes(5L + (lengthAndType >>> 8));
          lengthAndType = in.readInt();
        }
        in.skipNBytes(5); // flags, and the stream of the frame
        assertEquals(hasCalled ? 1 : 0, in.readInt(), "the last stream that was served");
        assertEquals(0, in.readInt(), "no error");
        assertEquals(-1, in.read());
      }
    }
  }

  @Test
  void refusedCallsThatNeverEnd_onManyConnections_endTheOldestOfThese() throws Exception {
    start("limits.lease=10min", "grpc.first_call=10min", "grpc.threads=1");
    HttpClient known = newClient(new HttpClientOptions());
    assertEquals(OK, status(known, "Ping", tokens.get(Role.READ)));
    HttpConnection before = connection(known, port);
    AtomicInteger open = new AtomicInteger();
    Promise<Void> firstClosed = Promise.promise();
    for (int i = 0; i < 40; i++) {
      HttpClient stranger = newClient(new HttpClientOptions());
      HttpConnection connection = connection(stranger, port);
      open.incrementAndGet();
      boolean isFirst = i == 0;
      connection.closeHandler(v -> {
        open.decrementAndGet();
        if (isFirst) {
          firstClosed.complete();
        }
      });
      var _ = beginAndSayNothing(stranger, null);
    }
    await(firstClosed.future());
    assertEquals(OK, status(known, "Ping", tokens.get(Role.READ)));
    assertSame(before, connection(known, port));
    assertTrue(open.get() > 0, "some may wait");
  }

  @Test
  void connectionsThatNeverCall_endByThemselvesAndDisturbNobody() throws Exception {
    start("grpc.first_call=2s", "grpc.connections=600", "grpc.connections_per_peer=0");
    HttpClient client = newClient(new HttpClientOptions());
    assertEquals(OK, status(client, "Ping", tokens.get(Role.READ)));
    byte[] preface =
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0".getBytes(StandardCharsets.ISO_8859_1);
    List<Socket> idle = new ArrayList<>();
    try {
      for (int i = 0; i < 1000; i++) {
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
        idle.add(socket);
        OutputStream out = socket.getOutputStream();
        switch (i % 4) {
          case 0 -> {}
          case 1 -> out.write(preface, 0, 10);
          case 2 -> out.write(preface);
          default -> out.write("POST / HTTP/1.1\r\nHost".getBytes(StandardCharsets.ISO_8859_1));
        }
        if (i % 100 == 0) {
          assertEquals(OK, status(client, "Ping", tokens.get(Role.READ)));
        }
      }
      for (Socket socket : idle) {
        assertEnds(socket);
      }
      assertEquals(OK, status(client, "Ping", tokens.get(Role.READ)));
    } finally {
      for (Socket socket : idle) {
        socket.close();
      }
    }
  }

  private static HttpConnection connection(HttpClient client, int port) throws Exception {
    return await(
        client
            .request(new RequestOptions().setHost("127.0.0.1").setPort(port).setURI("/"))
            .map(HttpClientRequest::connection));
  }

  @Test
  void connectionsBeyondTheLimit_takeThePlacesOfThoseThatNeverCalled() throws Exception {
    start("grpc.first_call=10min", "grpc.connections=100");
    HttpClient known = newClient(new HttpClientOptions());
    assertEquals(OK, status(known, "Ping", tokens.get(Role.READ)));
    HttpConnection before = connection(known, port);
    byte[] preface =
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0".getBytes(StandardCharsets.ISO_8859_1);
    List<Socket> silent = new ArrayList<>();
    try {
      for (int i = 0; i < 300; i++) {
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
        silent.add(socket);
        if (i % 2 == 0) {
          socket.getOutputStream().write(preface);
        }
      }
      long end = System.nanoTime() + HANG_NS;
      while (!isLetIn()) {
        assertTrue(System.nanoTime() < end, "the crowd keeps a newcomer out");
      }
      while (silent.stream().filter(GrpcAccessTest::isClosed).count() < 200) {
        assertTrue(System.nanoTime() < end, "more are open than may be");
      }
      assertEquals(OK, status(known, "Ping", tokens.get(Role.READ)));
      assertSame(before, connection(known, port), "one that was of use stays");
      assertTrue(refusals() > 0, "those that left are not counted");
    } finally {
      for (Socket socket : silent) {
        socket.close();
      }
    }
  }

  /** Whether a newcomer is served; it is not while others come faster than they are taken. */
  private boolean isLetIn() throws Exception {
    HttpClient newcomer = newClient(new HttpClientOptions());
    try {
      return OK.equals(status(newcomer, "Ping", tokens.get(Role.READ)));
    } catch (VertxException | IOException e) {
      return false;
    }
  }

  /** Whether the server has ended a connection, which may bring what it said before. */
  private static boolean isClosed(Socket socket) {
    try {
      socket.setSoTimeout(1);
      int read;
      do {
        read = socket.getInputStream().read();
      } while (read >= 0);
      return true;
    } catch (SocketTimeoutException e) {
      return false;
    } catch (IOException e) {
      return true; // reset: it has ended as well
    }
  }

  /** That the server ends a connection, which may bring what it said before. */
  private static void assertEnds(Socket socket) throws IOException {
    socket.setSoTimeout(60_000);
    int read;
    do {
      try {
        read = socket.getInputStream().read();
      } catch (SocketException e) {
        read = -1; // reset: it has ended as well
      }
    } while (read >= 0);
  }

  @Test
  void oversizeMessage_isRefusedBeforeItComes() throws Exception {
    start();
    HttpClient client = newClient(new HttpClientOptions());
    RequestOptions options =
        new RequestOptions()
            .setMethod(HttpMethod.POST)
            .setHost("127.0.0.1")
            .setPort(port)
            .setURI(PATH + "Lookup")
            .putHeader("content-type", "application/grpc")
            .putHeader(
                "authorization", "Bearer " + requireNonNull(tokens.get(Role.READ)).secretText());
    // The length of a message of 2 GiB, and no more of it.
    Buffer prefix = Buffer.buffer().appendByte((byte) 0).appendInt(Integer.MAX_VALUE);
    String status =
        await(
            client
                .request(options)
                .compose(request -> request.send(prefix))
                .map(response -> response.getHeader("grpc-status")));
    assertEquals(RESOURCE_EXHAUSTED, status);
    assertEquals(OK, status(client, "Ping", tokens.get(Role.READ)));
  }
}
