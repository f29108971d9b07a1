package io.kvtier.daemon.member;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import org.jgroups.util.DefaultSocketFactory;
import org.jspecify.annotations.Nullable;

/**
 * The sockets between members: TLS 1.3, with a certificate on each side, or plaintext. JGroups gets
 * no byte of those who show no certificate.
 */
final class MemberSockets extends DefaultSocketFactory {
  private static final String[] PROTOCOLS = {"TLSv1.3"};

  private final @Nullable Supplier<SSLContext> tls;
  private final Consumer<String> refused;

  /**
   * Makes sockets.
   *
   * @param tls the certificates of this node and of those that it trusts; null for plaintext
   * @param refused told of each connection that was not let in, and why; from any thread
   */
  MemberSockets(@Nullable Supplier<SSLContext> tls, Consumer<String> refused) {
    this.tls = tls;
    this.refused = refused;
  }

  @Override
  public Socket createSocket(String service) {
    return tls == null ? new Socket() : new TlsSocket(tls);
  }

  @Override
  public ServerSocket createServerSocket(String service) throws IOException {
    return tls == null ? new ServerSocket() : new TlsServerSocket(tls, refused);
  }

  /** TLS over a connected socket, which is closed with it. */
  static SSLSocket over(Socket socket, SSLContext context, boolean isClient) throws IOException {
    SSLSocket made =
        (SSLSocket)
            context
                .getSocketFactory()
                .createSocket(
                    socket, socket.getInetAddress().getHostAddress(), socket.getPort(), true);
    made.setUseClientMode(isClient);
    if (!isClient) {
      made.setNeedClientAuth(true);
    }
    made.setEnabledProtocols(PROTOCOLS);
    return made;
  }
}
