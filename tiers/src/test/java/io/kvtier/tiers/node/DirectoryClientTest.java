package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.ObjectNames;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** When the directory begins, and when it is asked instead of all nodes. */
final class DirectoryClientTest {
  private static final long SELF = 77;

  private final ScriptedTransport transport = new ScriptedTransport();
  private final NodeHints hints = new NodeHints(() -> transport.nowNs, Runnable::run);
  private final NodeDirectory directory = new NodeDirectory(SELF, true, 1 << 20);
  private final ChangeFeed feed = new ChangeFeed(() -> {});
  private final NodeTier tier =
      new NodeTier(
          List.of(transport),
          new NodeReader.Options(
              "reader", SELF, () -> "", text -> text, 1_000_000_000L, 1_000_000_000L),
          hints,
          () -> 1,
          () -> {},
          TroubleLog.NONE);
  private final NodeReader reader = tier.readers().getFirst();

  @AfterEach
  void close() {
    directory.close();
  }

  private void work() {
    transport.nowNs += 20_000_000;
    var _ = reader.doWork();
  }

  private void connect(int from, int to) throws FrameException {
    for (int i = from; i < to; i++) {
      tier.join(new NodeAddress("node-" + i, 1));
    }
    work();
    for (ScriptedTransport.Link link : transport.links.subList(from, to)) {
      link.welcome();
    }
    work();
  }

  /** How many nodes get a frame of a type. */
  private long reached(FrameType type) {
    return transport.links.stream().filter(link -> link.isSent(type)).count();
  }

  private void probe() {
    Transfer block = new Transfer(0);
    block.namespaceHigh = 1;
    block.namespaceLow = 2;
    block.keyBytes = 8;
    String name = ObjectNames.ofBlock(1, 2, block.key, block.keyBytes, block.group);
    assertTrue(hints.probe(ObjectKey.of(block), name, null));
    hints.endRound();
    work();
  }

  @Test
  void asManyNodesAsCanBeAsked_areAllAsked_withoutADirectory() throws FrameException {
    tier.use(directory, feed, false);
    connect(0, NodeTier.PEERS_MAX);
    probe();
    assertEquals(NodeTier.PEERS_MAX, reached(FrameType.ASK));
    assertEquals(0, reached(FrameType.ANNOUNCE));
    assertFalse(directory.isOpen());
    assertFalse(feed.isOpen());
  }

  @Test
  void oneNodeMore_beginsTheDirectory_withTheNodesThatWereThere() throws FrameException {
    tier.use(directory, feed, false);
    connect(0, NodeTier.PEERS_MAX);
    connect(NodeTier.PEERS_MAX, NodeTier.PEERS_MAX + 1);
    assertTrue(directory.isOpen());
    assertTrue(feed.isOpen());
    assertEquals(1, feed.walksWanted());
    assertEquals(NodeTier.PEERS_MAX + 2, directory.nodes());
    assertEquals(NodeTier.PEERS_MAX + 1, reached(FrameType.ANNOUNCE));
    probe();
    assertEquals(0, reached(FrameType.ASK));
  }

  @Test
  void nodeThatLeaves_givesItsPartitionsBack_andAllAreAskedAgain() throws FrameException {
    tier.use(directory, feed, false);
    connect(0, NodeTier.PEERS_MAX + 1);
    tier.leave(new NodeAddress("node-0", 1));
    work();
    assertEquals(NodeTier.PEERS_MAX + 1, directory.nodes());
    probe();
    assertEquals(NodeTier.PEERS_MAX, reached(FrameType.ASK));
  }

  @Test
  void announcementOfAnotherNode_beginsTheDirectoryHere() throws FrameException {
    tier.use(directory, feed, false);
    connect(0, 2);
    assertEquals(0, reached(FrameType.ANNOUNCE));
    assertTrue(directory.note(1000, "a link", 0, new long[0]));
    work();
    assertEquals(2, reached(FrameType.ANNOUNCE));
    probe();
    assertEquals(2, reached(FrameType.ASK));
  }

  @Test
  void directoryThatIsOn_isAskedWithFewNodes() throws FrameException {
    tier.use(directory, feed, true);
    connect(0, 2);
    assertEquals(3, directory.nodes());
    assertEquals(2, reached(FrameType.ANNOUNCE));
    probe();
    assertEquals(0, reached(FrameType.ASK));
  }
}
