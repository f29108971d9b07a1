package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.KvtierClient;
import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.config.LoadedConfig;
import io.kvtier.daemon.http.ApiDescription;
import io.kvtier.tiers.gpu.CudaDriver;
import io.vertx.core.json.Json;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.json.schema.OutputUnit;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What HTTP tells of a daemon with tenants, and of one whose configuration was read again. */
@Timeout(120)
final class StateOverHttpTest {
  private static final HttpClient HTTP = HttpClient.newHttpClient();
  private static final String TENANTS =
      "tenants: [{name: blue, host_bytes: 4MiB, ssd_bytes: 8MiB}]\n";

  @TempDir private static Path folder;
  private static Path file;
  private static Daemon daemon;

  @BeforeAll
  static void start() throws Exception {
    file = Files.writeString(folder.resolve("k.yaml"), TENANTS);
    ConfigSource source =
        new ConfigSource(
            file,
            Map.of(),
            SmallDaemon.withSsd(
                folder, "access.without_token=admin", "grpc.enabled=false", "http.port=0"));
    LoadedConfig loaded = source.load();
    daemon =
        new Daemon(loaded.config(), CudaDriver::probe, live -> new Reloader(source, loaded, live));
  }

  @AfterAll
  static void stop() {
    daemon.close();
    HTTP.close();
  }

  private static String get(String path) throws Exception {
    HttpResponse<String> response =
        HTTP.send(
            HttpRequest.newBuilder(URI.create("http://" + daemon.httpAddress() + path)).build(),
            BodyHandlers.ofString());
    assertEquals(200, response.statusCode(), response.body());
    return response.body();
  }

  @Test
  void tenantsAndTheirNamespaces_areAsDescribed() throws Exception {
    ApiDescription description = ApiDescription.read();
    try (KvtierClient client =
        KvtierClient.builder().socket(folder.resolve("kvtier.sock")).name("tester").build()) {
      var _ = client.namespace("model", 4096, Map.of());
      for (String path : List.of("/api/v1/stats", "/api/v1/tiers", "/api/v1/namespaces")) {
        String answer = get(path);
        OutputUnit result = description.validate(path, Json.decodeValue(answer));
        assertTrue(result.getValid(), () -> result.toJson().encodePrettily() + answer);
      }
      JsonObject stats = new JsonObject(get("/api/v1/stats"));
      JsonObject blue = stats.getJsonArray("tenants").getJsonObject(1);
      assertEquals("blue", blue.getString("name"));
      assertEquals(4 << 20, blue.getInteger("host_bytes_capacity"));
      assertFalse(
          stats.getJsonArray("namespaces").getJsonObject(0).containsKey("tenant"),
          "it is nobody's");

      // Else a schema that takes everything would show nothing.
      blue.put("blocks", "many");
      assertFalse(description.validate("/api/v1/stats", stats).getValid());
    }
  }

  private static JsonObject setting(String key) throws Exception {
    JsonArray settings = new JsonArray(get("/api/v1/config"));
    for (int i = 0; i < settings.size(); i++) {
      if (settings.getJsonObject(i).getString("key").equals(key)) {
        return settings.getJsonObject(i);
      }
    }
    throw new AssertionError("no key " + key);
  }

  @Test
  void reload_isToldByTheNextRequest() throws Exception {
    assertEquals("lineage/lru", setting("ssd.policy").getString("value"));

    Files.writeString(file, TENANTS + "ssd: {policy: sieve}\n");
    daemon.reload();

    long end = System.nanoTime() + 60_000_000_000L;
    while (!setting("ssd.policy").getString("value").equals("sieve")) {
      assertTrue(System.nanoTime() < end, "the reload is not told");
      LockSupport.parkNanos(20_000_000);
    }
    assertTrue(setting("ssd.policy").getString("from").contains("k.yaml"));
  }
}
