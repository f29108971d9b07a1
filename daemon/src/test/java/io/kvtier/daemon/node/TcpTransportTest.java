package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.node.TcpTransport;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
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
    bytes.putInt(0, 0x334e_564b).putInt(4, 1).putInt(32, 1 << 30);
    Side heard = strange(bytes);
    assertTrue(heard.frames.isEmpty());
    assertTrue(heard.closed.contains(reasonOfALongBody()), heard.closed);
  }

  /** Answers each frame, and notes how many answers have waited at most. */
  private static final class Answering implements NodeLink.Listener {
    private final int answers;
    private final int bodyBytes;
    int frames;
    int mostQueued;
    String closed = "";

    /** With one answer of a kibibyte to each frame. */
    Answering() {
      this(1, 1024);
    }

    Answering(int answers, int bodyBytes) {
      this.answers = answers;
      this.bodyBytes = bodyBytes;
    }

    @Override
    public void onOpen(NodeLink opened) {}

    @Override
    public @Nullable MemorySegment onFrame(NodeLink from, Frame frame) {
      frames++;
      for (int i = 0; i < answers; i++) {
        Frame answer = Frame.of(FrameType.PONG, Status.OK, 1, 2, frame.id());
        from.send(answer.with(ByteBuffer.allocate(bodyBytes)));
      }
      mostQueued = Math.max(mostQueued, from.queued());
      return null;
    }

    @Override
    public void onPayload(NodeLink from, int checksum, boolean isKept) {}

    @Override
    public void onClosed(NodeLink from, String why) {
      closed = why;
    }
  }

  @ParameterizedTest
  @CsvSource({"50000, 1, 1024, 64", "10000, 63, 0, 600"})
  void nodeThatDoesNotReadItsAnswers_isNotListenedTo_untilItReads(
      int count, int answers, int bodyBytes, int mostQueued) throws IOException {
    Answering answering = new Answering(answers, bodyBytes);
    ByteBuffer pings = ByteBuffer.allocate(64 * count).order(ByteOrder.LITTLE_ENDIAN);
    for (int i = 0; i < count; i++) {
      pings.putInt(64 * i, 0x334e_564b).putInt(64 * i + 4, 10);
    }
    try (TcpTransport to = new TcpTransport(null);
        ServerSocketChannel own = ServerSocketChannel.open()) {
      own.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      try (SocketChannel client = SocketChannel.open(own.getLocalAddress())) {
        var _ = to.adopt(own.accept(), answering);
        client.configureBlocking(false);
        int before = -1;
        while (before != answering.frames || before == 0) {
          before = answering.frames;
          for (int i = 0; i < 100; i++) {
            var _ = client.write(pings) + to.poll(1_000_000);
          }
        }
        assertTrue(answering.frames < count, "the buffers of the kernel take all answers");
        ByteBuffer read = ByteBuffer.allocate(1 << 20);
        long left = (long) count * answers * (64 + bodyBytes);
        while (left > 0 && answering.closed.isEmpty()) {
          var _ = client.write(pings) + to.poll(0);
          left -= client.read(read.clear());
        }
        assertEquals("", answering.closed);
        assertEquals(count, answering.frames);
        assertTrue(
            answering.mostQueued <= mostQueued, answering.mostQueued + " answers have waited");
      }
    }
  }

  /** How many bytes of a block leave a link whose other side reads nothing. */
  private static long bytesOnTheWay(int sendBufferBytes) throws IOException {
    try (TcpTransport from = new TcpTransport(null, "", sendBufferBytes, null);
        ServerSocketChannel own = ServerSocketChannel.open();
        Arena arena = Arena.ofConfined()) {
      own.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      try (SocketChannel silent = SocketChannel.open(own.getLocalAddress())) {
        MemorySegment block = arena.allocate(64 << 20);
        NodeLink link = from.adopt(own.accept(), new Answering());
        int length = (int) block.byteSize();
        Frame frame = Frame.of(FrameType.BLOCK, Status.OK, 1, 2, 3).with(length, 0, 0);
        link.send(frame, block, () -> {});
        long before = -1;
        while (before != link.bytesSent() || before == 0) {
          before = link.bytesSent();
          for (int i = 0; i < 20; i++) {
            var _ = from.poll(1_000_000);
          }
        }
        assertTrue(silent.isOpen());
        return link.bytesSent();
      }
    }
  }

  @Test
  void sendBuffer_boundsTheBytesOnTheWay() throws IOException {
    long few = bytesOnTheWay(16 << 10);
    long usual = bytesOnTheWay(128 << 10);
    long asTheKernelLikes = bytesOnTheWay(0);
    assertTrue(few < usual && usual < asTheKernelLikes, few + ", " + usual + ", unbounded");
  }

  /** The index may have to be told that the node is gone, before the thread sleeps. */
  @Test
  void poll_inWhichALinkBreaksWhileItWrites_doesNotWait() throws IOException {
    Answering answering = new Answering();
    try (TcpTransport from = new TcpTransport(null);
        ServerSocketChannel own = ServerSocketChannel.open()) {
      own.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      SocketChannel other = SocketChannel.open(own.getLocalAddress());
      NodeLink link = from.adopt(own.accept(), answering);
      for (int i = 0; i < 20; i++) {
        var _ = from.poll(0);
      }
      // A connection that ends so is reset at once.
      other.setOption(StandardSocketOptions.SO_LINGER, 0);
      other.close();
      link.send(Frame.of(FrameType.PONG, Status.OK, 1, 2, 3));
      long waitNs = 5_000_000_000L;
      long beganNs = System.nanoTime();
      var _ = from.poll(waitNs);
      long tookNs = System.nanoTime() - beganNs;
      assertFalse(answering.closed.isEmpty());
      assertTrue(tookNs < waitNs / 2, "the wait was " + tookNs + " ns");
    }
  }

  /** Needs a while for each frame. */
  private static final class Slow implements NodeLink.Listener {
    int frames;

    @Override
    public void onOpen(NodeLink opened) {}

    @Override
    public @Nullable MemorySegment onFrame(NodeLink from, Frame frame) {
      frames++;
      long endNs = System.nanoTime() + 2_000_000;
      while (System.nanoTime() < endNs) {
        Thread.onSpinWait();
      }
      return null;
    }

    @Override
    public void onPayload(NodeLink from, int checksum, boolean isKept) {}

    @Override
    public void onClosed(NodeLink from, String why) {}
  }

  /** Connections to a transport, which is polled by the test alone. */
  private static final class Crowd implements AutoCloseable {
    final TcpTransport to = new TcpTransport(null);
    private final ServerSocketChannel listening = ServerSocketChannel.open();
    private final List<SocketChannel> clients = new ArrayList<>();

    Crowd() throws IOException {
      listening.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
    }

    /** A connection on which some frames wait. */
    SocketChannel add(NodeLink.Listener listener, int frames) throws IOException {
      SocketChannel client = SocketChannel.open(listening.getLocalAddress());
      clients.add(client);
      SocketChannel accepted = listening.accept();
      say(client, frames);
      var _ = to.adopt(accepted, listener);
      return client;
    }

    static void say(SocketChannel client, int frames) throws IOException {
      ByteBuffer pings = ByteBuffer.allocate(64 * frames).order(ByteOrder.LITTLE_ENDIAN);
      for (int i = 0; i < frames; i++) {
        pings.putInt(64 * i, 0x334e_564b).putInt(64 * i + 4, 10);
      }
      while (pings.hasRemaining()) {
        var _ = client.write(pings);
      }
    }

    @Override
    public void close() throws IOException {
      for (SocketChannel client : clients) {
        client.close();
      }
      listening.close();
      to.close();
    }
  }

  @Test
  void linksThatSayMuch_doNotDelayTheOthers() throws IOException {
    Slow much = new Slow();
    int[] before = new int[1];
    Side little =
        new Side() {
          @Override
          public void onOpen(NodeLink opened) {
            super.onOpen(opened);
            before[0] = much.frames;
          }
        };
    try (Crowd crowd = new Crowd()) {
      for (int i = 0; i < 4; i++) {
        var _ = crowd.add(much, 200);
      }
      var _ = crowd.add(little, 1);
      while (little.frames.isEmpty()) {
        var _ = crowd.to.poll(0);
      }
      // On a busy machine, links open one after the other, and the first turn of the little link
      // can be over before its frame.
      int first = much.frames - before[0];
      assertTrue(first <= 2 * 4, first + " frames came first");
    }
  }

  @Test
  void linkThatUsesLittleTime_comesBeforeNewLinks() throws IOException {
    Slow much = new Slow();
    Side little = new Side();
    Slow others = new Slow();
    try (Crowd crowd = new Crowd()) {
      SocketChannel known = crowd.add(little, 1);
      var _ = crowd.add(much, 4);
      while (little.frames.isEmpty() || much.frames < 4) {
        var _ = crowd.to.poll(0);
      }
      for (int i = 0; i < 10; i++) {
        var _ = crowd.add(others, 1);
      }
      Crowd.say(known, 1);
      while (little.frames.size() < 2) {
        var _ = crowd.to.poll(0);
      }
      assertTrue(others.frames <= 2, others.frames + " new links came first");
    }
  }

  String reasonOfALongBody() {
    return "expected 0 to";
  }
}
