package io.kvtier.daemon.access;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.netty.buffer.ByteBuf;
import io.netty.channel.RecvByteBufAllocator;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.handler.ssl.SslHandler;
import java.security.NoSuchAlgorithmException;
import javax.net.ssl.SSLContext;
import org.junit.jupiter.api.Test;

class ReadSizesTest {
  @Test
  void allocate_connectionNotYetKnown_isSmallAndDirect() {
    assertRead(new EmbeddedChannel(), false, true, 4 << 10);
  }

  @Test
  void allocate_connectionCarriesBlocks_isDirect() {
    assertRead(new EmbeddedChannel(), true, true, 64 << 10);
  }

  @Test
  void allocate_encryptedConnectionCarriesBlocks_isLargeAndOnTheHeap()
      throws NoSuchAlgorithmException {
    SslHandler tls = new SslHandler(SSLContext.getDefault().createSSLEngine());
    assertRead(new EmbeddedChannel(tls), true, false, 64 << 10);
  }

  /** Asserts where a read of a busy connection goes, and how long the longest one is. */
  private static void assertRead(
      EmbeddedChannel connection, boolean carriesBlocks, boolean isDirect, int longestBytes) {
    ReadSizes sizes = new ReadSizes();
    connection.config().setRecvByteBufAllocator(sizes);
    if (carriesBlocks) {
      ReadSizes.enlarge(connection);
    }
    RecvByteBufAllocator.ExtendedHandle reads = sizes.newHandle();
    int longest = 0;
    for (int round = 0; round < 20; round++) {
      reads.reset(connection.config());
      ByteBuf buffer = reads.allocate(connection.alloc());
      assertEquals(isDirect, buffer.isDirect());
      longest = Math.max(longest, buffer.writableBytes());
      reads.attemptedBytesRead(buffer.writableBytes());
      reads.lastBytesRead(buffer.writableBytes());
      reads.readComplete();
      buffer.release();
    }
    assertEquals(longestBytes, longest);
    connection.finishAndReleaseAll();
  }
}
