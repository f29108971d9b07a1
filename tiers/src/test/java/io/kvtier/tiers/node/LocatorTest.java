package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.object.PresenceCache.Presence;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The questions of a reader to the directory. */
final class LocatorTest {
  private static final int NODES = 40;
  private static final int BLOCKS = 2048;

  private final DirectoryReader reader = new DirectoryReader();
  private int located;

  @BeforeEach
  void connect() throws FrameException {
    reader.use(false);
    reader.connect(0, NODES);
  }

  @AfterEach
  void close() {
    reader.close();
  }

  // ---- helpers

  /** Owners say that a node has the first blocks; the owner of a block answers only for it. */
  private void answerOwners(ScriptedTransport.Link holder, int run) throws FrameException {
    Set<Long> there = new HashSet<>();
    for (int i = 0; i < run; i++) {
      there.add(DirectoryReader.key(i).high());
    }
    boolean isAsked = true;
    while (isAsked) {
      isAsked = false;
      for (ScriptedTransport.Link link : reader.transport.links) {
        while (link.isSent(FrameType.LOCATE)) {
          isAsked = true;
          located++;
          Frame locate = link.take(FrameType.LOCATE);
          List<long[]> nodes = new ArrayList<>();
          for (long hash : DirectoryMessages.hashes(locate.body())) {
            assertEquals(link.incarnation(), reader.directory.owner(hash));
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

  /** A node has announced the first blocks, as far as this node owns their partitions. */
  private void noteOwn(ScriptedTransport.Link holder, int run) {
    long[] entries =
        IntStream.range(0, run)
            .mapToLong(DirectoryReader::hash)
            .filter(hash -> reader.directory.owner(hash) == DirectoryReader.SELF)
            .map(hash -> hash | ChangeFeed.CAME)
            .toArray();
    assertTrue(reader.directory.note(holder.incarnation(), "a link", 0, entries));
  }

  // ---- lookups

  @Test
  void sequence_asksAFewOwners_thenTheNodeThatTheyName() throws FrameException {
    ScriptedTransport.Link holder = reader.transport.links.get(7);
    int run = 1500;
    noteOwn(holder, run);
    reader.hints.beginSequence();
    for (int i = 0; i < BLOCKS; i++) {
      reader.probe(i);
    }
    reader.hints.endSequence();
    reader.hints.endRound();
    reader.work();
    answerOwners(holder, run);

    assertTrue(located <= 3 * 16, located + " questions to owners");
    Frame ask = holder.take(FrameType.ASK);
    int asked = Messages.Keys.of(ask.body().duplicate().order(ask.body().order())).count();
    assertEquals(run, asked);
    byte[] places = new byte[run];
    Arrays.fill(places, Frame.IN_MEMORY);
    ByteBuffer body = new Messages.Places(0, ByteBuffer.wrap(places)).body();
    var _ =
        holder.listener.onFrame(
            holder, holder.frame(FrameType.ANSWER, Status.OK, ask.id()).with(body));
    for (ScriptedTransport.Link link : reader.transport.links) {
      assertFalse(link.isSent(FrameType.ASK), "others are not asked");
    }
    assertEquals(Presence.PRESENT, reader.hints.lookup(DirectoryReader.key(run - 1)));
    assertEquals(Presence.ABSENT, reader.hints.lookup(DirectoryReader.key(run)));
  }

  @Test
  void singleBlocks_areAskedForEach() throws FrameException {
    ScriptedTransport.Link holder = reader.transport.links.get(3);
    int there = reader.keyOfOthers();
    reader.probe(there);
    reader.probe(5000);
    reader.hints.endRound();
    reader.work();
    answerOwners(holder, there + 1);

    assertTrue(holder.isSent(FrameType.ASK));
    holder.answer(Frame.IN_MEMORY);
    assertEquals(Presence.PRESENT, reader.hints.lookup(DirectoryReader.key(there)));
    assertEquals(Presence.ABSENT, reader.hints.lookup(DirectoryReader.key(5000)));
  }

  @Test
  void blocks_whoseOwnersDoNotAnswer_areNotTakenForAbsent() throws FrameException {
    int key = reader.keyOfOthers();
    reader.probe(key);
    reader.hints.endRound();
    reader.work();
    reader.hints.beginSequence();
    for (int i = 100_000; i < 100_003; i++) {
      reader.probe(i);
    }
    reader.hints.endSequence();
    reader.hints.endRound();
    reader.work();
    reader.transport.nowNs += 2_000_000_000L;
    reader.work();

    assertEquals(Presence.UNKNOWN, reader.hints.lookup(DirectoryReader.key(key)));
    assertEquals(Presence.UNKNOWN, reader.hints.lookup(DirectoryReader.key(100_002)));
  }
}
