package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.TracedRequest;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Blocks that a reader expects from a node, which the test plays by hand. */
final class FollowLineTest {
  private static final int UNITS = 4;
  private static final int UNIT = 1024;
  private static final int LENGTH = UNITS * UNIT;
  private static final long MS = 1_000_000;

  private final ScriptedTransport transport = new ScriptedTransport();
  private final NodeTier tier =
      new NodeTier(
          List.of(transport),
          new NodeReader.Options("reader", 77, () -> "", text -> text, 1_000 * MS, 1_000 * MS),
          new NodeHints(() -> transport.nowNs, Runnable::run),
          () -> 1,
          () -> {},
          TroubleLog.NONE);
  private final NodeReader reader = tier.readers().getFirst();
  private final MemorySegment slab = Arena.ofAuto().allocate(LENGTH);
  private ScriptedTransport.Link node;

  /** How long the next block may take. */
  private int delayMs = 100;

  @BeforeEach
  void connect() throws FrameException {
    tier.join(new NodeAddress("a", 1));
    var _ = reader.doWork();
    node = transport.links.getFirst();
    node.welcome();
  }

  // ---- helpers

  private static int checksumOf(String name) {
    return Checksums.of(MemorySegment.ofArray(name.getBytes(StandardCharsets.UTF_8)));
  }

  private Transfer expect(String name) {
    return expect(name, null);
  }

  private Transfer expect(String name, @Nullable TracedRequest request) {
    Transfer block = DirectoryReader.block(7);
    block.request = request;
    block.slab = slab;
    block.length = LENGTH;
    block.node = checksumOf(name);
    block.deadlineNs = transport.nowNs + delayMs * MS;
    assertTrue(tier.expected().offer(block));
    var _ = reader.doWork();
    return block;
  }

  private Frame followed() {
    return node.take(FrameType.FOLLOW);
  }

  /** A piece comes, whole, if it goes anywhere. */
  private @Nullable MemorySegment piece(Frame follow, int from, int to) throws FrameException {
    MemorySegment target = node.beginPiece(follow, UNITS, from, to, (to - from) * UNIT);
    if (target != null) {
      for (int i = from; i < to; i++) {
        target.asSlice((long) (i - from) * UNIT, UNIT).fill((byte) (i + 1));
      }
    }
    node.listener.onPayload(node, 0, target != null);
    return target;
  }

  private static int checksum() {
    MemorySegment block = MemorySegment.ofArray(new byte[LENGTH]);
    for (int i = 0; i < UNITS; i++) {
      block.asSlice((long) i * UNIT, UNIT).fill((byte) (i + 1));
    }
    return Checksums.of(block);
  }

  private List<Transfer> finished() {
    List<Transfer> all = new ArrayList<>();
    var _ = tier.expected().collect(all::add);
    return all;
  }

  private void pass(long ns) {
    transport.nowNs += ns;
    var _ = reader.doWork();
  }

  private void giveUp(Transfer block) {
    block.givenUp = true;
    tier.endGivenUp();
    pass(0);
  }

  /** The only transfer that is over. */
  private Transfer over() {
    List<Transfer> all = finished();
    assertEquals(1, all.size());
    return all.getFirst();
  }

  // ---- tests

  @Test
  void pieces_inAnyOrder_makeTheBlock_whenTheNodeSaysThatItIsWhole() throws FrameException {
    var _ = expect("a:1");
    Frame follow = followed();
    assertNotNull(piece(follow, 2, 4));
    assertNotNull(piece(follow, 0, 1));
    assertNotNull(piece(follow, 1, 2));
    assertEquals(List.of(), finished(), "its checksum is not known");
    node.whole(follow, checksum());
    Transfer block = over();
    assertEquals(Status.OK, block.status);
    assertEquals(checksum(), block.checksum);
    assertEquals(3, block.pieces);
    assertEquals(4, slab.get(ValueLayout.JAVA_BYTE, LENGTH - 1));
    pass(0);
    assertEquals(Status.OK, node.take(FrameType.STOP).status(), "the node's lease ends");
  }

  @Test
  void traceOfABlock_isSentWithItsFollow_alsoIfTheLinkHasRoomForOneFrame() {
    node.sent.clear();
    node.earlier = 255;
    var _ = expect("a:1", new TracedRequest(1, 2, 3));
    assertEquals(
        List.of(FrameType.TRACE, FrameType.FOLLOW), node.sent.stream().map(Frame::type).toList());
  }

  @Test
  void pieceThatComesTwice_goesNowhere_andStandsForNoOther() throws FrameException {
    var _ = expect("a:1");
    Frame follow = followed();
    assertNotNull(piece(follow, 0, 2));
    assertNull(piece(follow, 0, 2));
    assertNull(piece(follow, 1, 3), "a part of it has come");
    node.whole(follow, checksum());
    Transfer block = over();
    assertEquals(Status.IO_ERROR, block.status);
    assertEquals(
        "node a:1: the block is said to be whole, and parts 2 to 3 of 4 have not come",
        block.cause);
  }

  @Test
  void bytesThatDoNotMatchTheChecksum_areNeverABlock_andTheNodeIsTold() throws FrameException {
    var _ = expect("a:1");
    Frame follow = followed();
    assertNotNull(piece(follow, 0, 4));
    node.whole(follow, checksum() + 1);
    assertEquals(Status.CORRUPT, over().status);
    pass(0);
    assertEquals(Status.CORRUPT, node.take(FrameType.STOP).status());
  }

  @Test
  void blockThatNobodyWaitsFor_isGivenUp_andItsLatePiecesGoNowhere() throws FrameException {
    Transfer block = expect("a:1");
    Frame follow = followed();
    assertNotNull(piece(follow, 0, 1));
    giveUp(block);
    assertEquals(Status.CANCELLED, over().status);
    assertEquals(follow.id(), node.take(FrameType.STOP).id());
    assertNull(piece(follow, 1, 2));
    node.whole(follow, checksum());
    assertEquals(List.of(), finished());
    pass(0);
    assertEquals(follow.id(), node.take(FrameType.STOP).id(), "the node's lease ends in any case");
  }

  @Test
  void slotInWhichAPieceArrives_isGivenBack_whenNothingWritesIt() throws FrameException {
    Transfer block = expect("a:1");
    Frame follow = followed();
    node.holdsDiscarded = true;
    assertNotNull(node.beginPiece(follow, UNITS, 0, 1, UNIT));
    giveUp(block);
    assertEquals(List.of(), finished(), "the piece still arrives");
    Runnable released = node.released;
    assertNotNull(released);
    released.run();
    assertEquals(Status.CANCELLED, over().status);
    node.listener.onPayload(node, 0, false);
    assertEquals(List.of(), finished());
  }

  @Test
  void slotInWhichAPieceArrives_isGivenBack_whenTheConnectionEnds() throws FrameException {
    Transfer block = expect("a:1");
    node.holdsDiscarded = true;
    assertNotNull(node.beginPiece(followed(), UNITS, 0, 1, UNIT));
    giveUp(block);
    assertEquals(List.of(), finished());
    node.close("enough");
    assertEquals(Status.CANCELLED, over().status);
  }

  @Test
  void slotInWhichAPieceArrivesForTooLong_isGivenBack_alsoIfTheNodeSaysOtherThings()
      throws FrameException {
    Transfer block = expect("a:1");
    node.holdsDiscarded = true;
    assertNotNull(node.beginPiece(followed(), UNITS, 0, 1, UNIT));
    giveUp(block);
    pass(2_999 * MS);
    assertEquals(List.of(), finished(), "the link has always just been heard");
    pass(MS);
    assertEquals(Status.CANCELLED, over().status);
  }

  @Test
  void blockThatIsNotInTime_isGivenUp_andItsMissingPartsAreNamed() throws FrameException {
    var _ = expect("a:1");
    Frame follow = followed();
    assertNotNull(piece(follow, 0, 1));
    assertNotNull(piece(follow, 2, 3));
    pass(99 * MS);
    assertEquals(List.of(), finished());
    pass(MS);
    Transfer block = over();
    assertEquals(Status.DEADLINE, block.status);
    assertEquals("node a:1: it was not in time, and parts 1 to 1 of 4 have not come", block.cause);
  }

  @Test
  void blocksWithManyDeadlines_endAtEach_orAMomentLater() {
    List<Integer> delays = List.of(40, 10, 70, 12);
    for (int delay : delays) {
      delayMs = delay;
      var _ = expect("a:1");
    }
    List<Integer> over = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      pass(MS);
      over.add(finished().size());
    }
    assertEquals(1, over.get(9), "the first one ends at once");
    assertEquals(1, over.get(14), "the second one ends with the next look");
    assertEquals(1, over.get(39));
    assertEquals(1, over.get(69));
  }

  @Test
  void connectionThatBreaks_endsTheBlock() throws FrameException {
    var _ = expect("a:1");
    assertNotNull(piece(followed(), 0, 3));
    node.close("no power");
    Transfer block = over();
    assertEquals(Status.IO_ERROR, block.status);
    assertEquals(
        "node a:1: the connection broke: no power, and parts 3 to 3 of 4 have not come",
        block.cause);
  }

  @Test
  void nodeThatDoesNotDeliver_saysWhy() throws FrameException {
    var _ = expect("a:1");
    Frame none = node.frame(FrameType.NONE, Status.MISS, followed().id()).with("a part was lost");
    var _ = node.listener.onFrame(node, none);
    Transfer block = over();
    assertEquals(Status.MISS, block.status);
    assertEquals("node a:1: a part was lost, and no piece has come", block.cause);
    pass(0);
    assertFalse(node.isSent(FrameType.STOP), "the node knows");
  }

  @Test
  void nodeWithoutThatName_isAnError_atOnce() {
    var _ = expect("b:1");
    Transfer block = over();
    assertEquals(Status.UNAVAILABLE, block.status);
    assertEquals("no node has the name or the address that a get names", block.cause);
  }

  @Test
  void nodeThatIsNotConnected_isAnError_atOnce() {
    node.close("no power");
    var _ = expect("a:1");
    Transfer block = over();
    assertEquals(Status.UNAVAILABLE, block.status);
    assertEquals("node a:1 is not connected now", block.cause);
  }

  @ParameterizedTest
  @CsvSource({"0, 0, 1", "3, 0, 1", "4, -1, 1", "4, 1, 1", "4, 2, 1", "4, 3, 5", "4, 0, 2"})
  void pieceThatCanNotBe_isRefused(int units, int from, int to) {
    var _ = expect("a:1");
    Frame follow = followed();
    assertThrows(
        FrameException.class, () -> node.beginPiece(follow, units, from, to, UNIT), "of 1 KiB");
  }

  @Test
  void piecesOfAnotherCut_goNowhere() throws FrameException {
    var _ = expect("a:1");
    Frame follow = followed();
    assertNotNull(piece(follow, 0, 1));
    assertNull(node.beginPiece(follow, 2, 1, 2, LENGTH / 2));
  }
}
