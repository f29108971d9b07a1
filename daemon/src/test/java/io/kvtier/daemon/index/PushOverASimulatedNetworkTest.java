package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.daemon.node.SimulatedNetwork;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Pushes over a network whose clock the test moves. */
class PushOverASimulatedNetworkTest extends PushContract {
  private long aheadNs;

  @Override
  Sides open(SimulatedNetwork.Acceptor acceptor) {
    return simulated(() -> System.nanoTime() + aheadNs, acceptor);
  }

  @Test
  void slotForWhichNoBytesCome_isFreedAfterItsTime() {
    reserveOne();
    aheadNs = TimeUnit.SECONDS.toNanos(61);
    awaitTheEnd();
    assertEquals("closed by the other side", reasonOfTheEnd());
  }
}
