package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.daemon.node.SimulatedNetwork;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.node.FrameType;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Pushes over a network whose clock the test moves. */
class PushOverASimulatedNetworkTest extends PushContract {
  private static final int BLOCK = IndexHarness.SLOT_BYTES;

  private long aheadNs;

  private final SimulatedNetwork network =
      SimulatedNetwork.withoutFaults(() -> System.nanoTime() + aheadNs);

  @Override
  Sides open(SimulatedNetwork.Acceptor acceptor) {
    return simulated(network, acceptor);
  }

  @Test
  void nodeThatReads_isTrustedAfterItsToken_andNotIfItIsRefused() {
    greet();
    assertEquals(2, network.trusted, "both sides");
    role = Role.NONE;
    hello();
    assertEquals(FrameType.REFUSED, answer(1).type());
    assertEquals(2, network.trusted);
  }

  @Test
  void leasesReleasedBeforeTheirBlocksAreKnownToBeSent_endOnlyThen()
      throws IOException, ProtocolViolation {
    greet();
    LayerWriter engine = write(77, 78);
    network.holdsSent = true;
    fetch(3, BLOCK, 77, 78);
    long good = takeBlock(3, 77);
    long damaged = takeBlock(4, 78);
    damage(engine, 78);
    release(Status.OK, good, good);
    release(Status.CORRUPT, damaged);
    settle(5);
    assertEquals(2, count(Counter.GAUGE_LEASES), "the slots may still be read");
    network.holdsSent = false;
    awaitLeases(0);
    fetch(6, BLOCK, 77, 78);
    none(7, Status.MISS);
    release(Status.OK, takeBlock(6, 77));
    awaitLeases(0);
    assertEquals("", sender.closed);
  }

  @Test
  void leaseThatIsKeptForTooLong_endsWithItsConnection_andNotWhileTheSlotMayBeRead()
      throws IOException, ProtocolViolation {
    greet();
    write(77);
    fetch(3, BLOCK, 77);
    var _ = takeBlock(3, 77);
    index.nowNs += TimeUnit.HOURS.toNanos(1);
    aheadNs = TimeUnit.SECONDS.toNanos(25);
    settle(5);
    assertEquals(1, count(Counter.GAUGE_LEASES));
    aheadNs = TimeUnit.SECONDS.toNanos(31);
    await(() -> !sender.closed.isEmpty());
    assertEquals("closed by the other side", sender.closed);
    awaitLeases(0);
  }

  @Test
  void expectedBlockThatIsKeptForTooLong_endsWithItsConnection()
      throws IOException, ProtocolViolation {
    greet();
    write(77);
    follow(3, BLOCK);
    piece(3, 1, 0, 1);
    whole(3);
    aheadNs = TimeUnit.SECONDS.toNanos(25);
    settle(4);
    assertEquals(1, count(Counter.GAUGE_LEASES));
    aheadNs = TimeUnit.SECONDS.toNanos(31);
    await(() -> !sender.closed.isEmpty());
    awaitLeases(0);
  }

  @Test
  void slotForWhichNoBytesCome_isFreedAfterItsTime() {
    reserveOne();
    aheadNs = TimeUnit.SECONDS.toNanos(61);
    awaitTheEnd();
    assertEquals("closed by the other side", reasonOfTheEnd());
  }
}
