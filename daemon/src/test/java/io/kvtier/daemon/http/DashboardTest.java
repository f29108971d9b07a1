package io.kvtier.daemon.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.Daemon;
import io.kvtier.daemon.SmallDaemon;
import io.kvtier.daemon.config.ConfigLoader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The dashboard's files, as a daemon serves them. A browser looks at the page itself. */
@Timeout(120)
final class DashboardTest {
  private static final Pattern REFERENCE = Pattern.compile("(?:src|href)=\"([^\"]*)\"");
  private static final Pattern IMPORTED = Pattern.compile("from '\\.(/[a-z.]*)'");
  private static final Pattern ASKED = Pattern.compile("ask\\([`'](/[a-z0-9/]*)");

  @TempDir private static Path directory;
  private static Daemon daemon;
  private static final HttpClient HTTP = HttpClient.newHttpClient();

  @BeforeAll
  static void start() throws Exception {
    daemon =
        new Daemon(
            ConfigLoader.load(
                null, SmallDaemon.settings(directory, "grpc.enabled=false", "http.port=0")));
  }

  @AfterAll
  static void stop() {
    daemon.close();
    HTTP.close();
  }

  private static HttpRequest.Builder request(String path) {
    return HttpRequest.newBuilder(URI.create("http://" + daemon.httpAddress() + path));
  }

  private static HttpResponse<String> send(HttpRequest.Builder request) throws Exception {
    return HTTP.send(request.build(), BodyHandlers.ofString());
  }

  private static String header(HttpResponse<String> response, String name) {
    return response.headers().firstValue(name).orElse("");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "/ | text/html; charset=utf-8",
        "/dashboard.css | text/css; charset=utf-8",
        "/dashboard.js | text/javascript; charset=utf-8",
        "/charts.js | text/javascript; charset=utf-8",
        "/dashboard.svg | image/svg+xml",
      })
  void file_hasItsTypeAndTheHeadersThatKeepOthersOut(String path, String type) throws Exception {
    HttpResponse<String> response = send(request(path));

    assertEquals(200, response.statusCode());
    assertEquals(type, header(response, "content-type"));
    assertEquals("nosniff", header(response, "x-content-type-options"));
    assertEquals("no-cache", header(response, "cache-control"));
    assertEquals("no-referrer", header(response, "referrer-policy"));
    assertEquals("same-origin", header(response, "cross-origin-resource-policy"));
    List<String> policy = List.of(header(response, "content-security-policy").split("; "));
    assertTrue(policy.contains("default-src 'none'"), policy.toString());
    assertTrue(policy.contains("script-src 'self'"), policy.toString());
    assertTrue(policy.contains("frame-ancestors 'none'"), policy.toString());
    assertTrue(policy.contains("require-trusted-types-for 'script'"), policy.toString());
    assertFalse(header(response, "content-security-policy").contains("unsafe"), policy.toString());
  }

  @Test
  void file_thatTheBrowserHas_isNotSentAgain() throws Exception {
    HttpResponse<String> whole = send(request("/dashboard.js"));
    String tag = header(whole, "etag");

    HttpResponse<String> same =
        send(request("/dashboard.js").header("If-None-Match", "\"other\", W/" + tag));
    HttpResponse<String> other =
        send(request("/dashboard.js").header("If-None-Match", "\"other\""));

    assertEquals(304, same.statusCode());
    assertEquals("", same.body());
    assertEquals(tag, header(same, "etag"));
    assertEquals(200, other.statusCode());
    assertEquals(whole.body(), other.body());
    assertNotEquals(tag, header(send(request("/dashboard.css")), "etag"));
  }

  @Test
  void head_hasTheHeadersAndNoBody() throws Exception {
    HttpResponse<String> response = send(request("/").method("HEAD", BodyPublishers.noBody()));

    assertEquals(200, response.statusCode());
    assertEquals("", response.body());
    assertEquals(
        Integer.toString(send(request("/")).body().getBytes(StandardCharsets.UTF_8).length),
        header(response, "content-length"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"POST", "PUT", "DELETE"})
  void otherMethods_areRefused(String method) throws Exception {
    HttpResponse<String> response = send(request("/").method(method, BodyPublishers.noBody()));

    assertEquals(405, response.statusCode());
    assertEquals("GET, HEAD", header(response, "allow"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"/", "/dashboard.css", "/dashboard.js", "/charts.js", "/dashboard.svg"})
  void file_namesNoOtherHost(String path) throws Exception {
    String text =
        send(request(path))
            .body()
            // Names of XML, which nothing is fetched from.
            .replaceAll("http://www\\.w3\\.org/[0-9a-z/]+", "");

    assertFalse(text.contains("http://"), path);
    assertFalse(text.contains("https://"), path);
    assertFalse(text.contains("\"//"), path);
  }

  @Test
  void page_refersToWhatIsServed() throws Exception {
    Matcher references = REFERENCE.matcher(send(request("/")).body());

    Set<String> paths = new TreeSet<>();
    while (references.find()) {
      paths.add(references.group(1));
    }
    paths.removeIf(path -> path.startsWith("#"));
    assertTrue(paths.containsAll(Set.of("/dashboard.css", "/dashboard.js")), paths.toString());
    assertTrue(paths.containsAll(Set.of("/metrics", "/api/v1/openapi.yaml")), paths.toString());
    assertServed(paths);
  }

  @Test
  void script_asksForWhatIsServed() throws Exception {
    Matcher asked = ASKED.matcher(send(request("/dashboard.js")).body());

    Set<String> paths = new TreeSet<>();
    while (asked.find()) {
      paths.add(asked.group(1));
    }
    assertTrue(paths.containsAll(Set.of("/api/v1/stats", "/api/v1/history")), paths.toString());
    assertServed(paths);
  }

  private static void assertServed(Set<String> paths) throws Exception {
    for (String path : paths) {
      assertEquals(200, send(request(path)).statusCode(), path);
    }
  }

  @Test
  void script_importsWhatIsServed() throws Exception {
    Matcher imported = IMPORTED.matcher(send(request("/dashboard.js")).body());

    Set<String> paths = new TreeSet<>();
    while (imported.find()) {
      paths.add(imported.group(1));
    }
    assertEquals(Set.of("/charts.js"), paths);
    assertServed(paths);
  }

  @Test
  void scripts_haveTheUnitsOfTheCommandLine() throws Exception {
    String scripts = send(request("/charts.js")).body() + send(request("/dashboard.js")).body();

    assertTrue(scripts.contains("'GiB/s'"), "rates are in powers of 1024");
    assertFalse(Pattern.compile("'[kMGT]B(/s)?'").matcher(scripts).find(), "and in no others");
  }

  @ParameterizedTest
  @ValueSource(strings = {"/dashboard.js", "/charts.js"})
  void script_writesNoMarkup(String path) throws Exception {
    String script = send(request(path)).body();

    for (String sink : List.of("innerHTML", "outerHTML", "insertAdjacent", "document.write")) {
      assertFalse(script.contains(sink), sink);
    }
  }
}
