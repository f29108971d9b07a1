package io.kvtier.tiers.node;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;
import org.jspecify.annotations.Nullable;

/**
 * Links over TCP, with mutual TLS or in plaintext: one selector, one thread. Blocks can go by a
 * {@link Fabric} beside the links.
 */
public final class TcpTransport implements NodeTransport {
  /** The usual send buffer of a link. */
  public static final int SEND_BUFFER_BYTES = 256 << 10;

  private static final int SCRATCH_BYTES = 256 << 10;

  /** After this long, links have their turns before the next tasks. */
  private static final long TASKS_NS = TimeUnit.MILLISECONDS.toNanos(1);

  private static final String[] PROTOCOLS = {"TLSv1.3"};

  private final @Nullable Supplier<SSLContext> tls;
  private final String certificateName;
  private final int sendBufferBytes;
  private final @Nullable Fabric fabric;
  private final Selector selector;
  private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
  private final Set<TcpLink> links = new LinkedHashSet<>();
  private final LinkTurns turns = new LinkTurns(this::nowNs);
  private final ByteBuffer scratch = ByteBuffer.allocateDirect(SCRATCH_BYTES);
  private final BufferPool buffers = new BufferPool();
  private final BlockBytes onLinks = new BlockBytes();
  private final BlockBytes byFabric = new BlockBytes();
  private volatile boolean isAsleep;
  private volatile boolean isWoken;

  /**
   * A transport without links.
   *
   * @param tls gives the certificates of this node and of those that it trusts, anew for each
   *     connection; null: nothing is encrypted, and nobody proves who it is
   */
  public TcpTransport(@Nullable Supplier<SSLContext> tls) throws IOException {
    this(tls, "", SEND_BUFFER_BYTES, null);
  }

  /**
   * A transport without links, to nodes whose certificates all have one name.
   *
   * @param certificateName that name; empty: each has the host of its address
   * @param sendBufferBytes the send buffer of a link; 0: the kernel chooses
   * @param fabric moves the blocks of links whose other side has a fabric, too; null: the links do
   *     so. It ends with the transport
   */
  public TcpTransport(
      @Nullable Supplier<SSLContext> tls,
      String certificateName,
      int sendBufferBytes,
      @Nullable Fabric fabric)
      throws IOException {
    this.tls = tls;
    this.certificateName = certificateName;
    this.sendBufferBytes = sendBufferBytes;
    this.fabric = fabric;
    selector = Selector.open();
  }

  /** The bytes of the blocks that went over the links; for any thread. */
  public BlockBytes onLinks() {
    return onLinks;
  }

  /** The bytes of the blocks that went by the fabric; for any thread. */
  public BlockBytes byFabric() {
    return byFabric;
  }

  // ---- links

  @Override
  public NodeLink connect(NodeAddress address, NodeLink.Listener listener) {
    TcpLink link = new TcpLink(this, listener, address.toString(), false);
    links.add(link);
    // A name server may take seconds to answer.
    Thread.ofVirtual()
        .start(() -> {
          try {
            InetAddress found = InetAddress.getByName(address.host());
            later(() -> connect(link, address, found));
          } catch (IOException e) {
            later(() ->
                link.close("the name '" + address.host() + "' is not known: " + e.getMessage()));
          }
        });
    return link;
  }

  private void connect(TcpLink link, NodeAddress address, InetAddress found) {
    if (!links.contains(link)) {
      return;
    }
    SocketChannel channel = null;
    try {
      channel = SocketChannel.open();
      channel.configureBlocking(false);
      Wire wire = wire(channel, address);
      SelectionKey key = channel.register(selector, SelectionKey.OP_CONNECT);
      var _ = channel.connect(new InetSocketAddress(found, address.port()));
      link.begin(channel, wire, key);
    } catch (IOException | RuntimeException e) {
      closeQuietly(channel);
      link.close(String.valueOf(e.getMessage()));
    }
  }

  /** Takes a connection that was accepted; from this transport's thread. */
  public NodeLink adopt(SocketChannel channel, NodeLink.Listener listener) {
    String address;
    try {
      address = String.valueOf(channel.getRemoteAddress());
    } catch (IOException e) {
      address = "gone";
    }
    TcpLink link =
        new TcpLink(this, listener, address.startsWith("/") ? address.substring(1) : address, true);
    links.add(link);
    turns.admit(link);
    later(() -> adopt(link, channel));
    return link;
  }

  private void adopt(TcpLink link, SocketChannel channel) {
    if (!links.contains(link)) {
      closeQuietly(channel);
      return;
    }
    try {
      channel.configureBlocking(false);
      Wire wire = wire(channel, null);
      link.begin(channel, wire, channel.register(selector, 0));
    } catch (IOException | RuntimeException e) {
      closeQuietly(channel);
      link.close(String.valueOf(e.getMessage()));
    }
  }

  private static void closeQuietly(@Nullable SocketChannel channel) {
    if (channel != null) {
      try {
        channel.close();
      } catch (IOException e) {
        // Nothing uses the connection.
      }
    }
  }

  /**
   * The wire over a channel.
   *
   * @param server whose name the other side's certificate must have; null: the other side is the
   *     client
   */
  private Wire wire(SocketChannel channel, @Nullable NodeAddress server) {
    if (tls == null) {
      return new PlainWire(channel);
    }
    SSLContext context = tls.get();
    SSLEngine engine;
    if (server == null) {
      engine = context.createSSLEngine();
      engine.setUseClientMode(false);
      engine.setNeedClientAuth(true);
    } else {
      String name = certificateName.isEmpty() ? server.host() : certificateName;
      engine = context.createSSLEngine(name, server.port());
      engine.setUseClientMode(true);
      SSLParameters parameters = engine.getSSLParameters();
      parameters.setEndpointIdentificationAlgorithm("HTTPS");
      engine.setSSLParameters(parameters);
    }
    engine.setEnabledProtocols(PROTOCOLS);
    return new TlsWire(channel, engine, buffers);
  }

  // ---- for links

  /** Has something run on the transport's thread; from any thread. */
  public void later(Runnable task) {
    tasks.add(task);
    wake();
  }

  /** A link has something to do. */
  void due(TcpLink link) {
    turns.add(link);
  }

  void forget(TcpLink link) {
    links.remove(link);
    turns.remove(link);
  }

  /** The send buffer of a link; 0: the kernel chooses. */
  int sendBufferBytes() {
    return sendBufferBytes;
  }

  /** Moves the blocks of links; null: the links do so. */
  @Nullable Fabric fabric() {
    return fabric;
  }

  /** The memory of links. */
  BufferPool buffers() {
    return buffers;
  }

  /** Memory for bytes that nobody wants. */
  ByteBuffer scratch(int bytes) {
    return scratch.clear().limit(bytes);
  }

  // ---- rounds

  @Override
  public int poll(long waitNs) {
    int done = runTasks() + turns.serve();
    try {
      isAsleep = true;
      // A link that broke in its turn may be news for the index, which the caller wakes before a
      // wait.
      if (done > 0 || isWoken || !turns.isEmpty() || waitNs <= 0) {
        selector.selectNow(this::ready);
      } else {
        selector.select(this::ready, Math.max(1, TimeUnit.NANOSECONDS.toMillis(waitNs)));
      }
    } catch (IOException e) {
      throw new UncheckedIOException("the selector of node links failed", e);
    } finally {
      isAsleep = false;
      isWoken = false;
    }
    return done + runTasks() + turns.serve();
  }

  private void ready(SelectionKey key) {
    if (key.attachment() instanceof TcpLink link && key.isValid()) {
      link.ready(key.readyOps());
    }
  }

  /** Runs tasks, for a limited time. */
  private int runTasks() {
    int count = 0;
    long endNs = nowNs() + TASKS_NS;
    for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
      task.run();
      count++;
      if (nowNs() - endNs >= 0) {
        break;
      }
    }
    return count;
  }

  @Override
  public void wake() {
    isWoken = true;
    if (isAsleep) {
      selector.wakeup();
    }
  }

  @Override
  public long nowNs() {
    return System.nanoTime();
  }

  @Override
  public void close() {
    for (TcpLink link : new ArrayList<>(links)) {
      link.close("this node stops");
    }
    if (fabric != null) {
      fabric.close();
    }
    try {
      selector.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
