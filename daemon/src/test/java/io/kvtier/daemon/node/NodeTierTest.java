package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeHints;
import io.kvtier.tiers.node.NodePeer;
import io.kvtier.tiers.node.NodeReader;
import io.kvtier.tiers.node.NodeTier;
import io.kvtier.tiers.transfer.TroubleLog;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class NodeTierTest {
  private long nowNs = 1_000_000_000L;
  private final SimulatedNetwork network =
      new SimulatedNetwork(
          () -> nowNs, new SplittableRandom(1), new SimulatedNetwork.Faults(1_000_000, 0, 0, 1, 0));
  private final SimulatedNetwork.Transport here = network.transport(new NodeAddress("here", 7076));
  private final NodeTier tier =
      new NodeTier(
          List.of(here),
          new NodeReader.Options("here", 1, () -> "", text -> text, 1, 1),
          new NodeHints(() -> nowNs, Runnable::run),
          () -> 1,
          () -> {},
          TroubleLog.NONE);

  private static NodeAddress node(int number) {
    return new NodeAddress("node-" + number, 7076);
  }

  private void work() {
    for (int i = 0; i < 10; i++) {
      nowNs += 2_000_000;
      int ignored = tier.readers().getFirst().doWork() + here.poll(0);
    }
  }

  private long count(NodePeer.State state) {
    return tier.peers().stream().filter(peer -> peer.state() == state).count();
  }

  @Test
  void moreNodesThanCanBeAsked_waitUntilOthersLeave() {
    for (int i = 0; i < NodeTier.PEERS_MAX + 2; i++) {
      tier.join(node(i));
    }
    work();
    assertEquals(NodeTier.PEERS_MAX, count(NodePeer.State.UNREACHABLE));
    assertEquals(2, count(NodePeer.State.SPARE));
    tier.leave(node(3));
    work();
    assertEquals(NodeTier.PEERS_MAX, count(NodePeer.State.UNREACHABLE));
    assertEquals(1, count(NodePeer.State.SPARE));
    // A node that waits leaves without a trace.
    tier.leave(node(NodeTier.PEERS_MAX + 1));
    work();
    assertEquals(NodeTier.PEERS_MAX, tier.peers().size());
    assertEquals(0, count(NodePeer.State.SPARE));
  }

  @Test
  void nodeThatLeaves_isConnectedToNoMore_andAgainWhenItComesBack() {
    tier.join(node(1));
    tier.join(node(1));
    assertEquals(1, tier.peers().size());
    work();
    assertEquals(1, count(NodePeer.State.UNREACHABLE));
    tier.leave(node(1));
    tier.leave(node(1));
    work();
    assertEquals(List.of(), tier.peers());
    tier.join(node(1));
    assertEquals(1, count(NodePeer.State.CONNECTING));
    work();
    assertEquals(1, count(NodePeer.State.UNREACHABLE));
  }
}
