package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.BlockKey;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.TracedRequest;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntUnaryOperator;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The questions, fetches and pushes of a reader, on links that the test plays by hand. */
final class NodeReaderTest {
  private static final int LENGTH = 4096;
  private static final long MS = 1_000_000;
  private static final List<NodeAddress> ADDRESSES =
      List.of(new NodeAddress("a", 1), new NodeAddress("b", 1));

  private final ScriptedTransport transport = new ScriptedTransport();
  private final NodeHints hints = new NodeHints(() -> transport.nowNs, Runnable::run);
  private final NodeTier tier =
      new NodeTier(
          List.of(transport),
          new NodeReader.Options("reader", 77, () -> "", text -> text, 1_000 * MS, 1_000 * MS),
          hints,
          () -> 1,
          () -> {},
          TroubleLog.NONE);
  private final NodeReader reader = tier.readers().getFirst();
  private final MemorySegment slab = Arena.ofAuto().allocate(LENGTH);
  private ScriptedTransport.Link a;
  private ScriptedTransport.Link b;

  @BeforeEach
  void connect() throws FrameException {
    ADDRESSES.forEach(tier::join);
    var _ = reader.doWork();
    a = transport.links.get(0);
    b = transport.links.get(1);
    a.welcome();
    b.welcome();
  }

  // ---- helpers

  /** Both nodes say that they have a block. */
  private void know(int key) throws FrameException {
    know(key, Frame.IN_MEMORY, Frame.IN_MEMORY);
  }

  private void know(int key, byte atA, byte atB) throws FrameException {
    Transfer block = DirectoryReader.block(key);
    BlockKey name = BlockKey.of(block);
    assertTrue(hints.probe(ObjectKey.of(block), name, null));
    hints.endRound();
    var _ = reader.doWork();
    a.answer(atA);
    b.answer(atB);
  }

  private Transfer fetch(int key) {
    Transfer transfer = DirectoryReader.block(key);
    transfer.slab = slab;
    transfer.length = LENGTH;
    assertTrue(tier.pipeline().offer(transfer));
    var _ = reader.doWork();
    return transfer;
  }

  private List<Transfer> finished() {
    List<Transfer> all = new ArrayList<>();
    var _ = tier.pipeline().collect(all::add);
    return all;
  }

  private void pass(long ns) {
    transport.nowNs += ns;
    var _ = reader.doWork();
  }

  private ScriptedTransport.Link asked() {
    assertTrue(a.isSent(FrameType.FETCH) ^ b.isSent(FrameType.FETCH), "one node is asked");
    return a.isSent(FrameType.FETCH) ? a : b;
  }

  /** Has blocks fetched until the times of both nodes are known: a millisecond, or more. */
  private void learn(long atA, long atB) throws FrameException {
    for (int i = 0; i < 100; i++) {
      boolean isOfA = i % 2 == 0;
      know(
          2000 + i, isOfA ? Frame.IN_MEMORY : Frame.ABSENT, isOfA ? Frame.ABSENT : Frame.IN_MEMORY);
      var _ = fetch(2000 + i);
      ScriptedTransport.Link link = asked();
      transport.nowNs += link == a ? atA : atB;
      link.deliver((byte) 1, LENGTH);
      assertEquals(1, finished().size());
    }
  }

  private byte first() {
    return slab.get(ValueLayout.JAVA_BYTE, 0);
  }

  // ---- what is known of a block, and for how long

  @Test
  void fetch_beginsAfterALookupMustAskAgain_stillAsksTheHolder() throws FrameException {
    know(1, Frame.IN_MEMORY, Frame.ABSENT);
    assertEquals(Presence.PRESENT, hints.lookup(ObjectKey.of(DirectoryReader.block(1))));
    pass(31_000 * MS);
    assertEquals(Presence.UNKNOWN, hints.lookup(ObjectKey.of(DirectoryReader.block(1))));
    var _ = fetch(1);
    assertEquals(a, asked());
  }

  @Test
  void hint_thatLosesAHolder_isNotUsedForLonger() throws FrameException {
    know(1);
    pass(60_000 * MS);
    var _ = fetch(1);
    ScriptedTransport.Link first = asked();
    Frame frame = first.take(FrameType.FETCH);
    var _ = first.listener.onFrame(first, first.frame(FrameType.NONE, Status.MISS, frame.id()));
    pass(0);
    asked().deliver((byte) 1, LENGTH);
    assertEquals(Status.OK, finished().getFirst().status);

    pass(31_000 * MS);
    var _ = fetch(1);
    assertEquals(Status.MISS, finished().getFirst().status);
  }

  // ---- the choice

  @Test
  void fetch_measuredNodes_asksTheFaster() throws FrameException {
    learn(9 * MS, 3 * MS);
    for (int key = 0; key < 5; key++) {
      know(key);
      var _ = fetch(key);
      assertEquals(b, asked());
      transport.nowNs += 3 * MS;
      b.deliver((byte) 1, LENGTH);
    }
  }

  @Test
  void fetch_fasterNodeHasMuchToDo_asksTheOther() throws FrameException {
    learn(9 * MS, 3 * MS);
    for (int key = 0; key < 6; key++) {
      know(key);
      var _ = fetch(key);
    }

    assertTrue(a.isSent(FrameType.FETCH), "the slower node has a share");
    assertTrue(b.isSent(FrameType.FETCH));
  }

  @Test
  void fetch_nodeThatWasLate_isTheLastChoice() throws FrameException {
    learn(3 * MS, 4 * MS);
    know(1, Frame.IN_MEMORY, Frame.ABSENT);
    var _ = fetch(1);
    pass(1_000 * MS);
    assertEquals(Status.IO_ERROR, finished().getFirst().status);
    var _ = a.take(FrameType.FETCH);

    know(2);
    var _ = fetch(2);
    assertEquals(b, asked());
  }

  @Test
  void estimate_isOfTheNodesThatWouldDeliver() throws FrameException {
    learn(8 * MS, 4 * MS);
    NodeLoads loads = tier.loads();
    know(1, Frame.IN_MEMORY, Frame.ABSENT);
    know(2, Frame.ABSENT, Frame.IN_MEMORY);
    loads.begin(LENGTH);
    loads.add(ObjectKey.of(DirectoryReader.block(2)));
    assertEquals(4.0 * MS, (double) loads.estimatedNs(), 0.2 * MS);
    loads.add(ObjectKey.of(DirectoryReader.block(1)));
    assertEquals(8.0 * MS, (double) loads.estimatedNs(), 0.2 * MS);
    loads.begin(LENGTH);
    assertEquals(0, loads.estimatedNs());
    know(3);
    for (int i = 0; i < 3; i++) {
      loads.add(ObjectKey.of(DirectoryReader.block(3)));
    }
    // Two blocks from b in the time of one from a.
    assertEquals(8.0 * MS, (double) loads.estimatedNs(), 0.4 * MS);
  }

  @Test
  void estimate_fasterNodeIsUnreachable_isOfTheOther() throws FrameException {
    learn(8 * MS, 4 * MS);
    know(1);
    b.close("broken");
    NodeLoads loads = tier.loads();
    loads.begin(LENGTH);
    loads.add(ObjectKey.of(DirectoryReader.block(1)));
    assertEquals(8.0 * MS, (double) loads.estimatedNs(), 0.4 * MS);
  }

  // ---- the frames of a round

  /** Has blocks fetched that only node a has. */
  private List<Transfer> fetchFromA(int count, IntUnaryOperator lengthOf) throws FrameException {
    List<Transfer> all = new ArrayList<>();
    for (int key = 0; key < count; key++) {
      know(key, Frame.IN_MEMORY, Frame.ABSENT);
    }
    for (int key = 0; key < count; key++) {
      Transfer transfer = DirectoryReader.block(key);
      transfer.slab = Arena.ofAuto().allocate(LENGTH);
      transfer.length = lengthOf.applyAsInt(key);
      assertTrue(tier.pipeline().offer(transfer));
      all.add(transfer);
    }
    var _ = reader.doWork();
    return all;
  }

  /** How many blocks a FETCH names. */
  private static int named(Frame fetch) throws FrameException {
    ByteBuffer body = fetch.body().duplicate().order(ByteOrder.LITTLE_ENDIAN);
    return Messages.Keys.ofFetch(body).count();
  }

  @Test
  void fetches_ofOneRound_areOneFrame_andEachIsAnsweredOnItsOwn() throws FrameException {
    List<Transfer> all = fetchFromA(3, _ -> LENGTH);
    Frame fetch = a.take(FrameType.FETCH);
    assertFalse(a.isSent(FrameType.FETCH));
    assertEquals(3, named(fetch));

    var _ = a.listener.onFrame(a, a.frame(FrameType.NONE, Status.MISS, fetch.id() + 1));
    for (int i : new int[] {2, 0}) {
      MemorySegment target = a.begin(fetch.id() + i, (byte) (7 + i), LENGTH);
      assertEquals(all.get(i).slab, target);
      a.end(target, (byte) (7 + i), LENGTH);
    }
    pass(0);
    assertEquals(
        List.of(Status.OK, Status.MISS, Status.OK), all.stream().map(one -> one.status).toList());
    assertEquals(3, finished().size());
    Frame release = a.take(FrameType.RELEASE);
    assertFalse(a.isSent(FrameType.RELEASE), "both leases end in one frame");
    assertArrayEquals(new long[] {5, 5}, Messages.leases(release.body()));
  }

  @Test
  void fetches_ofOneRound_ofSeveralLengths_areAFrameEach() throws FrameException {
    List<Transfer> all = fetchFromA(4, key -> key < 2 ? LENGTH : LENGTH / 2);
    for (int frame = 0; frame < 2; frame++) {
      Frame fetch = a.take(FrameType.FETCH);
      for (int i = 0; i < 2; i++) {
        int length = all.get(2 * frame + i).length;
        a.end(a.begin(fetch.id() + i, (byte) 1, length), (byte) 1, length);
      }
    }
    assertTrue(all.stream().allMatch(one -> one.status == Status.OK));
  }

  @Test
  void fetches_ofOneRound_ofSeveralGroupsByTurns_areAFrameForEachGroup() throws FrameException {
    List<Transfer> all = fetchFromA(6, key -> key % 2 == 0 ? LENGTH : LENGTH / 2);
    for (int group = 0; group < 2; group++) {
      Frame fetch = a.take(FrameType.FETCH);
      assertEquals(3, named(fetch));
      for (int i = 0; i < 3; i++) {
        Transfer transfer = all.get(2 * i + group);
        MemorySegment target = a.begin(fetch.id() + i, (byte) 1, transfer.length);
        assertEquals(transfer.bytes(), target);
        a.end(target, (byte) 1, transfer.length);
      }
    }
    assertFalse(a.isSent(FrameType.FETCH));
    assertTrue(all.stream().allMatch(one -> one.status == Status.OK));
  }

  @Test
  void fetches_ofATracedRequest_areAFrameOfTheirOwn_andFollowItsTrace() throws FrameException {
    TracedRequest request = new TracedRequest(1, 2, 3);
    know(0, Frame.IN_MEMORY, Frame.ABSENT);
    know(1, Frame.IN_MEMORY, Frame.ABSENT);
    know(2, Frame.IN_MEMORY, Frame.ABSENT);
    for (int key = 0; key < 3; key++) {
      Transfer transfer = DirectoryReader.block(key);
      transfer.slab = Arena.ofAuto().allocate(LENGTH);
      transfer.length = LENGTH;
      transfer.request = key == 1 ? null : request;
      assertTrue(tier.pipeline().offer(transfer));
    }
    var _ = reader.doWork();
    Frame trace = a.take(FrameType.TRACE);
    Frame traced = a.take(FrameType.FETCH);
    assertEquals(trace.id(), traced.id());
    assertEquals(request, Messages.trace(trace.body()));
    assertEquals(2, named(traced));
    assertEquals(1, named(a.take(FrameType.FETCH)));
    assertFalse(a.isSent(FrameType.TRACE));
  }

  @Test
  void fetches_moreThanAFrameNames_areAllDelivered() throws FrameException {
    int count = Messages.FETCHED_MAX + 20;
    List<Transfer> all = fetchFromA(count, _ -> LENGTH);
    int delivered = 0;
    while (delivered < count) {
      Frame fetch = a.take(FrameType.FETCH);
      int named = named(fetch);
      for (int i = 0; i < named; i++) {
        a.end(a.begin(fetch.id() + i, (byte) 1, LENGTH), (byte) 1, LENGTH);
      }
      delivered += named;
      pass(0);
    }
    assertEquals(count, delivered);
    assertTrue(all.stream().allMatch(one -> one.status == Status.OK));
  }

  @Test
  void damagedBlock_isToldAtOnce_andOnItsOwn() throws FrameException {
    var _ = fetchFromA(2, _ -> LENGTH);
    Frame fetch = a.take(FrameType.FETCH);
    a.end(a.begin(fetch.id(), (byte) 1, LENGTH), (byte) 1, LENGTH);
    a.end(a.begin(fetch.id() + 1, (byte) 1, LENGTH), (byte) 2, LENGTH);
    assertEquals(Status.CORRUPT, a.take(FrameType.RELEASE).status());
    pass(0);
    assertEquals(Status.OK, a.take(FrameType.RELEASE).status());
  }

  @Test
  void nodeBreaks_beforeItIsSentTheFetch_theFetchEnds() throws FrameException {
    learn(3 * MS, 4 * MS);
    know(1);
    Transfer transfer = fetch(1);
    Frame fetch = a.take(FrameType.FETCH);
    var _ = a.listener.onFrame(a, a.frame(FrameType.NONE, Status.MISS, fetch.id()));
    assertFalse(b.isSent(FrameType.FETCH), "the round is not over");
    b.close("broken");
    assertEquals(List.of(transfer), finished());
    assertEquals(Status.IO_ERROR, transfer.status);
    pass(0);
    assertEquals(List.of(), finished());
  }

  @Test
  void release_ofNoLeaseOrOfTooMany_isRefused() {
    for (int bytes : new int[] {0, 7, 12, 8 * (Messages.FETCHED_MAX + 1)}) {
      assertThrows(FrameException.class, () -> Messages.leases(ByteBuffer.allocate(bytes)));
    }
  }

  // ---- late nodes

  @Test
  void fetch_late_asksASecondNode_whoseBytesCount() throws FrameException {
    learn(3 * MS, 4 * MS);
    know(1);
    Transfer transfer = fetch(1);
    Frame first = a.take(FrameType.FETCH);
    pass(MS);
    assertFalse(b.isSent(FrameType.FETCH), "it is not late yet");
    pass(5 * MS);
    b.deliver((byte) 2, LENGTH);

    assertEquals(List.of(transfer), finished());
    assertEquals(Status.OK, transfer.status);
    assertEquals(1, tier.peers().get(1).hedgesWon());
    // The late bytes go nowhere: the slot may have another block by now.
    assertNull(a.begin(first, (byte) 3, LENGTH));
    a.end(null, (byte) 3, LENGTH);
    assertEquals(2, first());
    pass(0);
    assertTrue(a.isSent(FrameType.RELEASE));
    assertEquals(List.of(), finished());
  }

  @Test
  void fetch_bothDeliver_oneWritesTheSlot() throws FrameException {
    learn(3 * MS, 4 * MS);
    know(1);
    Transfer transfer = fetch(1);
    pass(6 * MS);
    MemorySegment target = a.begin(a.take(FrameType.FETCH), (byte) 2, LENGTH);
    assertNotNull(target);
    assertNull(b.begin(b.take(FrameType.FETCH), (byte) 3, LENGTH));
    b.end(null, (byte) 3, LENGTH);
    assertEquals(List.of(), finished());
    a.end(target, (byte) 2, LENGTH);

    assertEquals(List.of(transfer), finished());
    assertEquals(2, first());
    assertEquals(0, tier.peers().get(1).hedgesWon());
  }

  @Test
  void fetch_deliveringNodeBreaks_theOtherIsAskedAgain() throws FrameException {
    learn(3 * MS, 4 * MS);
    know(1);
    Transfer transfer = fetch(1);
    pass(6 * MS);
    assertNotNull(a.begin(a.take(FrameType.FETCH), (byte) 2, LENGTH));
    assertNull(b.begin(b.take(FrameType.FETCH), (byte) 3, LENGTH));
    b.end(null, (byte) 3, LENGTH);
    a.close("broken");
    pass(0);
    b.deliver((byte) 3, LENGTH);

    assertEquals(List.of(transfer), finished());
    assertEquals(Status.OK, transfer.status);
    assertEquals(3, first());
  }

  @Test
  void fetch_bothNodesSilent_endsOnceAtItsDeadline() throws FrameException {
    learn(3 * MS, 4 * MS);
    know(1);
    Transfer transfer = fetch(1);
    pass(6 * MS);
    assertTrue(b.isSent(FrameType.FETCH));
    pass(1_000 * MS);

    assertEquals(List.of(transfer), finished());
    assertEquals(Status.IO_ERROR, transfer.status);
    pass(MS);
    assertEquals(List.of(), finished());
  }

  @Test
  void fetch_asksInTheRoundInWhichAnotherEnds_endsAtItsDeadline() throws FrameException {
    know(1, Frame.IN_MEMORY, Frame.ABSENT);
    know(2, Frame.IN_MEMORY, Frame.ABSENT);
    Transfer first = fetch(1);
    transport.nowNs += 1_000 * MS;
    Transfer second = fetch(2);
    assertEquals(List.of(first), finished());
    pass(1_000 * MS);

    assertEquals(List.of(second), finished());
    assertEquals(Status.IO_ERROR, second.status);
  }

  @Test
  void fetch_allLate_atMostOneInTwentyHasASecondNode() throws FrameException {
    learn(3 * MS, 4 * MS);
    int fetches = 400;
    for (int key = 0; key < fetches; key++) {
      know(key);
      var _ = fetch(key);
      Frame first = a.isSent(FrameType.FETCH) ? a.take(FrameType.FETCH) : null;
      ScriptedTransport.Link link = first == null ? b : a;
      Frame fetch = first == null ? b.take(FrameType.FETCH) : first;
      pass(20 * MS);
      link.end(link.begin(fetch, (byte) 1, LENGTH), (byte) 1, LENGTH);
      assertEquals(1, finished().size());
      a.sent.clear();
      b.sent.clear();
    }
    long hedges = tier.peers().get(0).hedges() + tier.peers().get(1).hedges();
    assertTrue(hedges > 0 && hedges <= fetches / 20 + 4, hedges + " of " + fetches);
  }

  /** Block 1 is asked of a. After a time, b delivers it; returns the FETCH to a. */
  private Frame lostToB(long ns) throws FrameException {
    learn(3 * MS, 4 * MS);
    know(1);
    var _ = fetch(1);
    Frame first = a.take(FrameType.FETCH);
    pass(ns);
    b.deliver((byte) 2, LENGTH);
    assertEquals(1, finished().size());
    return first;
  }

  @Test
  void fetch_losesToASecondNode_isLearnedAsLate() throws FrameException {
    Frame first = lostToB(50 * MS);

    assertTrue(tier.peers().get(0).speed().latencyNs() >= 50 * MS);
    know(2);
    var _ = fetch(2);
    assertTrue(b.isSent(FrameType.FETCH), "the node that lost is not asked first again");
    assertNull(a.begin(first, (byte) 3, LENGTH));
  }

  @Test
  void secondNodeThatLosesEarly_isNotLearned() throws FrameException {
    learn(3 * MS, 4 * MS);
    double before = tier.peers().get(1).speed().latencyNs();
    know(1);
    var _ = fetch(1);
    pass(6 * MS);
    assertTrue(b.isSent(FrameType.FETCH));
    a.deliver((byte) 2, LENGTH);
    assertEquals(before, tier.peers().get(1).speed().latencyNs());
  }

  @Test
  void blockAfterOneThatWentNowhere_isNotLearnedAsItsTime() throws FrameException {
    Frame lost = lostToB(6 * MS);
    know(2, Frame.IN_MEMORY, Frame.ABSENT);
    var _ = fetch(2);
    transport.nowNs += 400 * MS;
    assertNull(a.begin(lost, (byte) 3, LENGTH));
    a.end(null, (byte) 3, LENGTH);
    transport.nowNs += MS;
    a.deliver((byte) 4, LENGTH);
    assertEquals(1, finished().size());

    double ms = tier.peers().get(0).speed().latencyNs() / MS;
    assertTrue(ms < 20, ms + " ms until a block begins to come");
  }

  @Test
  void fetch_nextNodeIsNotMeasured_isNeverLate() throws FrameException {
    learn(3 * MS, 4 * MS);
    tier.join(new NodeAddress("c", 1));
    pass(0);
    ScriptedTransport.Link c = transport.links.get(2);
    c.welcome();
    know(1, Frame.IN_MEMORY, Frame.ABSENT);
    var _ = fetch(1);
    Frame none = a.take(FrameType.FETCH);
    hints.add(ObjectKey.of(DirectoryReader.block(1)), 2);
    hints.add(ObjectKey.of(DirectoryReader.block(1)), 1);
    var _ = a.listener.onFrame(a, a.frame(FrameType.NONE, Status.BUSY, none.id()));
    pass(0);
    assertTrue(c.isSent(FrameType.FETCH), "an unknown node is asked next");
    pass(500 * MS);
    assertFalse(b.isSent(FrameType.FETCH), "no time is late for it");
  }

  // ---- nodes that start anew

  @Test
  void nodeThatStartsAnew_isAskedByNoReaderForWhatItsLastStartHad() throws FrameException {
    ScriptedTransport first = new ScriptedTransport();
    ScriptedTransport second = new ScriptedTransport();
    NodeHints common = new NodeHints(() -> first.nowNs, Runnable::run);
    NodeTier two =
        new NodeTier(
            List.of(first, second),
            new NodeReader.Options("reader", 78, () -> "", text -> text, 1_000 * MS, 1_000 * MS),
            common,
            () -> 1,
            () -> {},
            TroubleLog.NONE);
    ADDRESSES.forEach(two::join);
    two.readers().forEach(one -> assertTrue(one.doWork() > 0));
    for (int i = 0; i < 2; i++) {
      first.links.get(i).welcome();
      second.links.get(i).welcome();
    }
    Transfer named = DirectoryReader.block(1);
    BlockKey name = BlockKey.of(named);
    assertTrue(common.probe(ObjectKey.of(named), name, null));
    common.endRound();
    var _ = two.readers().get(0).doWork();
    first.links.get(0).answer(Frame.IN_MEMORY);
    first.links.get(1).answer(Frame.IN_MEMORY);
    Transfer transfer = DirectoryReader.block(1);
    transfer.slab = slab;
    transfer.length = LENGTH;
    // The second reader has the first turn, and asks one of the two.
    assertTrue(two.pipeline().offer(transfer));
    var _ = two.readers().get(1).doWork();
    ScriptedTransport.Link asked =
        second.links.get(0).isSent(FrameType.FETCH) ? second.links.get(0) : second.links.get(1);
    ScriptedTransport.Link other =
        asked.equals(second.links.get(0)) ? second.links.get(1) : second.links.get(0);
    // The other one starts anew: the first reader meets it first, then the second one.
    int place = second.links.indexOf(other);
    first.links.get(place).close("restart");
    other.close("restart");
    first.nowNs += 200 * MS;
    second.nowNs = first.nowNs;
    two.readers().forEach(one -> assertTrue(one.doWork() >= 0));
    first.links.getLast().welcome();
    second.links.getLast().welcome();
    assertTrue(asked.isSent(FrameType.FETCH));
    Frame fetch = asked.take(FrameType.FETCH);
    var _ = asked.listener.onFrame(asked, asked.frame(FrameType.NONE, Status.MISS, fetch.id()));
    assertEquals(0, two.readers().get(1).doWork());
    assertFalse(second.links.getLast().isSent(FrameType.FETCH), "it has not said that it has it");
  }

  // ---- nodes that leave

  @Test
  void fetch_nodeLeaves_theOtherIsAskedAtOnce() throws FrameException {
    learn(3 * MS, 4 * MS);
    know(1);
    Transfer transfer = fetch(1);
    assertEquals(a, asked());
    tier.leave(ADDRESSES.get(0));
    pass(0);
    b.deliver((byte) 2, LENGTH);

    assertEquals(List.of(transfer), finished());
    assertEquals(Status.OK, transfer.status);
    assertEquals(List.of(ADDRESSES.get(1)), tier.peers().stream().map(NodePeer::address).toList());
  }

  @Test
  void fetch_onlyHolderLeaves_isAMissAtOnce_andTheBlockIsUnknown() throws FrameException {
    know(1, Frame.IN_MEMORY, Frame.ABSENT);
    Transfer transfer = fetch(1);
    tier.leave(ADDRESSES.get(0));
    pass(0);

    assertEquals(List.of(transfer), finished());
    assertEquals(Status.MISS, transfer.status);
    assertEquals(Presence.UNKNOWN, hints.lookup(ObjectKey.of(DirectoryReader.block(1))));
  }

  @Test
  void nodeThatComesAfterAnotherLeft_isSaidToHaveNothing() throws FrameException {
    know(1, Frame.IN_MEMORY, Frame.ABSENT);
    know(2, Frame.IN_MEMORY, Frame.IN_MEMORY);
    tier.leave(ADDRESSES.get(0));
    pass(0);
    tier.join(new NodeAddress("c", 1));
    pass(0);
    transport.links.get(2).welcome();
    assertEquals(Presence.UNKNOWN, hints.lookup(ObjectKey.of(DirectoryReader.block(1))));
    var _ = fetch(2);
    assertTrue(b.isSent(FrameType.FETCH));
    assertFalse(transport.links.get(2).isSent(FrameType.FETCH));
  }

  @Test
  void fetch_nodeThatWasAskedLeaves_theNextOneOfItsNumberIsNotAsked() throws FrameException {
    learn(3 * MS, 4 * MS);
    know(1);
    Transfer transfer = fetch(1);
    assertEquals(a, asked());
    tier.leave(ADDRESSES.get(0));
    pass(0);
    tier.join(new NodeAddress("c", 1));
    pass(0);
    transport.links.get(2).welcome();
    var _ =
        b.listener.onFrame(b, b.frame(FrameType.NONE, Status.MISS, b.take(FrameType.FETCH).id()));
    pass(0);

    assertFalse(transport.links.get(2).isSent(FrameType.FETCH));
    assertEquals(List.of(transfer), finished());
    assertEquals(Status.MISS, transfer.status);
  }

  @Test
  void node_isTrustedAsSoonAsItWelcomesTheReader_andNotIfItRefuses() throws FrameException {
    assertTrue(a.isTrusted);
    tier.join(new NodeAddress("c", 1));
    pass(0);
    ScriptedTransport.Link c = transport.links.get(2);
    c.listener.onOpen(c);
    var _ = c.listener.onFrame(c, c.frame(FrameType.REFUSED, Status.DENIED, 0));
    assertFalse(c.isTrusted);
  }

  // ---- pushes

  private Push push(List<Push> over) {
    MemorySegment key = Arena.ofAuto().allocate(8);
    Push push =
        new Push(
            new Push.Name(1, 2, "space", 0, key),
            new Push.Rank(MemorySegment.NULL, 0, 0, 1),
            false,
            0,
            slab,
            over::add);
    tier.push(push);
    pass(0);
    return push;
  }

  @Test
  void push_refusedAfterItsSlotWasGiven_endsOnlyWithTheConnection() throws FrameException {
    b.close("broken");
    List<Push> over = new ArrayList<>();
    var _ = push(over);
    Frame reserve = a.take(FrameType.RESERVE);
    a.answer(FrameType.GO, Status.OK, reserve);
    assertTrue(a.isSent(FrameType.PUSH));

    assertThrows(FrameException.class, () -> a.answer(FrameType.HAVE, Status.EXISTS, reserve));
    assertThrows(FrameException.class, () -> a.answer(FrameType.NO, Status.BUSY, reserve));
    assertEquals(List.of(), over, "the slot is being read");
  }

  @ParameterizedTest
  @EnumSource(names = {"OK", "CORRUPT"})
  void push_answeredBeforeItsBytesAreKnownToBeSent_endsOnlyThen(Status answer)
      throws FrameException {
    b.close("broken");
    List<Push> over = new ArrayList<>();
    Push push = push(over);
    a.answer(FrameType.GO, Status.OK, a.take(FrameType.RESERVE));
    Frame sent = a.take(FrameType.PUSH);
    a.answer(FrameType.PUSHED, answer, sent);
    pass(0);
    assertEquals(List.of(), over, "the slot may still be read");

    a.whenSent.removeFirst().run();
    assertEquals(List.of(push), over);
    assertEquals(answer, push.status());
  }

  @Test
  void push_namespaceIsNotRegisteredYet_isToldAgain() throws FrameException {
    b.close("broken");
    List<Push> over = new ArrayList<>();
    Push push = push(over);
    a.answer(FrameType.NO, Status.PENDING, a.take(FrameType.SPACE));
    a.answer(FrameType.NO, Status.NAMESPACE_UNKNOWN, a.take(FrameType.RESERVE));
    pass(0);
    assertFalse(a.isSent(FrameType.SPACE), "the node has a rest");
    pass(5 * MS);

    assertTrue(a.isSent(FrameType.SPACE));
    a.answer(FrameType.HAVE, Status.EXISTS, a.take(FrameType.RESERVE));
    assertEquals(List.of(push), over);
  }

  @Test
  void push_longUnderWayWhenAllConnectionsBreak_waitsForAnother() {
    List<Push> over = new ArrayList<>();
    Push push = push(over);
    pass(10_000 * MS);
    a.close("broken");
    b.close("broken");
    pass(4_900 * MS);
    assertEquals(List.of(), over);
    pass(200 * MS);

    assertEquals(List.of(push), over);
    assertEquals(Status.UNAVAILABLE, push.status());
  }

  // ---- for routers

  @Test
  void find_nodesAnswer_theLongestRunIsFirst() throws FrameException {
    List<NodeRun> found = new ArrayList<>();
    ByteBuffer keys = ByteBuffer.allocate(3 * 8);
    assertTrue(tier.find(new Messages.Keys(1, 2, 0, 8, 3, 0, keys), found::addAll));
    var _ = reader.doWork();
    a.answer(Frame.IN_MEMORY, Frame.ABSENT, Frame.IN_MEMORY);
    assertEquals(List.of(), found);
    b.answer(Frame.IN_MEMORY, Frame.BELOW, Frame.ABSENT);

    assertEquals(
        List.of(
            new NodeRun(tier.peers().get(1), 2, 1, 7), new NodeRun(tier.peers().get(0), 1, 1, 7)),
        found);
  }

  @Test
  void find_silentNode_isNotAmongTheAnswers() throws FrameException {
    List<List<NodeRun>> found = new ArrayList<>();
    ByteBuffer keys = ByteBuffer.allocate(8);
    assertTrue(tier.find(new Messages.Keys(1, 2, 0, 8, 1, 0, keys), found::add));
    var _ = reader.doWork();
    a.answer(Frame.IN_MEMORY);
    pass(1_000 * MS);

    assertEquals(1, found.size());
    assertEquals(List.of(new NodeRun(tier.peers().get(0), 1, 1, 7)), found.getFirst());
  }

  @Test
  void find_tooMany_isRefused() {
    ByteBuffer keys = ByteBuffer.allocate(8);
    Messages.Keys one = new Messages.Keys(1, 2, 0, 8, 1, 0, keys);
    for (int i = 0; i < 64; i++) {
      assertTrue(tier.find(one, _ -> {}));
    }
    assertFalse(tier.find(one, _ -> {}));
  }

  @Test
  void hints_answersOfBoth_areKnown() throws FrameException {
    know(1, Frame.ABSENT, Frame.IN_MEMORY);
    assertEquals(Presence.PRESENT, hints.lookup(ObjectKey.of(DirectoryReader.block(1))));
    know(2, Frame.ABSENT, Frame.BELOW);
    assertEquals(Presence.ABSENT, hints.lookup(ObjectKey.of(DirectoryReader.block(2))));
  }
}
