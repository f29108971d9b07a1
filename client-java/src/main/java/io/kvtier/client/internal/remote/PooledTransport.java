package io.kvtier.client.internal.remote;

import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.channel.ChannelOption;
import io.vertx.core.impl.transports.NioTransport;
import io.vertx.core.net.ClientOptionsBase;
import io.vertx.core.transport.Transport;
import org.jspecify.annotations.Nullable;

/**
 * Vert.x's transport, with Netty's pooled buffers. TLS asks for a buffer of more than 64 KiB for
 * most reads of a fast connection. Netty's default allocator takes each of them from the system,
 * and gives it back.
 */
final class PooledTransport implements Transport {
  @Override
  public String name() {
    return "pooled";
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
      public void configure(
          ClientOptionsBase options,
          int connectTimeout,
          boolean domainSocket,
          Bootstrap bootstrap) {
        super.configure(options, connectTimeout, domainSocket, bootstrap);
        bootstrap.option(ChannelOption.ALLOCATOR, PooledByteBufAllocator.DEFAULT);
      }
    };
  }
}
