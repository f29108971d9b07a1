package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.node.HandOver;
import io.kvtier.daemon.node.NodeIndex;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.node.NodeHints;
import io.kvtier.tiers.node.NodeReader;
import io.kvtier.tiers.node.NodeTier;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Which blocks are handed to other nodes first. */
class HandOverOrderTest {
  private IndexHarness index;
  private IndexHarness.Client client;

  @SuppressWarnings("NullAway.Init") // open() comes first
  HandOverOrderTest() {}

  /** How often the index was asked to end a session, and the attempt that it takes. */
  private int closes;

  private int closesNeeded = 1;

  @BeforeEach
  void open() throws IOException, ProtocolViolation {
    index = new IndexHarness(16, IndexHarness.SLOT_BYTES);
    client = index.open();
    client.register();
  }

  @AfterEach
  void close() {
    index.close();
  }

  /** Puts the blocks of one sequence, whose keys follow one another. */
  private void put(long firstKey, int count) throws ProtocolViolation {
    IndexHarness.Answer reserved = client.reserve(firstKey, count, true);
    for (long id : reserved.ids()) {
      client.sendIds(Verb.COMMIT, RequestDescriptor.FLAG_CHECKSUMS, 1, id, 0);
      assertEquals(Status.OK, client.work().first());
    }
  }

  /** The keys of all blocks in the order in which they are handed over. */
  private List<Long> order() {
    List<Long> keys = new ArrayList<>();
    assertTrue(
        index
            .agent()
            .offerNodeCall(
                client.session,
                new NodeCall.Rank(blocks -> {
                  for (int block : blocks) {
                    byte[] key = new byte[Protocol.KEY_BYTES_MAX];
                    index.directory().copyKey(block, key);
                    keys.add(MemorySegment.ofArray(key).get(ValueLayout.JAVA_LONG_UNALIGNED, 0));
                  }
                })));
    var _ = index.agent().doWork();
    return keys;
  }

  @Test
  void blocksThatWouldLeaveLast_comeFirst_eachBehindItsHead() throws ProtocolViolation {
    put(10, 4);
    put(20, 1);
    put(30, 2);
    assertEquals(List.of(30L, 31L, 20L, 10L, 11L, 12L, 13L), order());
  }

  @Test
  void retainedBlocks_comeBeforeAllOthers_behindTheirHeads() throws ProtocolViolation {
    put(10, 4);
    put(20, 1);
    assertEquals(Status.OK, client.retain(11, 1, 60_000_000_000L).first());
    assertEquals(List.of(10L, 11L, 20L, 12L, 13L), order());
  }

  @Test
  void blockWhoseHeadHasLeft_comesAlone() throws ProtocolViolation {
    put(10, 3);
    assertEquals(Status.OK, client.ask(Verb.DELETE, 10));
    assertEquals(List.of(11L, 12L), order());
  }

  /** An index all of whose leases are in use. */
  private NodeIndex withoutLeases() {
    return new NodeIndex() {
      @Override
      public Session open(String name, Grant grant, Runnable ended) {
        return client.session;
      }

      @Override
      public boolean call(Session session, NodeCall call) {
        switch (call) {
          case NodeCall.Rank rank -> rank.answer().accept(new int[] {0, 1});
          case NodeCall.Keep keep -> keep.answer().accept(new NodeCall.Keeping.Busy());
          default -> throw new AssertionError(call);
        }
        return true;
      }

      @Override
      public boolean close(Session session) {
        closes++;
        return closes == closesNeeded;
      }

      @Override
      public MemorySegment slab(int slab) {
        return MemorySegment.NULL;
      }
    };
  }

  private HandOver handOverWithoutLeases() {
    NodeTier alone =
        new NodeTier(
            List.of(),
            new NodeReader.Options("alone", 1, () -> "", text -> text, 1, 1),
            new NodeHints(),
            () -> 1,
            () -> {},
            TroubleLog.NONE);
    HandOver handing = new HandOver(alone, withoutLeases(), () -> 1, () -> {});
    assertTrue(handing.start(1000, 1 << 20));
    for (int i = 0; i < 10; i++) {
      var _ = handing.doWork();
    }
    return handing;
  }

  @Test
  void blocksThatCantBeKeptHere_areNotCountedAsRefusedByNodes() {
    HandOver handing = handOverWithoutLeases();
    assertFalse(handing.progress().isRunning());
    assertEquals(2, handing.progress().unkept());
    assertEquals(Map.of(), handing.progress().refused());
    assertEquals(1, closes);
  }

  @Test
  void sessionThatTheIndexHasNoSpaceToEnd_isEndedInALaterRound() {
    closesNeeded = 3;
    HandOver handing = handOverWithoutLeases();
    assertFalse(handing.progress().isRunning());
    assertEquals(3, closes);
  }
}
