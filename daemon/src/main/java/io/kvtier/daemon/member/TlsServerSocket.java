package io.kvtier.daemon.member;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.util.ArrayDeque;
import java.util.LinkedHashSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;

/**
 * Accepts connections that have shown a certificate. JGroups reads from what it accepts before it
 * accepts the next, so that a stranger who says nothing would keep members out. Here each new
 * connection has a thread for its handshake; when there are too many, the oldest is closed.
 */
final class TlsServerSocket extends ServerSocket {
  /** The most handshakes under way. */
  static final int HANDSHAKES_MAX = 64;

  private static final int HANDSHAKE_MS = 3000;
  private static final long REST_NS = TimeUnit.MILLISECONDS.toNanos(100);

  private final Supplier<SSLContext> context;
  private final Consumer<String> refused;
  private final LinkedHashSet<Socket> newcomers = new LinkedHashSet<>();
  private final ArrayDeque<Socket> ready = new ArrayDeque<>();
  private boolean isStarted;

  TlsServerSocket(Supplier<SSLContext> context, Consumer<String> refused) throws IOException {
    this.context = context;
    this.refused = refused;
  }

  /** Waits for a connection whose handshake is done. */
  @Override
  public synchronized Socket accept() throws IOException {
    if (!isStarted) {
      isStarted = true;
      Thread.ofVirtual().name("kvtier-member-accept").start(this::acceptAll);
    }
    while (ready.isEmpty()) {
      if (isClosed()) {
        throw new SocketException("the socket is closed");
      }
      try {
        wait();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new SocketException("interrupted");
      }
    }
    return ready.remove();
  }

  private void acceptAll() {
    while (!isClosed()) {
      try {
        Socket newcomer = new Socket();
        // A plain socket: TLS comes on top of it.
        implAccept(newcomer);
        greet(newcomer);
      } catch (IOException e) {
        if (!isClosed()) {
          refused.accept("a connection was not accepted: " + e.getMessage());
          LockSupport.parkNanos(REST_NS);
        }
      }
    }
  }

  private void greet(Socket newcomer) {
    Socket oldest = null;
    synchronized (this) {
      newcomers.add(newcomer);
      if (newcomers.size() > HANDSHAKES_MAX) {
        oldest = newcomers.removeFirst();
      }
    }
    if (oldest != null) {
      closeQuietly(oldest);
    }
    Thread.ofVirtual().start(() -> shake(newcomer));
    Thread.ofVirtual()
        .start(() -> {
          LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(HANDSHAKE_MS));
          if (isNew(newcomer)) {
            closeQuietly(newcomer);
          }
        });
  }

  private synchronized boolean isNew(Socket newcomer) {
    return newcomers.contains(newcomer);
  }

  private void shake(Socket newcomer) {
    String from = String.valueOf(newcomer.getRemoteSocketAddress());
    try {
      newcomer.setSoTimeout(HANDSHAKE_MS);
      SSLSocket made = MemberSockets.over(newcomer, context.get(), false);
      made.startHandshake();
      made.setSoTimeout(0);
      admit(newcomer, made);
    } catch (IOException e) {
      synchronized (this) {
        newcomers.remove(newcomer);
      }
      closeQuietly(newcomer);
      // Members often connect to each other at the same time, and then one of them hangs up.
      boolean hasHungUp = e instanceof SocketException || e.getCause() instanceof SocketException;
      if (!isClosed() && !hasHungUp) {
        refused.accept(from + ": " + e.getMessage());
      }
    }
  }

  private synchronized void admit(Socket newcomer, SSLSocket made) throws IOException {
    if (!newcomers.remove(newcomer) || isClosed()) {
      throw new IOException("others came after it, and it was not ready");
    }
    ready.add(made);
    notifyAll();
  }

  private static void closeQuietly(Socket socket) {
    try {
      socket.close();
    } catch (IOException e) {
      // Nobody uses it.
    }
  }

  @Override
  public void close() throws IOException {
    super.close();
    synchronized (this) {
      newcomers.forEach(TlsServerSocket::closeQuietly);
      ready.forEach(TlsServerSocket::closeQuietly);
      notifyAll();
    }
  }
}
