package io.kvtier.daemon.http;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.daemon.access.Callers;
import io.kvtier.daemon.config.KvtierdConfig.AccessConfig;
import io.kvtier.protocol.access.Role;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.http.HttpServer;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What becomes of a route that fails. */
@Timeout(120)
final class RoutesTest {
  private static HttpResponse<String> get(Routes routes, String path) throws Exception {
    Vertx vertx = Vertx.vertx();
    try (HttpClient client = HttpClient.newHttpClient()) {
      HttpServer server =
          vertx
              .createHttpServer()
              .requestHandler(request -> {
                var _ = routes.answer(request).onSuccess(answer -> Routes.write(request, answer));
              })
              .listen(0, "127.0.0.1")
              .toCompletionStage()
              .toCompletableFuture()
              .get(60, TimeUnit.SECONDS);
      URI uri = URI.create("http://127.0.0.1:" + server.actualPort() + path);
      return client.send(HttpRequest.newBuilder(uri).build(), BodyHandlers.ofString());
    } finally {
      vertx.close().toCompletionStage().toCompletableFuture().get(60, TimeUnit.SECONDS);
    }
  }

  private static Routes routes() throws Exception {
    Callers callers = new Callers(new AccessConfig(null, Role.READ), List.of(""));
    return new Routes(new Gate(callers, false, () -> {}));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void defect_whicheverItIs_isA500(boolean isLater) throws Exception {
    Routes routes = routes();
    routes.add(
        "/broken",
        List.of("seconds"),
        query -> {
          IllegalArgumentException defect = new IllegalArgumentException("a name that is no name");
          if (isLater) {
            return Future.failedFuture(defect);
          }
          throw defect;
        });

    HttpResponse<String> response = get(routes, "/broken?seconds=1");

    assertEquals(500, response.statusCode(), response.body());
  }
}
