package io.kvtier.client.internal.remote;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The address of a daemon that serves gRPC. */
public record RemoteAddress(String host, int port, boolean hasTls) {
  private static final int PORT = 7075;
  private static final int PORT_MAX = 65_535;
  private static final Pattern FORM =
      Pattern.compile(
          "grpc(?<tls>s?)://(?<host>\\[[0-9a-fA-F:.]+\\]|[^\\[\\]:/?#@ ]+)(:(?<port>\\d{1,5}))?");

  /** Whether this is an address, and not the path of a socket. */
  public static boolean isOne(String place) {
    return place.startsWith("grpc://") || place.startsWith("grpcs://");
  }

  /** Reads {@code grpcs://HOST[:PORT]}, or {@code grpc://HOST[:PORT]} without TLS. */
  public static RemoteAddress parse(String text) {
    Matcher form = FORM.matcher(text);
    String port = form.matches() ? form.group("port") : null;
    int number = port == null ? PORT : Integer.parseInt(port);
    if (!form.matches() || number < 1 || number > PORT_MAX) {
      throw new IllegalArgumentException(
          "the address is '"
              + text
              + "'; expected grpcs://HOST[:PORT] with TLS, or grpc://HOST[:PORT] without");
    }
    String host = form.group("host");
    return new RemoteAddress(
        host.startsWith("[") ? host.substring(1, host.length() - 1) : host,
        number,
        !form.group("tls").isEmpty());
  }

  public boolean isLoopback() {
    return host.equals("localhost") || host.equals("::1") || host.startsWith("127.");
  }

  @Override
  public String toString() {
    String named = host.indexOf(':') < 0 ? host : "[" + host + "]";
    return (hasTls ? "grpcs://" : "grpc://") + named + ":" + port;
  }
}
