package io.kvtier.daemon.index;

import io.kvtier.daemon.node.Loopback;
import io.kvtier.daemon.node.SimulatedNetwork;
import io.kvtier.daemon.node.UcxLibrary;
import java.io.IOException;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;

/** Blocks go by UCX, and their frames over TCP on loopback. */
final class PushOverUcxTest extends PushContract {
  private @Nullable Loopback loopback;

  @Override
  Sides open(SimulatedNetwork.Acceptor acceptor) throws IOException {
    Loopback made = new Loopback(null, acceptor, UcxLibrary.fabric(), UcxLibrary.fabric());
    loopback = made;
    return new Sides(made.from(), made.to(), made.address());
  }

  @Override
  boolean isSettled() {
    return sender.open().usesFabric();
  }

  @AfterEach
  void stopListening() throws IOException {
    if (loopback != null) {
      loopback.close();
    }
  }
}
