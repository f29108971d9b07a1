package io.kvtier.daemon.config;

import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.access.Role;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Reads where the daemon listens and who may call: {@code socket}, {@code grpc}, {@code http},
 * {@code tls} and {@code access}.
 */
final class NetworkSections {
  private static final int PORT_MAX = 65535;

  private final KeyReader keys;

  NetworkSections(KeyReader keys) {
    this.keys = keys;
  }

  /** The local socket. */
  KvtierdConfig.SocketConfig socket() {
    Path path = keys.get("socket.path", Path::of, "a path");
    int mode =
        keys.get(
            "socket.mode",
            NetworkSections::fileMode,
            "an octal file mode up to 0777, such as 0660");
    return new KvtierdConfig.SocketConfig(
        path.toString().isEmpty() ? SocketPaths.defaultPath() : path,
        peers("socket.users"),
        peers("socket.groups"),
        mode);
  }

  /** The gRPC server. */
  KvtierdConfig.GrpcConfig grpc() {
    return new KvtierdConfig.GrpcConfig(
        keys.get("grpc.enabled", this::grpcIsOn, "auto, true or false"),
        keys.text("grpc.host"),
        keys.number("grpc.port", 0, PORT_MAX),
        keys.autoOrOff("grpc.tls"),
        keys.number("grpc.threads", 1, 64),
        (int) keys.size("grpc.chunk_bytes", 4096, 3L << 20),
        listenerLimits("grpc."));
  }

  /** The HTTP server. */
  KvtierdConfig.HttpConfig http() {
    return new KvtierdConfig.HttpConfig(
        keys.flag("http.enabled"),
        keys.text("http.host"),
        keys.number("http.port", 0, PORT_MAX),
        keys.list("http.hosts"),
        keys.autoOrOff("http.tls"));
  }

  /** The certificate of all listeners; null for none. */
  KvtierdConfig.@Nullable TlsConfig tls() {
    String certificate = keys.text("tls.certificate");
    String key = keys.text("tls.key");
    String clientCa = keys.text("tls.client_ca");
    long handshake = keys.positiveDuration("tls.handshake");
    keys.require(
        "tls.key",
        certificate.isEmpty() == key.isEmpty(),
        certificate.isEmpty()
            ? "nothing, where there is no tls.certificate"
            : "the file of the private key of tls.certificate");
    keys.require(
        "tls.client_ca",
        clientCa.isEmpty() || !certificate.isEmpty(),
        "nothing, where there is no tls.certificate");
    return certificate.isEmpty() || key.isEmpty()
        ? null
        : new KvtierdConfig.TlsConfig(
            keys.path("tls.certificate", certificate),
            keys.path("tls.key", key),
            clientCa.isEmpty() ? null : keys.path("tls.client_ca", clientCa),
            handshake);
  }

  /** The tokens, and the role of callers if there are none. */
  KvtierdConfig.AccessConfig access() {
    String tokens = keys.text("access.tokens");
    return new KvtierdConfig.AccessConfig(
        tokens.isEmpty() ? null : keys.path("access.tokens", tokens),
        keys.get("access.without_token", NetworkSections::role, "none, read, write or admin"));
  }

  /**
   * Names, some with a colon and a role. Whether the users exist is checked against the machine.
   */
  private List<String> peers(String key) {
    List<String> peers = keys.list(key);
    for (String peer : peers) {
      int colon = peer.indexOf(':');
      keys.require(
          key,
          colon != 0 && (colon < 0 || Role.ofWord(peer.substring(colon + 1)) != null),
          "names or numbers, and behind a colon the role of one that has another than write: read,"
              + " write or admin");
    }
    return keys.isMistaken(key) ? List.of() : peers;
  }

  private static int fileMode(String text) {
    int mode = Integer.parseInt(text, 8);
    if (mode < 0 || mode > 0777) {
      throw new IllegalArgumentException();
    }
    return mode;
  }

  /** Whether gRPC is on: with {@code auto} it is on if the host or the port is given. */
  private boolean grpcIsOn(String text) {
    return text.equals("auto")
        ? keys.isGiven("grpc.host") || keys.isGiven("grpc.port")
        : KeyReader.parseFlag(text);
  }

  private KvtierdConfig.ListenerLimits listenerLimits(String section) {
    return new KvtierdConfig.ListenerLimits(
        keys.number(section + "connections", 1, 1 << 20),
        keys.number(section + "connections_per_peer", 0, 1 << 20),
        keys.duration(section + "first_call"),
        keys.durationOrZero(section + "idle", "30min"),
        keys.number(section + "calls_per_second", 0, 1 << 24));
  }

  private static Role role(String text) {
    Role role = Role.ofWord(text);
    if (role == null) {
      throw new IllegalArgumentException();
    }
    return role;
  }
}
