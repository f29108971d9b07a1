package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.directory.HolderTable;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.ObjectNames;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What a reader asks and tells the directory, on links that the test plays by hand. */
final class LocatorTest {
  private static final long SELF = 77;
  private static final int NODES = 40;
  private static final int BLOCKS = 2048;

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
  private int located;

  @BeforeEach
  void connect() throws FrameException {
    tier.use(directory, feed, false);
    for (int i = 0; i < NODES; i++) {
      tier.join(new NodeAddress("node-" + i, 1));
    }
    work();
    for (ScriptedTransport.Link link : transport.links) {
      link.welcome();
    }
    work();
  }

  @AfterEach
  void close() {
    directory.close();
  }

  // ---- helpers

  private void work() {
    transport.nowNs += 20_000_000;
    var _ = reader.doWork();
  }

  private static Transfer block(int key) {
    Transfer block = new Transfer(0);
    block.namespaceHigh = 1;
    block.namespaceLow = 2;
    block.keyBytes = 8;
    ByteBuffer.wrap(block.key).putLong(key);
    return block;
  }

  private static ObjectKey key(int key) {
    return ObjectKey.of(block(key));
  }

  private void probe(int key) {
    Transfer block = block(key);
    String name =
        ObjectNames.ofBlock(
            block.namespaceHigh, block.namespaceLow, block.key, block.keyBytes, block.group);
    assertTrue(hints.probe(key(key), name, null));
  }

  /** Owners say that a node has the first blocks; the owner of a block answers only for it. */
  private void answerOwners(ScriptedTransport.Link holder, int run) throws FrameException {
    Set<Long> there = new HashSet<>();
    for (int i = 0; i < run; i++) {
      there.add(key(i).high());
    }
    boolean isAsked = true;
    while (isAsked) {
      isAsked = false;
      for (ScriptedTransport.Link link : transport.links) {
        while (link.isSent(FrameType.LOCATE)) {
          isAsked = true;
          located++;
          Frame locate = link.take(FrameType.LOCATE);
          List<long[]> nodes = new ArrayList<>();
          for (long hash : DirectoryMessages.hashes(locate.body())) {
            assertEquals(link.incarnation(), directory.owner(hash));
            nodes.add(there.contains(hash) ? new long[] {holder.incarnation()} : new long[0]);
          }
          Frame answer =
              link.frame(FrameType.LOCATED, Status.OK, locate.id())
                  .with(DirectoryMessages.Located.of(nodes).body());
          var _ = link.listener.onFrame(link, answer);
        }
      }
    }
  }

  // ---- lookups

  @Test
  void sequence_asksAFewOwners_thenTheNodeThatTheyName() throws FrameException {
    ScriptedTransport.Link holder = transport.links.get(7);
    int run = 1500;
    hints.beginSequence();
    for (int i = 0; i < BLOCKS; i++) {
      probe(i);
    }
    hints.endSequence();
    hints.endRound();
    work();
    answerOwners(holder, run);

    assertTrue(located <= 3 * 16, located + " questions to owners");
    byte[] places = new byte[BLOCKS];
    Frame ask = holder.take(FrameType.ASK);
    int asked = Messages.Keys.of(ask.body().duplicate().order(ask.body().order())).count();
    // The blocks of this node's own partitions are not known to it here.
    assertTrue(asked <= run, asked + " blocks");
    Arrays.fill(places, Frame.IN_MEMORY);
    ByteBuffer body = new Messages.Places(0, ByteBuffer.wrap(Arrays.copyOf(places, asked))).body();
    var _ =
        holder.listener.onFrame(
            holder, holder.frame(FrameType.ANSWER, Status.OK, ask.id()).with(body));
    for (ScriptedTransport.Link link : transport.links) {
      assertFalse(link.isSent(FrameType.ASK), "others are not asked");
    }
    assertEquals(Presence.PRESENT, hints.lookup(key(asked - 1)));
    assertEquals(Presence.ABSENT, hints.lookup(key(run + 1)));
  }

  @Test
  void singleBlocks_areAskedForEach() throws FrameException {
    ScriptedTransport.Link holder = transport.links.get(3);
    int there = 0;
    while (directory.owner(key(there).high()) == SELF) {
      there++;
    }
    probe(there);
    probe(5000);
    hints.endRound();
    work();
    answerOwners(holder, there + 1);

    assertTrue(holder.isSent(FrameType.ASK));
    holder.answer(Frame.IN_MEMORY);
    assertEquals(Presence.PRESENT, hints.lookup(key(there)));
    assertEquals(Presence.ABSENT, hints.lookup(key(5000)));
  }

  // ---- announcements

  /** Takes the announcements to all nodes, and answers with a status. */
  private List<Long> announced(Status status) throws FrameException {
    List<Long> all = new ArrayList<>();
    for (ScriptedTransport.Link link : transport.links) {
      while (link.isSent(FrameType.ANNOUNCE)) {
        Frame frame = link.take(FrameType.ANNOUNCE);
        DirectoryMessages.Announcement news = DirectoryMessages.Announcement.of(frame.body());
        for (long entry : news.entries()) {
          assertEquals(link.incarnation(), directory.owner(entry));
          all.add(entry & HolderTable.HASH_BITS);
        }
        Frame noted = link.frame(FrameType.NOTED, status, frame.id());
        var _ = link.listener.onFrame(link, noted);
      }
    }
    return all;
  }

  private static long hash(int key) {
    return key(key).high() & HolderTable.HASH_BITS;
  }

  @Test
  void block_thatComes_isToldToTheOwnerOfItsPartition() throws FrameException {
    assertEquals(List.of(), announced(Status.OK));
    int key = 0;
    while (directory.owner(hash(key)) == SELF) {
      key++;
    }
    assertTrue(feed.tell(hash(key), ChangeFeed.CAME));
    work();
    work();
    assertEquals(List.of(hash(key)), announced(Status.OK));
    work();
    assertEquals(List.of(), announced(Status.OK));
  }

  @Test
  void owner_thatMissesAnnouncements_isToldAllBlocksAnew() throws FrameException {
    var _ = announced(Status.OK);
    // The walk that began with the connections.
    assertTrue(feed.walksWanted() > 0);
    assertTrue(feed.tell(0, ChangeFeed.WALKED));
    work();
    work();
    assertTrue(feed.tell(0, ChangeFeed.WALKED));
    work();
    int key = 0;
    while (directory.owner(hash(key)) == SELF) {
      key++;
    }
    assertTrue(feed.tell(hash(key), ChangeFeed.CAME));
    work();
    work();
    int walks = feed.walksWanted();
    assertEquals(List.of(hash(key)), announced(Status.STALE));
    work();
    assertEquals(walks + 1, feed.walksWanted());
    assertTrue(feed.tell(hash(key), ChangeFeed.FOUND));
    assertTrue(feed.tell(0, ChangeFeed.WALKED));
    work();
    work();
    assertEquals(List.of(hash(key)), announced(Status.OK));
  }

  @Test
  void nodeThatComes_getsItsBlocks_andTheOwnersBeforeLoseThem() throws FrameException {
    var _ = announced(Status.OK);
    assertTrue(feed.tell(0, ChangeFeed.WALKED));
    work();
    work();
    assertTrue(feed.tell(0, ChangeFeed.WALKED));
    work();
    long[] before = new long[500];
    for (int i = 0; i < before.length; i++) {
      before[i] = directory.owner(hash(i));
    }
    tier.join(new NodeAddress("one-more", 1));
    work();
    ScriptedTransport.Link more = transport.links.getLast();
    more.welcome();
    work();
    for (int i = 0; i < before.length; i++) {
      assertTrue(feed.tell(hash(i), ChangeFeed.FOUND));
    }
    assertTrue(feed.tell(0, ChangeFeed.WALKED));
    work();
    work();
    int moved = 0;
    for (ScriptedTransport.Link link : transport.links) {
      while (link.isSent(FrameType.ANNOUNCE)) {
        Frame frame = link.take(FrameType.ANNOUNCE);
        for (long entry : DirectoryMessages.Announcement.of(frame.body()).entries()) {
          boolean isMore = link == more;
          int kind = ChangeFeed.kindOf(entry);
          assertEquals(isMore ? ChangeFeed.FOUND : ChangeFeed.LEFT, kind);
          assertEquals(more.incarnation(), directory.owner(entry));
          moved += isMore ? 1 : 0;
        }
      }
    }
    int expected = 0;
    for (int i = 0; i < before.length; i++) {
      expected += directory.owner(hash(i)) != before[i] ? 1 : 0;
    }
    assertEquals(expected, moved);
    assertTrue(moved > 0);
  }

  @Test
  void nodeThatLeaves_itsPartitionsAreAnnouncedToOthers() throws FrameException {
    var _ = announced(Status.OK);
    assertTrue(feed.tell(0, ChangeFeed.WALKED));
    work();
    work();
    assertTrue(feed.tell(0, ChangeFeed.WALKED));
    work();
    ScriptedTransport.Link gone = transport.links.get(4);
    int key = 0;
    while (directory.owner(hash(key)) != gone.incarnation()) {
      key++;
    }
    int walks = feed.walksWanted();
    gone.close("gone");
    work();
    assertEquals(walks + 1, feed.walksWanted());
    for (int other = 0; other < 200; other++) {
      assertTrue(feed.tell(hash(other), ChangeFeed.FOUND));
    }
    assertTrue(feed.tell(0, ChangeFeed.WALKED));
    work();
    work();
    boolean isOthers = directory.owner(hash(key)) != SELF;
    List<Long> told = announced(Status.OK);
    assertEquals(isOthers, told.contains(hash(key)));
    assertTrue(told.size() < 30, told.size() + " blocks: only those whose owner has changed");
    assertEquals(NODES, directory.nodes());
  }
}
