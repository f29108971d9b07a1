package io.kvtier.daemon.node;

import io.kvtier.tiers.node.NodeAddress;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Accepts connections of other nodes, and hands them to the loops in turn. */
final class NodeAcceptor implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(NodeAcceptor.class);

  /** The most connections that wait for a loop. */
  private static final int HANDED_MAX = 64;

  private static final long REST_NS = TimeUnit.MILLISECONDS.toNanos(100);

  private final ServerSocketChannel listening;
  private final Semaphore handed = new Semaphore(HANDED_MAX);

  /**
   * Listens, and accepts nothing yet.
   *
   * @throws IOException naming the key to change
   */
  NodeAcceptor(NodeAddress address) throws IOException {
    listening = ServerSocketChannel.open();
    try {
      listening.bind(new InetSocketAddress(InetAddress.getByName(address.host()), address.port()));
    } catch (IOException e) {
      listening.close();
      throw new IOException(
          "the daemon can't listen on "
              + address
              + ": "
              + e.getMessage()
              + "; choose another nodes.listen",
          e);
    }
  }

  /** The port, which the kernel chose if none was given. */
  int port() throws IOException {
    return ((InetSocketAddress) listening.getLocalAddress()).getPort();
  }

  /** Begins to accept. */
  void start(List<NodeLoop> loops) {
    Thread.ofPlatform().daemon().name("kvtier-node-accept").start(() -> run(loops));
  }

  private void run(List<NodeLoop> loops) {
    for (int turn = 0; listening.isOpen(); turn = (turn + 1) % loops.size()) {
      try {
        SocketChannel channel = listening.accept();
        handed.acquireUninterruptibly();
        hand(loops.get(turn), channel);
      } catch (AsynchronousCloseException e) {
        return;
      } catch (IOException e) {
        if (listening.isOpen()) {
          // Often there are no more file descriptors: a pause lets others be closed.
          LOG.warn("a connection of another node was not accepted: {}", e.getMessage());
          LockSupport.parkNanos(REST_NS);
        }
      }
    }
  }

  private void hand(NodeLoop loop, SocketChannel channel) {
    loop.transport()
        .later(() -> {
          handed.release();
          NodeServer server = loop.server();
          if (server == null
              || !server.admit(listener -> loop.transport().adopt(channel, listener))) {
            try {
              channel.close();
            } catch (IOException e) {
              LOG.debug("a refused connection was not closed", e);
            }
          }
        });
  }

  @Override
  public void close() throws IOException {
    listening.close();
  }
}
