package io.kvtier.daemon.access;

import io.netty.channel.ChannelDuplexHandler;
import io.netty.channel.ChannelHandlerContext;

/**
 * Reads nothing from a peer that does not take what it is sent. The first handler of each
 * connection, at the socket's end, under TLS: what waits in the socket's queue is what the peer can
 * make the daemon hold, whatever it asked for. What the peer goes on to send stays in the kernel,
 * and then in the peer.
 *
 * <p>Confined to the event loop of its connection.
 */
final class BackPressure extends ChannelDuplexHandler {
  private final ConnectionTable table;
  private boolean wantsRead;

  BackPressure(ConnectionTable table) {
    this.table = table;
  }

  @Override
  public void read(ChannelHandlerContext context) {
    if (context.channel().isWritable()) {
      context.read();
    } else {
      wantsRead = true;
    }
  }

  @Override
  public void channelWritabilityChanged(ChannelHandlerContext context) {
    if (context.channel().isWritable()) {
      table.flows(context.channel());
      if (wantsRead) {
        wantsRead = false;
        context.read();
      }
    } else {
      table.standsStill(context.channel());
    }
    context.fireChannelWritabilityChanged();
  }
}
