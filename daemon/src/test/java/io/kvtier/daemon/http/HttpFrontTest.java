package io.kvtier.daemon.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.daemon.Daemon;
import io.kvtier.daemon.SmallDaemon;
import io.kvtier.daemon.access.PipelinedRequests;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import java.util.zip.GZIPInputStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.LoggerFactory;

/** HTTP of a whole daemon, over real sockets. */
@Timeout(120)
final class HttpFrontTest {
  private static final int BLOCK_BYTES = 4096;
  private static final int BLOCKS = 8;

  @TempDir private static Path directory;
  private static Daemon daemon;
  private static KvtierClient client;
  private static final HttpClient HTTP = HttpClient.newHttpClient();

  /** A daemon that has stored some blocks, and has been asked for some of them. */
  @BeforeAll
  static void start() throws Exception {
    Path socket = directory.resolve("kvtier.sock");
    daemon = new Daemon(ConfigLoader.load(null, settings("http.port=0")));
    client = KvtierClient.builder().socket(socket).name("tester").build();
    Namespace namespace = client.namespace("model", BLOCK_BYTES, Map.of("dtype", "bf16"));
    try (Arena arena = Arena.ofConfined()) {
      List<MemorySegment> blocks = new ArrayList<>();
      List<byte[]> keys = new ArrayList<>();
      for (int i = 0; i < BLOCKS; i++) {
        blocks.add(arena.allocate(BLOCK_BYTES));
        keys.add(ByteBuffer.allocate(16).putInt(i).array());
      }
      Keys all = Keys.of(keys);
      assertEquals(Status.OK, client.blocking().put(namespace, all, blocks).status());
      assertEquals(Status.OK, client.blocking().get(namespace, all, blocks).status());
    }
  }

  private static List<String> settings(String... more) {
    List<String> settings =
        new ArrayList<>(
            SmallDaemon.withSsd(
                directory,
                "object.s3.proxy=http://me:secret@proxy:1",
                "http.hosts=node-7.example"));
    settings.addAll(List.of(more));
    return settings;
  }

  @AfterAll
  static void stop() {
    client.close();
    daemon.close();
    HTTP.close();
  }

  // ---- helpers

  private static String hex(int key) {
    return HexFormat.of().formatHex(ByteBuffer.allocate(16).putInt(key).array());
  }

  private static URI uri(String path) {
    return URI.create("http://" + daemon.httpAddress() + path);
  }

  private static HttpResponse<String> send(HttpRequest.Builder request) {
    try {
      return HTTP.send(request.build(), BodyHandlers.ofString());
    } catch (IOException e) {
      throw new AssertionError(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError(e);
    }
  }

  private static HttpResponse<String> get(String path) {
    return send(HttpRequest.newBuilder(uri(path)));
  }

  private static JsonObject json(String path) {
    HttpResponse<String> response = get(path);
    assertEquals(200, response.statusCode(), response.body());
    assertEquals("application/json", response.headers().firstValue("content-type").orElse(""));
    return new JsonObject(response.body());
  }

  private static void assertProblem(int status, String detail, HttpResponse<String> response) {
    assertEquals(status, response.statusCode(), response.body());
    assertEquals(
        "application/problem+json", response.headers().firstValue("content-type").orElse(""));
    JsonObject problem = new JsonObject(response.body());
    assertEquals(status, problem.getInteger("status"));
    assertTrue(problem.getString("detail").contains(detail), response.body());
  }

  private static Socket connect() throws IOException {
    URI address = uri("/");
    Socket socket = new Socket(address.getHost(), address.getPort());
    socket.setSoTimeout(30_000);
    return socket;
  }

  private static String exchange(String request) throws IOException {
    try (Socket socket = connect()) {
      socket.getOutputStream().write(request.getBytes(StandardCharsets.ISO_8859_1));
      return new String(socket.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1);
    }
  }

  private static void eventually(BooleanSupplier condition) {
    long end = System.nanoTime() + 30_000_000_000L;
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() < end, "it did not come true");
      LockSupport.parkNanos(20_000_000);
    }
  }

  // ---- health

  @Test
  void healthz_ofRunningDaemon_isLive() {
    assertTrue(json("/healthz").getBoolean("live"));
  }

  @Test
  void readyz_ofHealthyDaemon_isReadyAndNotDegraded() {
    JsonObject ready = json("/readyz");

    assertTrue(ready.getBoolean("ready"));
    assertFalse(ready.getBoolean("degraded"));
    assertEquals(new JsonArray(), ready.getJsonArray("troubles"));
  }

  // ---- state

  @Test
  void status_ofDaemon_isWhoItIs() {
    JsonObject status = json("/api/v1/status");

    assertTrue(status.getBoolean("answers"));
    assertFalse(status.getBoolean("draining"));
    assertEquals(ProcessHandle.current().pid(), status.getLong("pid"));
    assertEquals(directory.resolve("kvtier.sock").toString(), status.getString("socket"));
    assertEquals(1, status.getInteger("sessions"));
    assertEquals(1, status.getInteger("namespaces"));
    assertEquals(
        BLOCKS, status.getJsonObject("balance").getJsonObject("host").getInteger("resident"));
  }

  @Test
  void stats_afterPutsAndGets_countsAndTimesThem() {
    JsonObject stats = json("/api/v1/stats");

    JsonObject counters = stats.getJsonObject("counters");
    for (Counter counter : Counter.values()) {
      assertTrue(counters.containsKey(counter.key()), counter.key());
    }
    assertEquals(BLOCKS, counters.getInteger("hits_host"));
    for (String kind : List.of("get", "reserve", "commit")) {
      JsonObject latency = stats.getJsonObject("latency").getJsonObject(kind);
      assertTrue(latency.getInteger("count") > 0, kind);
      assertTrue(latency.getLong("p50_ns") <= latency.getLong("max_ns"), kind);
    }
    assertNull(stats.getJsonObject("latency").getJsonObject("onboard").getValue("p50_ns"));
  }

  @Test
  void tiers_haveDevicesAndNamespacesTheirBlocks() {
    JsonObject tiers = json("/api/v1/tiers");

    JsonObject ssd = tiers.getJsonArray("tiers").getJsonObject(1);
    assertEquals("open", ssd.getJsonArray("devices").getJsonObject(0).getString("state"));
    JsonObject namespace = json("/api/v1/namespaces").getJsonArray("namespaces").getJsonObject(0);
    assertEquals("model", namespace.getString("name"));
    assertEquals(BLOCKS, namespace.getInteger("host_blocks"));
    assertEquals(0, namespace.getInteger("ssd_blocks"));
  }

  @Test
  void sessions_haveTheClient() {
    JsonObject session = json("/api/v1/sessions").getJsonArray("sessions").getJsonObject(0);

    assertEquals("tester", session.getString("name"));
  }

  @Test
  void policiesAndWhatIf_areThoseOfTheTiers() {
    assertEquals(
        new JsonObject().put("host", "lineage/lru").put("ssd", "lineage/lru"),
        json("/api/v1/policies"));
    JsonArray whatIf = new JsonArray(get("/api/v1/whatif").body());
    assertEquals(8, whatIf.size(), "four sizes of each tier");
    assertEquals(0.5, whatIf.getJsonObject(0).getDouble("factor"));
  }

  @Test
  void config_hasEveryKeyItsSourceAndNoSecret() {
    JsonArray settings = new JsonArray(get("/api/v1/config").body());

    JsonObject byKey = new JsonObject();
    for (int i = 0; i < settings.size(); i++) {
      byKey.put(settings.getJsonObject(i).getString("key"), settings.getJsonObject(i));
    }
    JsonObject bytes = byKey.getJsonObject("host.bytes");
    assertEquals("16MiB", bytes.getString("value"));
    assertEquals("1GiB", bytes.getString("default"));
    assertEquals("--set", bytes.getString("from"));
    assertEquals("default", byKey.getJsonObject("host.policy").getString("from"));
    assertTrue(byKey.getJsonObject("object.s3.proxy").getString("value").endsWith("@proxy:1"));
    assertFalse(settings.encode().contains("secret@"));
  }

  @Test
  void errors_haveWhatWasLoggedOnceEach() {
    for (int i = 0; i < 3; i++) {
      LoggerFactory.getLogger("io.kvtier.SomePart").warn("it went wrong with \"{}\"", "x");
    }
    LoggerFactory.getLogger("io.kvtier.SomePart").info("all is well");

    // Other parts of the process may log as well.
    JsonArray errors = json("/api/v1/errors").getJsonArray("errors");
    List<JsonObject> ours =
        IntStream.range(0, errors.size())
            .mapToObj(errors::getJsonObject)
            .filter(one -> one.getString("source").equals("SomePart"))
            .toList();
    assertEquals(1, ours.size(), errors.encode());
    assertEquals("it went wrong with \"x\"", ours.getFirst().getString("text"));
    assertEquals("WARN", ours.getFirst().getString("level"));
    assertEquals(3, ours.getFirst().getInteger("count"));
  }

  @Test
  void history_afterSomeSeconds_hasAsManySamples() {
    eventually(
        () -> json("/api/v1/history?seconds=10&step=1").getJsonArray("times_ms").size() >= 2);

    JsonObject history = json("/api/v1/history?seconds=2");

    int samples = history.getJsonArray("times_ms").size();
    assertEquals(2, samples);
    assertEquals(1, history.getInteger("step_s"));
    for (String group : List.of("rates", "links", "gauges", "hit_ratio")) {
      history
          .getJsonObject(group)
          .forEach(each -> assertEquals(samples, ((JsonArray) each.getValue()).size()));
    }
  }

  @Test
  void manyRequestsAtOnce_askTheIndexOnce() {
    // Two requests may fall on both sides of the quarter of a second for which a report is good.
    eventually(() -> {
      JsonObject first = json("/api/v1/status");
      JsonObject second = json("/api/v1/status");
      return first.getLong("round_trip_ns").equals(second.getLong("round_trip_ns"));
    });
  }

  @Test
  void find_onOneNode_isTheRunOfThatNode() {
    String keys = hex(0) + "," + hex(1) + "," + hex(BLOCKS) + "," + hex(2);

    JsonArray nodes = json("/api/v1/nodes/find?namespace=model&keys=" + keys).getJsonArray("nodes");

    assertEquals(1, nodes.size(), nodes::encode);
    JsonObject own = nodes.getJsonObject(0);
    assertTrue(own.getBoolean("self"));
    assertEquals(2, own.getInteger("run"));
    assertEquals(2, own.getInteger("memory_run"));
    assertEquals(0, own.getLong("load_time_ns"));
    assertEquals(
        new JsonArray(),
        json("/api/v1/nodes/find?namespace=model&keys=" + hex(BLOCKS)).getJsonArray("nodes"));
  }

  @Test
  void find_ofUnknownNamespace_isAProblem() {
    assertProblem(404, "no namespace 'other'", get("/api/v1/nodes/find?namespace=other&keys=00"));
  }

  // ---- mistakes

  @Test
  void unknownPath_isAProblemThatNamesThePaths() {
    assertProblem(404, "/api/v1/status", get("/api/v1/nothing"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"})
  void otherMethods_areRefusedAndTheOnesThereAreNamed(String method) {
    HttpResponse<String> response =
        send(HttpRequest.newBuilder(uri("/api/v1/status")).method(method, BodyPublishers.noBody()));

    assertProblem(405, method, response);
    assertEquals("GET, HEAD", response.headers().firstValue("allow").orElse(""));
  }

  @Test
  void head_hasTheLengthAndNoBody() {
    HttpResponse<String> response =
        send(
            HttpRequest.newBuilder(uri("/api/v1/policies"))
                .method("HEAD", BodyPublishers.noBody()));

    assertEquals(200, response.statusCode());
    assertEquals("", response.body());
    assertEquals(
        Integer.toString(get("/api/v1/policies").body().length()),
        response.headers().firstValue("content-length").orElse(""));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "/api/v1/status?verbose=1 | unknown parameter 'verbose'",
        "/api/v1/history?seconds=x | 'seconds' is 'x', expected a whole number from 1 to 3600",
        "/api/v1/history?seconds=3601 | from 1 to 3600",
        "/api/v1/history?seconds=99999999999 | from 1 to 3600",
        "/api/v1/history?step=0 | from 1 to 600",
        "/api/v1/history?step=1&step=2 | is there twice",
        "/api/v1/nodes/find?keys=00 | 'namespace' is missing",
        "/api/v1/nodes/find?namespace=model | 'keys' is missing",
        "/api/v1/nodes/find?namespace=model&keys=0 | 'keys'",
        "/api/v1/nodes/find?namespace=model&keys=00,0000 | expected one length",
        "/api/v1/nodes/find?namespace=model&keys=00&group=65536 | from 0 to 65535",
        "/api/v1/nodes/find?namespace=model&keys=00&limit=0 | from 1 to 1024",
      })
  void mistakenQuery_isAProblemThatSaysWhatWasExpected(String path, String detail) {
    assertProblem(400, detail, get(path));
  }

  @Test
  void queryThatIsNoText_isAProblem() throws Exception {
    String answer =
        exchange(
            "GET /api/v1/history?seconds=%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");

    assertTrue(answer.startsWith("HTTP/1.1 400 "), answer);
  }

  @Test
  void body_isRefusedBeforeItIsSent() throws Exception {
    String answer =
        exchange(
            "GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n");

    assertTrue(answer.startsWith("HTTP/1.1 413 "), answer);
  }

  @Test
  void tooMuchBeforeTheBody_isRefused() throws Exception {
    String line = exchange("GET /" + "a".repeat(20_000) + " HTTP/1.1\r\n\r\n");
    String headers = exchange("GET /healthz HTTP/1.1\r\nx: " + "a".repeat(20_000) + "\r\n\r\n");

    assertTrue(line.contains(" 414 "), line);
    assertTrue(headers.contains(" 431 "), headers);
  }

  @Test
  void garbage_isRefusedAndTheConnectionClosed() throws Exception {
    String answer = exchange("\u0000\u0001\u0002 garbage\r\n\r\n");

    assertTrue(answer.isEmpty() || answer.contains(" 400 "), answer);
  }

  @Test
  void metrics_ofTheProcess_haveTheNamesOfAllClientLibraries() {
    String page = get("/metrics").body();

    for (String name :
        List.of(
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_open_fds",
            "process_max_fds",
            "process_cpu_seconds_total",
            "process_start_time_seconds")) {
      assertTrue(page.lines().anyMatch(line -> line.matches(name + " [1-9].*")), name);
    }
    assertTrue(page.contains("kvtier_get_refused_total 0.0"), page);
  }

  @Test
  void metrics_askedForAsOpenMetrics_areOpenMetrics() {
    HttpResponse<String> open =
        send(
            HttpRequest.newBuilder(uri("/metrics"))
                .header(
                    "Accept",
                    "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3"));

    assertEquals(
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
        open.headers().firstValue("content-type").orElse(""));
    assertTrue(open.body().endsWith("# EOF\n"), open.body());
    assertTrue(open.body().contains("# TYPE kvtier_put_blocks counter"), open.body());
    assertEquals(
        "text/plain; version=0.0.4; charset=utf-8",
        get("/metrics").headers().firstValue("content-type").orElse(""));
  }

  @ParameterizedTest
  @ValueSource(strings = {"/metrics", "/dashboard.js", "/api/v1/config"})
  void get_acceptsGzip_isCompressedAndTheSame(String path) throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(uri(path)).header("Accept-Encoding", "gzip, br").build();
    HttpResponse<byte[]> packed = HTTP.send(request, BodyHandlers.ofByteArray());

    assertEquals("gzip", packed.headers().firstValue("content-encoding").orElse(""));
    byte[] body = new GZIPInputStream(new ByteArrayInputStream(packed.body())).readAllBytes();
    HttpResponse<String> plain = get(path);
    assertTrue(packed.body().length < body.length / 2, "it is smaller");
    assertEquals(
        plain.body().substring(0, 20), new String(body, StandardCharsets.UTF_8).substring(0, 20));
    assertEquals("", plain.headers().firstValue("content-encoding").orElse(""));
    assertNotEquals(
        plain.headers().firstValue("etag").orElse("a"),
        packed.headers().firstValue("etag").orElse("b"));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "/",
        "/dashboard.js",
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/v1/config",
        "/none"
      })
  void hostThatIsNoNameOfTheDaemon_isRefusedEverywhere(String path) throws Exception {
    String answer =
        exchange(
            "GET " + path + " HTTP/1.1\r\nHost: evil.example:7080\r\nConnection: close\r\n\r\n");

    assertTrue(answer.startsWith("HTTP/1.1 421 "), answer);
    assertTrue(answer.contains("evil.example"), answer);
    assertTrue(answer.contains("http.hosts"), answer);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "localhost",
        "LOCALHOST:1",
        "localhost.",
        "127.0.0.1:7080",
        "127.1.2.3",
        "10.1.2.3",
        "[::1]:7080",
        "[::1]",
        "node.localhost",
        "node-7.example",
        "Node-7.Example:443"
      })
  void hostThatIsAnAddressOrKnown_isServed(String host) throws Exception {
    String answer =
        exchange("GET /healthz HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");

    assertTrue(answer.startsWith("HTTP/1.1 200 "), answer);
  }

  @ParameterizedTest
  @CsvSource({
    "http://localhost, 200",
    "http://evil.example, 403",
    "https://localhost, 403",
    "http://localhost:1, 403",
    "null, 403",
  })
  void origin_onlyOfItsOwnPages_isServed(String origin, int status) throws Exception {
    String answer =
        exchange(
            "GET /api/v1/config HTTP/1.1\r\nHost: localhost\r\nOrigin: "
                + origin
                + "\r\nConnection: close\r\n\r\n");

    assertTrue(answer.startsWith("HTTP/1.1 " + status + " "), answer);
  }

  @Test
  void twoHosts_areRefused() throws Exception {
    String answer =
        exchange(
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n");

    assertTrue(answer.startsWith("HTTP/1.1 400 "), answer);
  }

  @Test
  void requestsSentAhead_beyondAFew_endTheConnection() throws Exception {
    String request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    try (Socket few = connect();
        Socket many = connect()) {
      few.getOutputStream()
          .write(
              (request.repeat(PipelinedRequests.REQUESTS_MAX - 1)
                      + request.replace("Host", "Connection: close\r\nHost"))
                  .getBytes(StandardCharsets.US_ASCII));
      String answers = new String(few.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
      assertEquals(PipelinedRequests.REQUESTS_MAX, answers.split(" 200 OK", -1).length - 1);

      many.getOutputStream().write(request.repeat(100).getBytes(StandardCharsets.US_ASCII));
      try {
        many.getInputStream().readAllBytes();
      } catch (SocketException e) {
        // As it was cut off.
      }
    }
    assertTrue(isServed());
  }

  @Test
  void tooManyConnections_thoseThatStandStillLeaveForNewcomers() throws Exception {
    List<Socket> sockets = new ArrayList<>();
    try (Socket first = connect()) {
      first
          .getOutputStream()
          .write("GET /healthz HTTP/1.1\r\n".getBytes(StandardCharsets.US_ASCII));
      for (int i = 0; i < 1100; i++) {
        sockets.add(connect());
      }
      // Not at once: who comes while others come faster than they are taken is turned away.
      eventually(() -> isNewcomerServed());
      assertTrue(isClosed(first.getInputStream()), "the one that stood still for longest stays");
    } finally {
      for (Socket socket : sockets) {
        socket.close();
      }
    }
    eventually(() -> isServed());
  }

  @Test
  void tooManyConnections_oneThatTakesNoAnswersLeavesForNewcomers() throws Exception {
    boolean hasLeft = false;
    // On a busy machine the daemon may still be writing when it seems to stand still: then others,
    // which have stood still for longer, leave in its place.
    for (int i = 0; i < 10 && !hasLeft; i++) {
      hasLeft = deafOneLeavesForNewcomers();
    }
    assertTrue(hasLeft);
    eventually(() -> isServed());
  }

  private static boolean deafOneLeavesForNewcomers() throws Exception {
    List<Socket> sockets = new ArrayList<>();
    byte[] requests =
        "GET /dashboard.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
            .repeat(PipelinedRequests.REQUESTS_MAX)
            .getBytes(StandardCharsets.US_ASCII);
    try (Socket deaf = new Socket()) {
      deaf.setReceiveBufferSize(4096);
      deaf.connect(new InetSocketAddress(uri("/").getHost(), uri("/").getPort()));
      deaf.setSoTimeout(10_000);
      // The daemon takes no more of them when nobody takes its answers.
      Thread asker =
          Thread.ofVirtual()
              .start(() -> {
                try {
                  deaf.getOutputStream().write(requests);
                } catch (IOException e) {
                  // As it is closed.
                }
              });
      int[] waiting = {0};
      eventually(() -> {
        int before = waiting[0];
        waiting[0] = available(deaf);
        return waiting[0] > 0 && waiting[0] == before;
      });
      for (int i = 0; i < 1500; i++) {
        sockets.add(connect());
      }
      eventually(() -> isNewcomerServed());
      byte[] taken = new byte[1 << 16];
      boolean isOpen = true;
      try {
        while (isOpen) {
          isOpen = deaf.getInputStream().read(taken) >= 0;
        }
      } catch (SocketException e) {
        isOpen = false;
      } catch (SocketTimeoutException e) {
        // All its answers have come, and it may stay.
        return false;
      }
      asker.join();
      return true;
    } finally {
      for (Socket socket : sockets) {
        socket.close();
      }
    }
  }

  private static int available(Socket socket) {
    try {
      return socket.getInputStream().available();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static boolean isNewcomerServed() {
    try {
      return exchange("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
          .startsWith("HTTP/1.1 200 ");
    } catch (IOException e) {
      return false;
    }
  }

  private static boolean isClosed(InputStream in) throws IOException {
    try {
      return in.read() < 0;
    } catch (SocketTimeoutException e) {
      return false;
    } catch (java.net.SocketException e) {
      return true;
    }
  }

  private static boolean isServed() {
    try {
      return HTTP.send(HttpRequest.newBuilder(uri("/healthz")).build(), BodyHandlers.ofString())
              .statusCode()
          == 200;
    } catch (IOException e) {
      return false;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  // ---- where it listens

  private static String failureOf(String... more) {
    List<String> settings = settings(more);
    settings.add("socket.path=" + directory.resolve("other.sock"));
    settings.add("ssd.directory=" + directory.resolve("other"));
    IOException e =
        assertThrows(
            IOException.class, () -> new Daemon(ConfigLoader.load(null, settings)).close());
    assertFalse(
        Files.exists(directory.resolve("other")),
        "disk space was taken for a daemon that could not start");
    return String.valueOf(e.getMessage());
  }

  @Test
  void takenPort_isAnErrorThatNamesTheKey() {
    String message = failureOf("http.port=" + uri("/").getPort());

    assertTrue(message.contains("127.0.0.1:" + uri("/").getPort()), message);
    assertTrue(message.contains("http.port"), message);
  }

  @ParameterizedTest
  @CsvSource(
      quoteCharacter = '"',
      value = {
        "0.0.0.0, http.host is '0.0.0.0'",
        "::, http.host is '::'",
        "192.0.2.1, tls.certificate",
        "no.such.host.invalid, http.host is 'no.such.host.invalid'",
      })
  void hostThatOthersReachOrNobody_isAnErrorThatNamesTheKeys(String host, String expected) {
    String message = failureOf("http.port=0", "http.host=" + host);

    assertTrue(message.contains(expected), message);
  }
}
