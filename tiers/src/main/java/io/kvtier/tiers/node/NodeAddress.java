package io.kvtier.tiers.node;

/**
 * Where a daemon serves other nodes.
 *
 * @param host a name or an address; an IPv6 address without brackets
 */
public record NodeAddress(String host, int port) {
  private static final int PORT_MAX = 65_535;

  /**
   * Reads {@code HOST:PORT}; an IPv6 address stands in brackets.
   *
   * @throws IllegalArgumentException saying what was expected
   */
  public static NodeAddress of(String text) {
    int colon = text.lastIndexOf(':');
    String host = colon < 0 ? text : text.substring(0, colon);
    boolean isBracketed = host.startsWith("[") && host.endsWith("]");
    String bare = isBracketed ? host.substring(1, host.length() - 1) : host;
    if (colon < 0 || bare.isEmpty() || (!isBracketed && bare.indexOf(':') >= 0)) {
      throw expected(text);
    }
    try {
      int port = Integer.parseInt(text.substring(colon + 1));
      if (port < 0 || port > PORT_MAX) {
        throw expected(text);
      }
      return new NodeAddress(bare, port);
    } catch (NumberFormatException e) {
      throw expected(text);
    }
  }

  private static IllegalArgumentException expected(String text) {
    return new IllegalArgumentException(
        "'" + text + "' is no HOST:PORT, such as 10.0.0.7:7076 or [fd00::7]:7076");
  }

  @Override
  public String toString() {
    return (host.indexOf(':') < 0 ? host : "[" + host + "]") + ":" + port;
  }
}
