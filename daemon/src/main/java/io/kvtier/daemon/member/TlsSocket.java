package io.kvtier.daemon.member;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.net.SocketAddress;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import org.jspecify.annotations.Nullable;

/**
 * A connection to another member: connected only when both sides have shown their certificates. A
 * member that accepts and then says nothing, such as a stopped process, ends the attempt: JGroups
 * sends nothing to anybody else while it connects.
 */
final class TlsSocket extends Socket {
  private static final int HANDSHAKE_MS = 2000;

  private final Supplier<SSLContext> context;
  private volatile @Nullable SSLSocket tls;
  private volatile boolean isClosing;

  TlsSocket(Supplier<SSLContext> context) {
    this.context = context;
  }

  @Override
  public void connect(SocketAddress to) throws IOException {
    connect(to, 0);
  }

  @Override
  public void connect(SocketAddress to, int timeoutMs) throws IOException {
    super.connect(to, timeoutMs);
    setSoTimeout(HANDSHAKE_MS);
    SSLSocket made = MemberSockets.over(this, context.get(), true);
    tls = made;
    made.startHandshake();
    setSoTimeout(0);
    // Else a close can wait for a member that takes no more bytes.
    setSoLinger(true, 0);
  }

  @Override
  public InputStream getInputStream() throws IOException {
    SSLSocket now = tls;
    return now == null ? super.getInputStream() : now.getInputStream();
  }

  @Override
  public OutputStream getOutputStream() throws IOException {
    SSLSocket now = tls;
    return now == null ? super.getOutputStream() : now.getOutputStream();
  }

  @Override
  public void close() throws IOException {
    SSLSocket now = tls;
    if (now == null || isClosing) {
      super.close();
    } else {
      isClosing = true;
      // Closes this socket, too.
      now.close();
    }
  }
}
