package io.kvtier.daemon.node;

import io.kvtier.tiers.node.Fabric;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeTransport;
import io.kvtier.tiers.node.TcpTransport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;

/** Two transports over TCP on this machine: one connects, one accepts. */
public final class Loopback implements AutoCloseable {
  private final ServerSocketChannel listening = ServerSocketChannel.open();
  private final TcpTransport from;
  private final TcpTransport to;
  private final NodeAddress address;

  /**
   * Listens.
   *
   * @param tls the certificates of both sides; null for plaintext
   * @param acceptor takes each link that comes
   */
  public Loopback(@Nullable Supplier<SSLContext> tls, SimulatedNetwork.Acceptor acceptor)
      throws IOException {
    this(tls, acceptor, null, null);
  }

  /**
   * Listens.
   *
   * @param fromFabric moves the blocks of the side that connects
   * @param toFabric moves the blocks of the side that accepts
   */
  public Loopback(
      @Nullable Supplier<SSLContext> tls,
      SimulatedNetwork.Acceptor acceptor,
      @Nullable Fabric fromFabric,
      @Nullable Fabric toFabric)
      throws IOException {
    listening.bind(new InetSocketAddress("0.0.0.0", 0));
    from = new TcpTransport(tls, "", TcpTransport.SEND_BUFFER_BYTES, fromFabric);
    to = new TcpTransport(tls, "", TcpTransport.SEND_BUFFER_BYTES, toFabric);
    int port = ((InetSocketAddress) listening.getLocalAddress()).getPort();
    address = new NodeAddress("127.0.0.1", port);
    Thread.ofPlatform().daemon().start(() -> accept(acceptor));
  }

  private void accept(SimulatedNetwork.Acceptor acceptor) {
    try {
      while (true) {
        SocketChannel channel = listening.accept();
        to.later(() -> admit(acceptor, channel));
      }
    } catch (IOException e) {
      // The test is over.
    }
  }

  private void admit(SimulatedNetwork.Acceptor acceptor, SocketChannel channel) {
    if (!acceptor.admit(listener -> to.adopt(channel, listener))) {
      throw new AssertionError("a link was refused");
    }
  }

  /** The side that connects. */
  public NodeTransport from() {
    return from;
  }

  /** The side that accepts. */
  public TcpTransport to() {
    return to;
  }

  /** Where it listens. */
  public NodeAddress address() {
    return address;
  }

  /** Listens no more; the transports stay. */
  @Override
  public void close() throws IOException {
    listening.close();
  }
}
