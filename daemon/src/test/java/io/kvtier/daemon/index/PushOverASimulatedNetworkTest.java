package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.daemon.node.SimulatedNetwork;
import io.kvtier.tiers.node.NodeAddress;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Pushes over a network whose clock the test moves. */
class PushOverASimulatedNetworkTest extends PushContract {
  private long aheadNs;

  @Override
  Sides open(SimulatedNetwork.Acceptor acceptor) {
    SimulatedNetwork network =
        new SimulatedNetwork(
            () -> System.nanoTime() + aheadNs,
            new SplittableRandom(7),
            new SimulatedNetwork.Faults(1_000, 0, 0, 3, 0));
    NodeAddress address = new NodeAddress("receiver", 7076);
    SimulatedNetwork.Transport to = network.transport(address);
    to.accept(acceptor);
    return new Sides(network.transport(new NodeAddress("sender", 7076)), to, address);
  }

  @Test
  void slotForWhichNoBytesCome_isFreedAfterItsTime() {
    reserveOne();
    aheadNs = TimeUnit.SECONDS.toNanos(61);
    awaitTheEnd();
    assertEquals("closed by the other side", reasonOfTheEnd());
  }
}
