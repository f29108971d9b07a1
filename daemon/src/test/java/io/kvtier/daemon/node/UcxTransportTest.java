package io.kvtier.daemon.node;

import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.node.ucx.UcxFabric;
import java.io.IOException;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;

/** Links whose blocks go by UCX, over TCP on loopback. */
class UcxTransportTest extends NodeTransportContract {
  private @Nullable Loopback loopback;

  /** The certificates of both sides; null for plaintext. */
  @Nullable Supplier<SSLContext> tls() throws IOException {
    return null;
  }

  @Nullable UcxFabric ofConnecting() throws IOException {
    return UcxLibrary.fabric();
  }

  @Nullable UcxFabric ofAccepting() throws IOException {
    return UcxLibrary.fabric();
  }

  @Override
  Pair open(NodeLink.Listener acceptor) throws IOException {
    Loopback made =
        new Loopback(
            tls(),
            make -> {
              var _ = make.apply(acceptor);
              return true;
            },
            ofConnecting(),
            ofAccepting());
    loopback = made;
    return new Pair(made.from(), made.to(), made.address());
  }

  @Override
  boolean isSettled(@Nullable NodeLink here, @Nullable NodeLink there) {
    return here != null && there != null && here.usesFabric() && there.usesFabric();
  }

  @AfterEach
  void stopListening() throws IOException {
    if (loopback != null) {
      loopback.close();
    }
  }
}
