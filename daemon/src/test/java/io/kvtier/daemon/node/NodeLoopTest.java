package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.node.NodeHints;
import io.kvtier.tiers.node.NodeReader;
import io.kvtier.tiers.node.NodeTier;
import io.kvtier.tiers.node.TcpTransport;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

class NodeLoopTest {
  private static final long SECOND_NS = TimeUnit.SECONDS.toNanos(1);

  private final Semaphore rings = new Semaphore(0);
  private final RoundBell bell = new RoundBell(rings::release, System::nanoTime);

  @Test
  void fetchThatEnds_wakesTheIndex() throws IOException, InterruptedException {
    AtomicReference<Throwable> defect = new AtomicReference<>();
    NodeReader.Options options =
        new NodeReader.Options("reader", 77, () -> "", text -> text, SECOND_NS, SECOND_NS);
    TcpTransport transport = new TcpTransport(null);
    NodeTier tier =
        new NodeTier(List.of(transport), options, new NodeHints(), () -> 1, bell, TroubleLog.NONE);
    try (NodeLoop loop = new NodeLoop(0, transport, tier.readers().getFirst(), bell, defect::set)) {
      loop.start(null, null);
      Transfer nowhere = new Transfer(0);
      nowhere.keyBytes = 8;
      assertTrue(tier.pipeline().offer(nowhere));
      assertTrue(rings.tryAcquire(10, TimeUnit.SECONDS), () -> "no ring; defect " + defect.get());
    }
  }
}
