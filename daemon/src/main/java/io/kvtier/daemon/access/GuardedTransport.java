package io.kvtier.daemon.access;

import io.netty.channel.ChannelFactory;
import io.netty.channel.ServerChannel;
import io.netty.channel.WriteBufferWaterMark;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.impl.transports.NioTransport;
import io.vertx.core.transport.Transport;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Vert.x's own transport, with a {@link ConnectionTable} at the door: a server of Vert.x hears of a
 * connection only when that has begun to speak its protocol, and until then has no limit. Each
 * connection gets {@link BackPressure} and {@link ReadSizes}.
 */
public final class GuardedTransport implements Transport {
  private final ConnectionTable table;

  private GuardedTransport(ConnectionTable table) {
    this.table = table;
  }

  /** A Vert.x whose servers take connections as the table lets them. */
  public static Vertx newVertx(VertxOptions options, ConnectionTable table) {
    return Vertx.builder().with(options).withTransport(new GuardedTransport(table)).build();
  }

  @Override
  public String name() {
    return "guarded";
  }

  @Override
  public boolean available() {
    return true;
  }

  @Override
  public @Nullable Throwable unavailabilityCause() {
    return null;
  }

  @Override
  public io.vertx.core.spi.transport.Transport implementation() {
    return new NioTransport() {
      @Override
      public ChannelFactory<? extends ServerChannel> serverChannelFactory(boolean domainSocket) {
        return domainSocket ? super.serverChannelFactory(true) : () -> new Door(table);
      }
    };
  }

  /** A peer that leaves more than the larger one of its answers in the socket's queue waits. */
  private static final WriteBufferWaterMark FIRST_WRITES = new WriteBufferWaterMark(1, 4 << 10);

  private static final class Door extends NioServerSocketChannel {
    private final ConnectionTable table;

    Door(ConnectionTable table) {
      this.table = table;
    }

    @Override
    protected int doReadMessages(List<Object> accepted) throws Exception {
      int count = super.doReadMessages(accepted);
      if (count > 0 && accepted.getLast() instanceof SocketChannel connection) {
        if (table.admit(connection)) {
          connection.config().setRecvByteBufAllocator(new ReadSizes());
          connection.config().setWriteBufferWaterMark(FIRST_WRITES);
          connection.pipeline().addFirst(new BackPressure(table));
        } else {
          accepted.removeLast();
          connection.unsafe().closeForcibly();
        }
      }
      return count;
    }
  }
}
