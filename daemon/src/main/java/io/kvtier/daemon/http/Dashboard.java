package io.kvtier.daemon.http;

import io.vertx.core.Future;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpServerRequest;
import java.io.IOException;
import java.io.InputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The page that shows a browser what the daemon does: a few files out of the daemon's jar, which
 * ask for nothing but this server's own API. They are read when they are first asked for.
 */
final class Dashboard {
  private static final String FOLDER = "dashboard/";
  private static final int TAG_BYTES = 16;

  /**
   * Names come from clients: even if one of them got into the page as markup, no script but the
   * page's own would run, and none could talk to another host.
   */
  private static final String CONTENT_SECURITY =
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
          + " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
          + " require-trusted-types-for 'script'; trusted-types 'none'";

  private record File(String name, String type) {}

  /** A file as it is served, and its name for caches. */
  private record Content(Buffer body, String tag) {}

  private static final Map<String, File> FILES = files();

  private final Map<String, Content> contents = new LinkedHashMap<>();

  private static Map<String, File> files() {
    Map<String, File> files = new LinkedHashMap<>();
    files.put("/", new File("index.html", "text/html; charset=utf-8"));
    files.put("/dashboard.css", new File("dashboard.css", "text/css; charset=utf-8"));
    files.put("/dashboard.js", new File("dashboard.js", "text/javascript; charset=utf-8"));
    files.put("/charts.js", new File("charts.js", "text/javascript; charset=utf-8"));
    files.put("/dashboard.svg", new File("dashboard.svg", "image/svg+xml"));
    return files;
  }

  /** Has its files served. */
  void addTo(Routes routes) {
    FILES.forEach(
        (path, file) -> routes.add(path, request -> Future.succeededFuture(answer(request, file))));
  }

  private Answer answer(HttpServerRequest request, File file) {
    Content content = contents.computeIfAbsent(file.name, Dashboard::read);
    // It is asked again each time whether it is still the same: after an upgrade it is not.
    Map<String, String> headers =
        Map.of(
            "Cache-Control", "no-cache",
            "ETag", content.tag,
            "Content-Security-Policy", CONTENT_SECURITY,
            "Referrer-Policy", "no-referrer",
            "Cross-Origin-Opener-Policy", "same-origin",
            "Cross-Origin-Resource-Policy", "same-origin");
    if (isKnown(request.getHeader("If-None-Match"), content.tag)) {
      return new Answer(304, file.type, Buffer.buffer(), headers);
    }
    return new Answer(200, file.type, content.body, headers);
  }

  /** Whether a browser has what it asks for already. */
  static boolean isKnown(@Nullable String tags, String tag) {
    if (tags == null) {
      return false;
    }
    for (String each : tags.split(",", -1)) {
      String known = each.strip();
      if (known.equals("*") || known.equals(tag) || known.equals("W/" + tag)) {
        return true;
      }
    }
    return false;
  }

  private static Content read(String name) {
    try (InputStream in = Dashboard.class.getResourceAsStream(FOLDER + name)) {
      if (in == null) {
        throw new IllegalStateException(
            "the dashboard's " + name + " is missing from the class path");
      }
      byte[] bytes = in.readAllBytes();
      byte[] hash = MessageDigest.getInstance("SHA-256").digest(bytes);
      return new Content(
          Buffer.buffer(bytes), '"' + HexFormat.of().formatHex(hash, 0, TAG_BYTES) + '"');
    } catch (IOException e) {
      throw new IllegalStateException("the dashboard's " + name + " can't be read", e);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }
}
