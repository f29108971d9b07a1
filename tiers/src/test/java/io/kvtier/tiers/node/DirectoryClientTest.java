package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.directory.HolderTable;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The begin of the directory, its use instead of questions to all nodes, and announcements. */
final class DirectoryClientTest {
  private static final int NODES = 40;
  private static final int FOUND = 300_000;

  private final DirectoryReader reader = new DirectoryReader();

  @AfterEach
  void close() {
    reader.close();
  }

  /** How many nodes get a frame of a type. */
  private long reached(FrameType type) {
    return reader.transport.links.stream().filter(link -> link.isSent(type)).count();
  }

  private void probe() {
    reader.probe(0);
    reader.hints.endRound();
    reader.work();
  }

  @Test
  void asManyNodesAsCanBeAsked_areAllAsked_withoutADirectory() throws FrameException {
    reader.use(false);
    reader.connect(0, NodeTier.PEERS_MAX);
    probe();
    assertEquals(NodeTier.PEERS_MAX, reached(FrameType.ASK));
    assertEquals(0, reached(FrameType.ANNOUNCE));
    assertFalse(reader.directory.isOpen());
    assertFalse(reader.feed.isOpen());
  }

  @Test
  void oneNodeMore_beginsTheDirectory_withTheNodesThatWereThere() throws FrameException {
    reader.use(false);
    reader.connect(0, NodeTier.PEERS_MAX);
    reader.connect(NodeTier.PEERS_MAX, NodeTier.PEERS_MAX + 1);
    assertTrue(reader.directory.isOpen());
    assertTrue(reader.feed.isOpen());
    assertEquals(1, reader.feed.walksWanted());
    assertEquals(NodeTier.PEERS_MAX + 2, reader.directory.nodes());
    assertEquals(NodeTier.PEERS_MAX + 1, reached(FrameType.ANNOUNCE));
    probe();
    assertEquals(0, reached(FrameType.ASK));
  }

  @Test
  void nodeThatLeaves_givesItsPartitionsBack_andAllAreAskedAgain() throws FrameException {
    reader.use(false);
    reader.connect(0, NodeTier.PEERS_MAX + 1);
    reader.tier.leave(new NodeAddress("node-0", 1));
    reader.work();
    assertEquals(NodeTier.PEERS_MAX + 1, reader.directory.nodes());
    probe();
    assertEquals(NodeTier.PEERS_MAX, reached(FrameType.ASK));
  }

  @Test
  void announcementOfAnotherNode_beginsTheDirectoryHere() throws FrameException {
    reader.use(false);
    reader.connect(0, 2);
    assertEquals(0, reached(FrameType.ANNOUNCE));
    assertTrue(reader.directory.note(1000, "a link", 0, new long[0]));
    reader.work();
    assertEquals(2, reached(FrameType.ANNOUNCE));
    probe();
    assertEquals(2, reached(FrameType.ASK));
  }

  @Test
  void directoryThatIsOn_isAskedWithFewNodes() throws FrameException {
    reader.use(true);
    reader.connect(0, 2);
    assertEquals(3, reader.directory.nodes());
    assertEquals(2, reached(FrameType.ANNOUNCE));
    probe();
    assertEquals(0, reached(FrameType.ASK));
  }

  // ---- announcements

  private void connectMany() throws FrameException {
    reader.use(false);
    reader.connect(0, NODES);
  }

  /** Takes the announcements to all nodes, and answers with a status. */
  private List<Long> announced(Status status) throws FrameException {
    List<Long> all = new ArrayList<>();
    for (ScriptedTransport.Link link : reader.transport.links) {
      while (link.isSent(FrameType.ANNOUNCE)) {
        Frame frame = link.take(FrameType.ANNOUNCE);
        DirectoryMessages.Announcement news = DirectoryMessages.Announcement.of(frame.body());
        for (long entry : news.entries()) {
          assertEquals(link.incarnation(), reader.directory.owner(entry));
          all.add(entry & HolderTable.HASH_BITS);
        }
        Frame noted = link.frame(FrameType.NOTED, status, frame.id());
        var _ = link.listener.onFrame(link, noted);
      }
    }
    return all;
  }

  @Test
  void block_thatComes_isToldToTheOwnerOfItsPartition() throws FrameException {
    connectMany();
    assertEquals(List.of(), announced(Status.OK));
    int key = reader.keyOfOthers();
    assertTrue(reader.feed.tell(DirectoryReader.hash(key), ChangeFeed.CAME));
    reader.work();
    reader.work();
    assertEquals(List.of(DirectoryReader.hash(key)), announced(Status.OK));
    reader.work();
    assertEquals(List.of(), announced(Status.OK));
  }

  @Test
  void owner_thatMissesAnnouncements_isToldAllBlocksAnew() throws FrameException {
    connectMany();
    var _ = announced(Status.OK);
    // The walk that began with the connections.
    assertTrue(reader.feed.walksWanted() > 0);
    reader.endWalks();
    int key = reader.keyOfOthers();
    assertTrue(reader.feed.tell(DirectoryReader.hash(key), ChangeFeed.CAME));
    reader.work();
    reader.work();
    int walks = reader.feed.walksWanted();
    assertEquals(List.of(DirectoryReader.hash(key)), announced(Status.STALE));
    reader.work();
    assertEquals(walks + 1, reader.feed.walksWanted());
    assertTrue(reader.feed.tell(DirectoryReader.hash(key), ChangeFeed.FOUND));
    assertTrue(reader.feed.tell(0, ChangeFeed.WALKED));
    reader.work();
    reader.work();
    assertEquals(List.of(DirectoryReader.hash(key)), announced(Status.OK));
  }

  @Test
  void nodeThatComes_getsItsBlocks_andTheOwnersBeforeLoseThem() throws FrameException {
    connectMany();
    var _ = announced(Status.OK);
    reader.endWalks();
    long[] before = new long[500];
    for (int i = 0; i < before.length; i++) {
      before[i] = reader.directory.owner(DirectoryReader.hash(i));
    }
    reader.tier.join(new NodeAddress("one-more", 1));
    reader.work();
    ScriptedTransport.Link more = reader.transport.links.getLast();
    more.welcome();
    reader.work();
    for (int i = 0; i < before.length; i++) {
      assertTrue(reader.feed.tell(DirectoryReader.hash(i), ChangeFeed.FOUND));
    }
    assertTrue(reader.feed.tell(0, ChangeFeed.WALKED));
    reader.work();
    reader.work();
    int moved = 0;
    for (ScriptedTransport.Link link : reader.transport.links) {
      while (link.isSent(FrameType.ANNOUNCE)) {
        Frame frame = link.take(FrameType.ANNOUNCE);
        for (long entry : DirectoryMessages.Announcement.of(frame.body()).entries()) {
          boolean isMore = link == more;
          int kind = ChangeFeed.kindOf(entry);
          assertEquals(isMore ? ChangeFeed.FOUND : ChangeFeed.LEFT, kind);
          assertEquals(more.incarnation(), reader.directory.owner(entry));
          moved += isMore ? 1 : 0;
        }
      }
    }
    int expected = 0;
    for (int i = 0; i < before.length; i++) {
      expected += reader.directory.owner(DirectoryReader.hash(i)) != before[i] ? 1 : 0;
    }
    assertEquals(expected, moved);
    assertTrue(moved > 0);
  }

  @Test
  void nodeThatLeaves_itsPartitionsAreAnnouncedToOthers() throws FrameException {
    connectMany();
    var _ = announced(Status.OK);
    reader.endWalks();
    ScriptedTransport.Link gone = reader.transport.links.get(4);
    int key = 0;
    while (reader.directory.owner(DirectoryReader.hash(key)) != gone.incarnation()) {
      key++;
    }
    int walks = reader.feed.walksWanted();
    gone.close("gone");
    reader.work();
    assertEquals(walks + 1, reader.feed.walksWanted());
    for (int other = 0; other < 200; other++) {
      assertTrue(reader.feed.tell(DirectoryReader.hash(other), ChangeFeed.FOUND));
    }
    assertTrue(reader.feed.tell(0, ChangeFeed.WALKED));
    reader.work();
    reader.work();
    boolean isOthers = reader.directory.owner(DirectoryReader.hash(key)) != DirectoryReader.SELF;
    List<Long> told = announced(Status.OK);
    assertEquals(isOthers, told.contains(DirectoryReader.hash(key)));
    assertTrue(told.size() < 30, told.size() + " blocks: only those whose owner has changed");
    assertEquals(NODES, reader.directory.nodes());
  }

  @Test
  void owner_thatFallsBehind_holdsTheWalk_andMissesNothing() throws FrameException {
    reader.use(true);
    reader.connect(0, 1);
    int walks = reader.feed.walksWanted();
    int told = 0;
    for (int round = 0; round < 40; round++) {
      told += tellFound(told);
      reader.work();
    }
    assertFalse(reader.feed.hasRoomForWalk());

    Set<Long> announced = new HashSet<>();
    for (int round = 0; round < 200; round++) {
      announced.addAll(announced(Status.OK));
      told += tellFound(told);
      reader.work();
    }
    assertEquals(FOUND, told);
    Set<Long> expected = new HashSet<>();
    for (int key = 0; key < FOUND; key++) {
      long hash = DirectoryReader.hash(key);
      if (reader.directory.owner(hash) != DirectoryReader.SELF) {
        expected.add(hash);
      }
    }
    assertEquals(expected, announced);
    // One more walk because the node has come. A list that begins anew would want another.
    reader.endWalks();
    assertEquals(walks + 1, reader.feed.walksWanted());
  }

  /** A walk finds the next blocks, as many as the feed takes; returns how many. */
  private int tellFound(int from) {
    int next = from;
    while (next < FOUND
        && reader.feed.hasRoomForWalk()
        && reader.feed.tell(DirectoryReader.hash(next), ChangeFeed.FOUND)) {
      next++;
    }
    return next - from;
  }
}
