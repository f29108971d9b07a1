package io.kvtier.daemon.access;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.channel.AdaptiveRecvByteBufAllocator;
import io.netty.channel.Channel;
import io.netty.channel.ChannelConfig;
import io.netty.channel.RecvByteBufAllocator;
import io.netty.handler.ssl.SslHandler;
import io.netty.util.UncheckedBooleanSupplier;

/**
 * How much is read of a connection at once: little while nobody knows what it is good for, as each
 * byte of a request can take a hundred of the heap; much once it is known to carry blocks. One for
 * each connection.
 *
 * <p>Large reads of a connection with TLS go to buffers on the heap: the JDK decrypts a direct
 * buffer in pieces of 512 bytes.
 */
public final class ReadSizes implements RecvByteBufAllocator {
  private static final int FIRST_BYTES_MAX = 4 << 10;
  private final RecvByteBufAllocator small =
      new AdaptiveRecvByteBufAllocator(256, 1 << 10, FIRST_BYTES_MAX).maxMessagesPerRead(1);
  private final RecvByteBufAllocator large = new AdaptiveRecvByteBufAllocator();
  private volatile boolean isLarge;
  private volatile boolean isOnHeap;

  /** Has a connection that came through a {@link GuardedTransport} read much at once. */
  public static void enlarge(Channel connection) {
    if (connection.config().getRecvByteBufAllocator() instanceof ReadSizes sizes) {
      sizes.isOnHeap = connection.pipeline().get(SslHandler.class) != null;
      sizes.isLarge = true;
    }
  }

  @Override
  public ExtendedHandle newHandle() {
    return new Switch((ExtendedHandle) small.newHandle(), (ExtendedHandle) large.newHandle());
  }

  /** One of two, chosen anew for each round of reads. */
  private final class Switch implements ExtendedHandle {
    private final ExtendedHandle small;
    private final ExtendedHandle large;
    private ExtendedHandle current;
    private boolean isRoundOnHeap;

    Switch(ExtendedHandle small, ExtendedHandle large) {
      this.small = small;
      this.large = large;
      this.current = small;
    }

    @Override
    public void reset(ChannelConfig config) {
      boolean isLargeRound = isLarge;
      current = isLargeRound ? large : small;
      isRoundOnHeap = isLargeRound && isOnHeap;
      current.reset(config);
    }

    @Override
    public ByteBuf allocate(ByteBufAllocator allocator) {
      return isRoundOnHeap ? allocator.heapBuffer(current.guess()) : current.allocate(allocator);
    }

    @Override
    public int guess() {
      return current.guess();
    }

    @Override
    public void incMessagesRead(int count) {
      current.incMessagesRead(count);
    }

    @Override
    public void lastBytesRead(int bytes) {
      current.lastBytesRead(bytes);
    }

    @Override
    public int lastBytesRead() {
      return current.lastBytesRead();
    }

    @Override
    public void attemptedBytesRead(int bytes) {
      current.attemptedBytesRead(bytes);
    }

    @Override
    public int attemptedBytesRead() {
      return current.attemptedBytesRead();
    }

    @Override
    public boolean continueReading() {
      return current.continueReading();
    }

    @Override
    public boolean continueReading(UncheckedBooleanSupplier maybeMoreDataSupplier) {
      return current.continueReading(maybeMoreDataSupplier);
    }

    @Override
    public void readComplete() {
      current.readComplete();
    }
  }
}
