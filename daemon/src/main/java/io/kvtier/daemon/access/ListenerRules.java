package io.kvtier.daemon.access;

import io.kvtier.daemon.config.KvtierdConfig.AccessConfig;
import io.kvtier.daemon.config.KvtierdConfig.TlsConfig;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** What a listener must have before others than this machine's programs may reach it. */
public final class ListenerRules {
  private static final String EXPECTED =
      "expected a name or an address of this machine, such as 127.0.0.1";

  private ListenerRules() {}

  /**
   * Refuses a listener that would let anybody in, or would have tokens and blocks read on their
   * way.
   *
   * @param section of the listener in the configuration, such as {@code grpc}
   * @param tls null where the listener has none
   * @return where to listen: who asks another resolver for the name, or this one again, may get an
   *     address that was not judged
   * @throws IOException naming the keys to change, of which the first word is {@code SECTION.host}
   */
  public static InetAddress require(
      String section, String host, @Nullable TlsConfig tls, AccessConfig access)
      throws IOException {
    InetAddress[] addresses = addresses(section, host);
    if (Arrays.stream(addresses).allMatch(InetAddress::isLoopbackAddress)) {
      return addresses[0];
    }
    if (tls == null) {
      throw new IOException(
          section
              + ".host is '"
              + host
              + "', which other machines reach, and there is no TLS: set tls.certificate and tls.key"
              + (" (and " + section + ".tls to auto), or set ")
              + section
              + ".host to 127.0.0.1");
    }
    if (access.tokens() == null && tls.clientCa() == null) {
      throw new IOException(
          section
              + ".host is '"
              + host
              + "', which other machines reach, and nothing says who may use it: set access.tokens"
              + " (kvtier token makes them) or tls.client_ca, or set "
              + section
              + ".host to 127.0.0.1");
    }
    return addresses[0];
  }

  /** Where a listener listens, in words that go into a URL: addresses of IPv6 are in brackets. */
  public static String address(String host, int port) {
    return (host.indexOf(':') < 0 ? host : "[" + host + "]") + ":" + port;
  }

  private static InetAddress[] addresses(String section, String host) throws IOException {
    if (host.isEmpty()) { // which the resolver takes for loopback
      throw new IOException(section + ".host is '', " + EXPECTED);
    }
    try {
      return InetAddress.getAllByName(host);
    } catch (UnknownHostException e) {
      // It may be known a moment later, and then not be loopback.
      throw new IOException(
          section + ".host is '" + host + "', for which no address is known; " + EXPECTED, e);
    }
  }
}
