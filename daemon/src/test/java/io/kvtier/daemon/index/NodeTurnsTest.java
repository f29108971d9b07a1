package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.node.Messages;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Other nodes ask the index in turns. */
class NodeTurnsTest {
  private static final int KEY_BYTES = 8;
  private static final int CALLS = 64;

  private final Arena arena = Arena.ofConfined();
  private IndexHarness index;
  private int answers;

  @SuppressWarnings("NullAway.Init") // open() comes first
  NodeTurnsTest() {}

  @BeforeEach
  void open() throws IOException {
    index = new IndexHarness(16, IndexHarness.SLOT_BYTES);
  }

  @AfterEach
  void close() {
    index.close();
    arena.close();
  }

  private NodeCall find(int keys, Runnable answered) {
    MemorySegment none = arena.allocate((long) keys * KEY_BYTES, KEY_BYTES);
    return new NodeCall.Find(
        new NodeCall.Blocks(1, 2, 0, KEY_BYTES, keys, none), _ -> answered.run());
  }

  /** A node that asks about as many blocks as it can. */
  private IndexHarness.Client flooding() throws IOException {
    IndexHarness.Client node = index.open();
    for (int i = 0; i < CALLS; i++) {
      assertTrue(
          index.agent().offerNodeCall(node.session, find(Messages.KEYS_MAX, () -> answers++)));
    }
    return node;
  }

  @Test
  void nodeThatAsksMuch_delaysNeitherOtherNodesNorClients() throws IOException, ProtocolViolation {
    IndexHarness.Client client = index.open();
    client.register();
    IndexHarness.Client other = index.open();
    var _ = flooding();
    boolean[] isAnswered = new boolean[1];
    assertTrue(index.agent().offerNodeCall(other.session, find(1, () -> isAnswered[0] = true)));
    client.sendWords(Verb.LOOKUP, 0, 8, 1, new long[] {77});
    assertEquals(Status.MISS, client.work().first(), "of the first round");
    assertTrue(isAnswered[0]);
    assertTrue(answers < CALLS / 4, answers + " of the node's questions came before");
    while (index.agent().hasWork()) {
      var _ = index.agent().doWork();
    }
    assertEquals(CALLS, answers);
  }

  @Test
  void nodeThatLeaves_hasItsCallsAnswered() throws IOException {
    IndexHarness.Client node = flooding();
    var _ = index.agent().doWork();
    assertTrue(answers < CALLS);
    index.close(node);
    assertEquals(CALLS, answers);
  }

  @Test
  void nodeThatLeaves_isToldOfNoBlock_becauseNobodyReadsTheAnswer()
      throws IOException, ProtocolViolation {
    LayerWriter engine = new LayerWriter(index);
    for (int layer = 0; layer < LayerWriter.LAYERS; layer++) {
      engine.write(77, layer);
    }
    long[] name = ServedContract.fingerprint(LayerWriter.text());
    MemorySegment key = arena.allocate(KEY_BYTES, KEY_BYTES);
    key.set(ValueLayout.JAVA_LONG, 0, 77);
    NodeCall.Blocks blocks = new NodeCall.Blocks(name[0], name[1], 0, KEY_BYTES, 1, key);
    List<Byte> places = new ArrayList<>();
    NodeCall find = new NodeCall.Find(blocks, found -> places.add(found.places().get(0)));
    IndexHarness.Client node = index.open();
    assertTrue(index.agent().offerNodeCall(node.session, find));
    var _ = index.agent().doWork();
    assertTrue(index.agent().offerNodeCall(node.session, find));
    index.close(node);
    assertEquals(List.of(NodeCall.FIRST, NodeCall.ABSENT), places);
  }
}
