package io.kvtier.daemon.access;

import io.kvtier.daemon.config.KvtierdConfig.AccessConfig;
import io.kvtier.daemon.config.KvtierdConfig.TlsConfig;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import org.jspecify.annotations.Nullable;

/** What a listener must have before others than this machine's programs may reach it. */
public final class ListenerRules {
  private ListenerRules() {}

  /**
   * Refuses a listener that would let anybody in, or would have tokens and blocks read on their
   * way.
   *
   * @param section of the listener in the configuration, such as {@code grpc}
   * @param tls null where the listener has none
   * @throws IOException naming the keys to change
   */
  public static void require(
      String section, String host, @Nullable TlsConfig tls, AccessConfig access)
      throws IOException {
    if (isLoopback(section, host)) {
      return;
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
  }

  /** Where a listener listens, in words that go into a URL: addresses of IPv6 are in brackets. */
  public static String address(String host, int port) {
    return (host.indexOf(':') < 0 ? host : "[" + host + "]") + ":" + port;
  }

  private static boolean isLoopback(String section, String host) throws IOException {
    try {
      for (InetAddress address : InetAddress.getAllByName(host)) {
        if (!address.isLoopbackAddress()) {
          return false;
        }
      }
      return !host.isEmpty();
    } catch (UnknownHostException e) {
      // It may be known a moment later, and then not be loopback.
      throw new IOException(
          "can't listen on '"
              + host
              + "' ("
              + section
              + ".host): no address is known for this name; expected a name or an address of this"
              + " machine, such as 127.0.0.1",
          e);
    }
  }
}
