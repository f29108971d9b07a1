package io.kvtier.daemon.index;

import io.kvtier.daemon.node.Loopback;
import io.kvtier.daemon.node.SimulatedNetwork;
import java.io.IOException;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;

/** Pushes over TCP on loopback, in plaintext. */
class PushOverTcpTest extends PushContract {
  private @Nullable Loopback loopback;

  /** The certificates of both sides; null for plaintext. */
  @Nullable Supplier<SSLContext> tls() throws IOException {
    return null;
  }

  @Override
  Sides open(SimulatedNetwork.Acceptor acceptor) throws IOException {
    Loopback made = new Loopback(tls(), acceptor);
    loopback = made;
    return new Sides(made.from(), made.to(), made.address());
  }

  @AfterEach
  void stopListening() throws IOException {
    if (loopback != null) {
      loopback.close();
    }
  }
}
