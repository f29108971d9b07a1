package io.kvtier.daemon.http;

import io.netty.util.NetUtil;
import io.vertx.core.http.HttpServerRequest;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * By which names this server is known. A web page can have its own name stand for 127.0.0.1 (DNS
 * rebinding), and its browser would then read what is told here as if it came from that page: so a
 * request must name an address, this machine or a name of the configuration, and if a page makes
 * it, a page of this server. Where there is TLS, the name is checked by the browser, against the
 * certificate.
 */
final class KnownHosts {
  private static final String LOCAL = "localhost";

  private final Set<String> names = new HashSet<>();
  private final boolean isAnyName;

  /**
   * Those of a listener.
   *
   * @param configured where it listens, as the configuration has it
   * @param more names that operators want known
   * @param hasTls whether callers check the name themselves
   */
  KnownHosts(String configured, List<String> more, boolean hasTls) {
    names.add(LOCAL);
    names.add(normal(configured));
    more.forEach(name -> names.add(normal(name)));
    isAnyName = hasTls;
  }

  /** Why a request is not answered; null: it is. */
  @Nullable Answer refusal(HttpServerRequest request) {
    List<String> hosts = request.headers().getAll("Host");
    if (hosts.size() > 1) {
      return Answer.problem(
          400, "the header Host is there " + hosts.size() + " times: give it once");
    }
    String host = hosts.isEmpty() ? null : hosts.getFirst().strip();
    if (host != null && !isKnown(nameOf(host))) {
      return Answer.problem(
          421,
          "the header Host is '"
              + host
              + "', which is no name of this daemon: use an address or localhost, or add the name"
              + " to http.hosts");
    }
    String origin = request.getHeader("Origin");
    if (origin != null && !origin.equals(request.scheme() + "://" + host)) {
      return Answer.problem(
          403,
          "the header Origin is '"
              + origin
              + "': only this daemon's own pages may ask from a browser");
    }
    return null;
  }

  private boolean isKnown(String name) {
    return isAnyName
        || names.contains(name)
        || name.endsWith("." + LOCAL)
        || NetUtil.isValidIpV4Address(name)
        || NetUtil.isValidIpV6Address(name);
  }

  /** The name in {@code NAME}, {@code NAME:PORT}, {@code [ADDRESS]} or {@code [ADDRESS]:PORT}. */
  private static String nameOf(String host) {
    if (host.startsWith("[")) {
      int end = host.indexOf(']');
      return end < 0 ? host : host.substring(1, end);
    }
    int colon = host.lastIndexOf(':');
    return normal(colon < 0 ? host : host.substring(0, colon));
  }

  private static String normal(String name) {
    String small = name.strip().toLowerCase(Locale.ROOT);
    return small.endsWith(".") ? small.substring(0, small.length() - 1) : small;
  }
}
