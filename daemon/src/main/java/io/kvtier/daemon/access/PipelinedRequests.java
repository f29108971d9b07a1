package io.kvtier.daemon.access;

import io.netty.channel.ChannelDuplexHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelPromise;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.LastHttpContent;
import io.netty.util.ReferenceCountUtil;

/**
 * Counts the requests of an HTTP/1.1 connection that wait for their answers, or whose answers wait
 * for the peer. Whoever sends more ahead is no client that this server has, and is cut off: each
 * takes kilobytes of the heap, and twenty bytes of the peer's.
 *
 * <p>Between the codec and the server's own handler; confined to the event loop of its connection.
 */
public final class PipelinedRequests extends ChannelDuplexHandler {
  /** Programs that send requests ahead send a few. */
  public static final int REQUESTS_MAX = 8;

  private final Runnable onRefusal;
  private int waiting;
  private boolean isCut;

  /**
   * For one connection.
   *
   * @param onRefusal told once when it is cut off
   */
  public PipelinedRequests(Runnable onRefusal) {
    this.onRefusal = onRefusal;
  }

  @Override
  public void channelRead(ChannelHandlerContext context, Object message) {
    if (message instanceof HttpRequest && !isCut && ++waiting > REQUESTS_MAX) {
      isCut = true;
      onRefusal.run();
      ConnectionTable.cut(context.channel());
    }
    if (isCut) {
      ReferenceCountUtil.release(message); // it was read together with what was too much
    } else {
      context.fireChannelRead(message);
    }
  }

  @Override
  public void write(ChannelHandlerContext context, Object message, ChannelPromise promise) {
    if (message instanceof LastHttpContent) {
      var _ = context.write(message, promise.unvoid().addListener(taken -> waiting--));
    } else {
      var _ = context.write(message, promise);
    }
  }
}
