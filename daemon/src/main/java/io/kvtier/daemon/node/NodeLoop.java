package io.kvtier.daemon.node;

import io.kvtier.tiers.node.NodeReader;
import io.kvtier.tiers.node.TcpTransport;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** The thread of one transport: reads from other nodes, and serves them. */
final class NodeLoop implements AutoCloseable {
  private static final long SERVING_WAIT_NS = TimeUnit.MILLISECONDS.toNanos(250);
  private static final long CLOSE_MS = 5_000;

  private final TcpTransport transport;
  private final NodeReader reader;
  private final RoundBell bell;
  private final Consumer<Throwable> defect;
  private final Thread thread;
  private volatile @Nullable NodeServer server;
  private volatile @Nullable HandOver handOver;
  private volatile boolean isClosed;

  /**
   * A loop that has not begun.
   *
   * @param bell wakes the index after rounds
   * @param defect told of what should never happen
   */
  NodeLoop(
      int number,
      TcpTransport transport,
      NodeReader reader,
      RoundBell bell,
      Consumer<Throwable> defect) {
    this.bell = bell;
    this.transport = transport;
    this.reader = reader;
    this.defect = defect;
    thread = Thread.ofPlatform().daemon().name("kvtier-node-" + number).unstarted(this::run);
  }

  TcpTransport transport() {
    return transport;
  }

  /**
   * Begins.
   *
   * @param serving null if this node serves no other
   * @param handing null if another loop hands blocks over
   */
  void start(@Nullable NodeServer serving, @Nullable HandOver handing) {
    server = serving;
    handOver = handing;
    thread.start();
  }

  @Nullable NodeServer server() {
    return server;
  }

  private void run() {
    try (transport) {
      NodeServer serving = server;
      HandOver handing = handOver;
      int moved = 0;
      while (!isClosed) {
        int work =
            reader.doWork()
                + (serving == null ? 0 : serving.doWork())
                + (handing == null ? 0 : handing.doWork());
        boolean isLast = work + moved == 0;
        bell.ring(isLast);
        moved = transport.poll(isLast ? Math.min(reader.waitNs(), SERVING_WAIT_NS) : 0);
      }
    } catch (RuntimeException | Error e) {
      defect.accept(e);
    } finally {
      // Links that were closed with the transport have ended their sessions with the index.
      bell.ring(true);
    }
  }

  /** Closes all links, and waits until nothing touches the memory of slots any more. */
  @Override
  public void close() {
    isClosed = true;
    transport.wake();
    if (thread.getState() == Thread.State.NEW) {
      transport.close();
      return;
    }
    try {
      thread.join(CLOSE_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
