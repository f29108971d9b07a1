package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.node.IndexSessions;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The blocks that other nodes expect, as the index knows them. */
final class NodeFollowersTest {
  private static final long KEY = 7;
  private static final long SECOND_NS = 1_000_000_000L;

  private final List<NodeCall.Followed> told = new ArrayList<>();
  private IndexHarness harness;
  private IndexSessions sessions;
  private LayerWriter engine;

  @BeforeEach
  void start() throws IOException, ProtocolViolation {
    harness =
        new IndexHarness(
            new IndexHarness.Settings(1, 1)
                .sessions(8)
                .checksums(new IndexHarness.NoPipeline(), Integer.MAX_VALUE));
    sessions = new IndexSessions(harness.agent(), () -> {}, 1, _ -> harness.slabs());
    engine = new LayerWriter(harness);
  }

  @AfterEach
  void stop() {
    harness.close();
  }

  private Session node(int tenant) throws IOException {
    return sessions.open("node", new Grant("node", Role.READ, tenant), () -> {});
  }

  private NodeCall.Follow follow(Session node) {
    Namespaces.Fingerprint name = Namespaces.fingerprintOf(LayerWriter.text());
    MemorySegment keys = Arena.ofAuto().allocate(Records.keyStride(8), 8);
    keys.set(ValueLayout.JAVA_LONG, 0, KEY);
    NodeCall.Blocks block = new NodeCall.Blocks(name.high(), name.low(), 0, 8, 1, keys);
    NodeCall.Follow call =
        new NodeCall.Follow(block, IndexHarness.SLOT_BYTES, SECOND_NS, told::add);
    assertTrue(sessions.call(node, call));
    work();
    return call;
  }

  private void unfollow(Session node, NodeCall.Follow call) {
    assertTrue(sessions.call(node, new NodeCall.Unfollow(call, false, () -> {})));
    work();
  }

  private void work() {
    for (int round = 0; round < 3; round++) {
      int ignored = harness.agent().doWork();
      harness.agent().checkInvariants();
    }
  }

  private long count(Counter counter) {
    harness.agent().stop();
    return harness.counters.get(counter);
  }

  @Test
  void slotOfALostBlock_isFree_whenNoPieceIsReadAnyMore() throws IOException, ProtocolViolation {
    Session node = node(Grant.NO_TENANT);
    NodeCall.Follow call = follow(node);
    engine.write(KEY, 0);
    harness.close(engine.client);
    work();
    assertInstanceOf(NodeCall.Followed.Piece.class, told.getFirst());
    assertInstanceOf(NodeCall.Followed.Lost.class, told.getLast());
    LayerWriter next = new LayerWriter(harness);
    next.client.sendKeys(Verb.RESERVE, KEY + 1, 1);
    work();
    assertEquals(1, count(Counter.GAUGE_HOST_SLOTS_IN_FLIGHT), "the piece may be being sent");
    assertEquals(0, count(Counter.GAUGE_RESERVATIONS));
    unfollow(node, call);
    assertEquals(Status.OK, next.client.await().first());
    assertEquals(0, count(Counter.GAUGE_LEASES));
  }

  @Test
  void sessionThatEnds_letsGoOfALostBlock() throws IOException, ProtocolViolation {
    Session node = node(Grant.NO_TENANT);
    NodeCall.Follow ignored = follow(node);
    engine.write(KEY, 0);
    harness.close(engine.client);
    assertTrue(sessions.close(node));
    work();
    assertEquals(0, harness.directory().size());
    assertEquals(0, count(Counter.GAUGE_FOLLOWED));
  }

  @Test
  void wholeBlock_staysUntilTheNodeHasIt() throws IOException, ProtocolViolation {
    Session node = node(Grant.NO_TENANT);
    NodeCall.Follow call = follow(node);
    for (int layer = 0; layer < LayerWriter.LAYERS; layer++) {
      engine.write(KEY, layer);
    }
    assertEquals(LayerWriter.LAYERS + 1, told.size());
    assertInstanceOf(NodeCall.Followed.Whole.class, told.getLast());
    engine.client.sendKeys(Verb.RESERVE, KEY + 1, 1);
    work();
    assertFalse(engine.client.hasAnswer(), "its slot is the only one");
    unfollow(node, call);
    assertEquals(Status.OK, engine.client.await().first());
  }

  @Test
  void delivery_isTimed_fromTheLastLayerToTheNodesWord() throws IOException, ProtocolViolation {
    Session node = node(Grant.NO_TENANT);
    NodeCall.Follow call = follow(node);
    for (int layer = 0; layer < LayerWriter.LAYERS; layer++) {
      harness.nowNs += 1000;
      engine.write(KEY, layer);
    }
    harness.nowNs += 70;
    unfollow(node, call);
    assertEquals(1, deliveries());
    assertEquals(70, harness.latencies.sumNs(Latencies.Kind.DELIVER_NODE));
    NodeCall.Follow ofAWholeBlock = follow(node);
    unfollow(node, ofAWholeBlock);
    assertEquals(1, deliveries(), "the block was whole before");
  }

  @Test
  void deliveryThatIsGivenUp_isNotTimed() throws IOException, ProtocolViolation {
    Session node = node(Grant.NO_TENANT);
    NodeCall.Follow call = follow(node);
    engine.write(KEY, 0);
    unfollow(node, call);
    assertEquals(0, deliveries());
  }

  private long deliveries() {
    return Latencies.total(harness.latencies.counts(Latencies.Kind.DELIVER_NODE));
  }

  @Test
  void shardsThatDoNotFillALayer_areNoPiece() throws IOException, ProtocolViolation {
    NodeCall.Follow ignored = follow(node(Grant.NO_TENANT));
    assertEquals(List.of(), told);
    engine.write(KEY, 2);
    assertEquals(1, told.size());
    NodeCall.Followed.Piece piece =
        assertInstanceOf(NodeCall.Followed.Piece.class, told.getFirst());
    assertEquals(List.of(4, 2, 3), List.of(piece.units(), piece.from(), piece.to()));
  }

  @Test
  void severalNodes_areToldTheSame() throws IOException, ProtocolViolation {
    NodeCall.Follow ignored = follow(node(Grant.NO_TENANT));
    ignored = follow(node(Grant.NO_TENANT));
    engine.write(KEY, 0);
    assertEquals(2, told.size());
    assertEquals(told.getFirst(), told.getLast());
  }
}
