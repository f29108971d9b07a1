package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.TestCertificates;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.TcpTransport;
import java.io.IOException;
import java.nio.file.Path;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Links with mutual TLS keep the contract, and nodes without a valid certificate get no link. */
class TlsTransportTest extends TcpTransportTest {
  @TempDir static Path folder;

  private static TestCertificates ours;
  private static TestCertificates others;

  @SuppressWarnings("NullAway.Init") // makeCertificates() comes first
  TlsTransportTest() {}

  @BeforeAll
  static void makeCertificates() throws Exception {
    ours = TestCertificates.withNode(folder.resolve("ours"));
    others = TestCertificates.withNode(folder.resolve("others"));
  }

  @Override
  @Nullable Supplier<SSLContext> tls() throws IOException {
    return ours.ofNode(ours);
  }

  @Override
  String reasonOfALongBody() {
    return ""; // it is no handshake
  }

  /** Connects with another certificate; neither side gets a frame through. */
  private void refused(@Nullable Supplier<SSLContext> with, String host) throws IOException {
    Side acceptor = new Side();
    Pair made = open(acceptor);
    Side stranger = new Side();
    try (TcpTransport from = new TcpTransport(with)) {
      var _ = from.connect(new NodeAddress(host, made.address().port()), stranger);
      await(() -> {
        var _ = from.poll(0) + made.to().poll(0);
        if (stranger.link != null) {
          // A client of TLS 1.3 may speak before the server has looked at its certificate.
          stranger.link.send(Frame.of(FrameType.PING, Status.OK, 1, 2, 3));
        }
        return !stranger.closed.isEmpty() && !acceptor.closed.isEmpty();
      });
      assertTrue(acceptor.frames.isEmpty());
    } finally {
      made.from().close();
      made.to().close();
    }
  }

  @Test
  void certificateOfAnotherAuthority_isRefused() throws IOException {
    refused(others.ofNode(ours), "127.0.0.1");
    refused(ours.ofNode(others), "127.0.0.1");
  }

  @Test
  void plaintext_isRefused() throws IOException {
    refused(null, "127.0.0.1");
  }

  @Test
  void certificateOfAnotherHost_isRefused() throws IOException {
    // The certificates name 127.0.0.1 and localhost.
    refused(ours.ofNode(ours), "127.0.0.2");
  }
}
