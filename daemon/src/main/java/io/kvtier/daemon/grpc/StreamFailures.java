package io.kvtier.daemon.grpc;

import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.handler.codec.http2.Http2Exception;

/**
 * Keeps the failure of one HTTP/2 stream from the other streams of its connection.
 *
 * <p>A client may reset a stream before its answer is written. Netty then fails the write. Vert.x
 * does not ask for the outcome of the trailers' write, so Netty reports this failure as an
 * exception of the connection. Vert.x closes a connection after any exception. When the exception
 * comes here, the stream has ended, and its call has been told. Failures of the connection pass.
 *
 * <p>Stands before Vert.x's handler; confined to the event loop of its connection.
 */
final class StreamFailures extends ChannelInboundHandlerAdapter {
  @Override
  public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
    if (!(cause instanceof Http2Exception.StreamException)) {
      context.fireExceptionCaught(cause);
    }
  }
}
