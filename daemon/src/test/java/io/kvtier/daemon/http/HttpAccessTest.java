package io.kvtier.daemon.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.Daemon;
import io.kvtier.daemon.SmallDaemon;
import io.kvtier.daemon.access.TestCertificates;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.access.Token;
import io.kvtier.protocol.access.TokenLine;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.SecureRandom;
import java.security.cert.CertificateFactory;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLHandshakeException;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** HTTP with TLS, tokens and tenants: who is told what. */
@Timeout(120)
final class HttpAccessTest {
  private static final SecureRandom RANDOM = new SecureRandom();

  @TempDir private static Path folder;
  private static Daemon daemon;
  private static HttpClient client;
  private static final Map<Role, Token> TOKENS = new EnumMap<>(Role.class);
  private static final Token OF_TENANT = Token.make(RANDOM);

  @BeforeAll
  static void start() throws Exception {
    TestCertificates certificates = new TestCertificates(folder);
    certificates.sign("server", "");
    StringBuilder lines = new StringBuilder();
    for (Role role : List.of(Role.READ, Role.WRITE, Role.ADMIN)) {
      Token token = Token.make(RANDOM);
      TOKENS.put(role, token);
      lines.append(TokenLine.of(token, role.word(), role, "", null, RANDOM).text()).append('\n');
    }
    lines.append(TokenLine.of(OF_TENANT, "blue", Role.ADMIN, "blue", null, RANDOM).text());
    Path tokens = Files.writeString(folder.resolve("tokens"), lines + "\n");
    Files.setPosixFilePermissions(
        tokens, java.nio.file.attribute.PosixFilePermissions.fromString("rw-------"));
    Path file =
        Files.writeString(
            folder.resolve("k.yaml"), "tenants: [{name: blue, host_bytes: 4MiB, ssd_bytes: 0B}]\n");
    daemon =
        new Daemon(
            ConfigLoader.load(
                file,
                SmallDaemon.settings(
                    folder,
                    "grpc.enabled=false",
                    "tls.certificate=" + certificates.file("server.crt"),
                    "tls.key=" + certificates.file("server.key"),
                    "access.tokens=" + tokens,
                    "http.port=0")));
    client = HttpClient.newBuilder().sslContext(trusting(certificates.file("ca.crt"))).build();
  }

  private static SSLContext trusting(Path authority) throws Exception {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    try (InputStream in = Files.newInputStream(authority)) {
      store.setCertificateEntry(
          "ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
    }
    TrustManagerFactory trust =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trust.getTrustManagers(), RANDOM);
    return context;
  }

  @AfterAll
  static void stop() {
    client.close();
    daemon.close();
  }

  private static HttpResponse<String> get(String path, String authorization) throws Exception {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create("https://" + daemon.httpAddress() + path));
    if (!authorization.isEmpty()) {
      request.header("Authorization", authorization);
    }
    return client.send(request.build(), BodyHandlers.ofString());
  }

  private static String bearer(String who) {
    return switch (who) {
      case "nobody" -> "";
      case "stranger" -> "Bearer " + Token.make(RANDOM).secretText();
      case "blue" -> "Bearer " + OF_TENANT.secretText();
      default -> {
        Token token = TOKENS.get(Role.ofWord(who));
        yield "bearer " + (token == null ? "?" : token.secretText());
      }
    };
  }

  @ParameterizedTest
  @ValueSource(strings = {"TLSv1.3", "TLSv1.2"})
  void handshake_clientThatPrefersAes256_agreesOnAes128(String protocol) throws Exception {
    SSLContext context = trusting(folder.resolve("ca.crt"));
    SSLParameters offered = context.getDefaultSSLParameters();
    offered.setProtocols(new String[] {protocol});
    String first = offered.getCipherSuites()[0];
    assertTrue(first.contains("AES_256"), first);
    try (HttpClient other =
        HttpClient.newBuilder().sslContext(context).sslParameters(offered).build()) {
      HttpResponse<String> response =
          other.send(
              HttpRequest.newBuilder(URI.create("https://" + daemon.httpAddress() + "/healthz"))
                  .build(),
              BodyHandlers.ofString());

      String suite = response.sslSession().orElseThrow().getCipherSuite();
      assertTrue(suite.contains("AES_128_GCM"), suite);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "nobody, 401",
    "stranger, 401",
    "blue, 403",
    "read, 403",
    "write, 403",
    "admin, 200",
  })
  void stateOfAllTenants_isForAdministratorsOnly(String who, int status) throws Exception {
    for (String path :
        List.of("/metrics", "/api/v1/status", "/api/v1/namespaces", "/api/v1/config")) {
      HttpResponse<String> response = get(path, bearer(who));

      assertEquals(status, response.statusCode(), path + ": " + response.body());
      assertEquals(
          status == 401 ? "Bearer" : "",
          response.headers().firstValue("www-authenticate").orElse(""));
      if (status != 200) {
        assertEquals(status, new JsonObject(response.body()).getInteger("status"));
      }
    }
  }

  @Test
  void requestsNotLetIn_areCountedAsRefused() throws Exception {
    long before = refused();
    assertEquals(401, get("/metrics", "").statusCode());
    assertEquals(403, get("/metrics", bearer("blue")).statusCode());
    long end = System.nanoTime() + 20_000_000_000L;
    while (refused() < before + 2) {
      assertTrue(System.nanoTime() < end, "they are not counted");
    }
  }

  private static long refused() throws Exception {
    return new JsonObject(get("/api/v1/stats", bearer("admin")).body())
        .getJsonObject("counters")
        .getLong("sessions_refused");
  }

  @Test
  void health_needsNoToken() throws Exception {
    assertEquals(200, get("/healthz", "").statusCode());
    assertEquals(200, get("/readyz", "").statusCode());
  }

  @Test
  void metrics_haveEachTenantsShare() throws Exception {
    String page = get("/metrics", bearer("admin")).body();

    assertTrue(
        page.contains("kvtier_tenant_capacity_bytes{tenant=\"blue\",tier=\"host\"} 4194304.0"),
        page);
  }

  @Test
  void plainHttp_isNotAnswered() {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create("http://" + daemon.httpAddress() + "/healthz")).build();

    assertThrows(IOException.class, () -> client.send(request, BodyHandlers.ofString()));
  }

  @Test
  void callerThatDoesNotTrustTheCertificate_getsNoConnection() {
    try (HttpClient stranger = HttpClient.newHttpClient()) {
      HttpRequest request =
          HttpRequest.newBuilder(URI.create("https://" + daemon.httpAddress() + "/healthz"))
              .build();

      assertThrows(
          SSLHandshakeException.class, () -> stranger.send(request, BodyHandlers.ofString()));
    }
  }
}
