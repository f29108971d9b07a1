package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.node.TcpTransport;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Links over TCP on loopback, in plaintext. */
class TcpTransportTest extends NodeTransportContract {
  private @Nullable Loopback loopback;

  /** The certificates of both sides; null for plaintext. */
  @Nullable Supplier<SSLContext> tls() throws IOException {
    return null;
  }

  @Override
  Pair open(NodeLink.Listener acceptor) throws IOException {
    Loopback made =
        new Loopback(
            tls(),
            make -> {
              var _ = make.apply(acceptor);
              return true;
            });
    loopback = made;
    return new Pair(made.from(), made.to(), made.address());
  }

  @AfterEach
  void stopListening() throws IOException {
    if (loopback != null) {
      loopback.close();
    }
  }

  private Side strange(ByteBuffer bytes) throws IOException {
    Side heard = new Side();
    assertTrue(loopback != null);
    TcpTransport to = loopback.to();
    try (ServerSocketChannel own = ServerSocketChannel.open()) {
      own.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      SocketChannel client = SocketChannel.open(own.getLocalAddress());
      SocketChannel accepted = own.accept();
      to.later(() -> {
        var _ = to.adopt(accepted, heard);
      });
      while (bytes.hasRemaining()) {
        var _ = client.write(bytes);
      }
      await(() -> !heard.closed.isEmpty());
      client.close();
    }
    return heard;
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n and more than a head of a frame has", "\0"})
  void bytesThatAreNoFrame_closeTheLink(String text) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(4096);
    bytes.put(text.getBytes(StandardCharsets.US_ASCII)).position(4096).flip();
    Side heard = strange(bytes);
    assertTrue(heard.frames.isEmpty());
  }

  @Test
  void bodyOfAnImpossibleLength_closesTheLink() throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(64).order(ByteOrder.LITTLE_ENDIAN);
    bytes.putInt(0, 0x314e_564b).putInt(4, 1).putInt(32, 1 << 30);
    Side heard = strange(bytes);
    assertTrue(heard.frames.isEmpty());
    assertTrue(heard.closed.contains(reasonOfALongBody()), heard.closed);
  }

  String reasonOfALongBody() {
    return "expected 0 to";
  }
}
