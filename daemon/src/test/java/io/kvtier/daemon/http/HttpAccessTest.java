package io.kvtier.daemon.http;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.daemon.Daemon;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.access.Token;
import io.kvtier.protocol.access.TokenLine;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Who may read what over HTTP, where there are tokens. */
@Timeout(60)
final class HttpAccessTest {
  private static final SecureRandom RANDOM = new SecureRandom();
  private static final List<String> OPEN = List.of("/healthz", "/readyz", "/", "/dashboard.js");
  private static final List<String> GUARDED =
      List.of(
          "/metrics",
          "/api/v1/status",
          "/api/v1/stats",
          "/api/v1/tiers",
          "/api/v1/sessions",
          "/api/v1/namespaces",
          "/api/v1/policies",
          "/api/v1/whatif",
          "/api/v1/config",
          "/api/v1/errors",
          "/api/v1/history",
          "/api/v1/openapi.yaml");

  @TempDir private Path folder;

  @Test
  void everyPath_everyRole_isAnsweredOrNotAsTheTableSays() throws Exception {
    Map<String, String> bearers = new LinkedHashMap<>();
    List<String> lines = new ArrayList<>();
    for (Role role : List.of(Role.READ, Role.WRITE, Role.ADMIN)) {
      Token token = Token.make(RANDOM);
      bearers.put(role.word(), token.secretText());
      lines.add(TokenLine.of(token, role.word(), role, "", null, RANDOM).text());
    }
    Token ofTenant = Token.make(RANDOM);
    lines.add(TokenLine.of(ofTenant, "t", Role.ADMIN, "blue", null, RANDOM).text());
    bearers.put("tenant", ofTenant.secretText());
    bearers.put("wrong", Token.make(RANDOM).secretText());
    bearers.put("none", "");
    Files.write(folder.resolve("tokens"), lines);
    List<String> wrong = new ArrayList<>();
    try (Daemon daemon =
            new Daemon(
                ConfigLoader.load(
                    null,
                    List.of(
                        "socket.path=" + folder.resolve("kvtier.sock"),
                        "host.bytes=8MiB",
                        "host.slab_bytes=4MiB",
                        "host.keep=0",
                        "ssd.bytes=0",
                        "grpc.enabled=false",
                        "http.port=0",
                        "access.tokens=" + folder.resolve("tokens"),
                        "tenants=name=blue host_bytes=4MiB")));
        HttpClient http = HttpClient.newHttpClient()) {
      List<String> paths = new ArrayList<>(OPEN);
      paths.addAll(GUARDED);
      for (String path : paths) {
        for (Map.Entry<String, String> bearer : bearers.entrySet()) {
          HttpRequest.Builder request =
              HttpRequest.newBuilder(URI.create("http://" + daemon.httpAddress() + path));
          if (!bearer.getValue().isEmpty()) {
            request.header("Authorization", "Bearer " + bearer.getValue());
          }
          int status =
              http.send(request.build(), HttpResponse.BodyHandlers.discarding()).statusCode();
          int expected =
              OPEN.contains(path)
                  ? 200
                  : switch (bearer.getKey()) {
                    case "none", "wrong" -> 401;
                    case "tenant" -> 403;
                    default -> 200;
                  };
          if (status != expected) {
            wrong.add(path + " as " + bearer.getKey() + ": " + status + ", expected " + expected);
          }
        }
      }
    }
    assertEquals(List.of(), wrong);
  }
}
