package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.session.ServedBlock;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.TracedRequest;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A daemon sends blocks that another node expects, piece by piece, over every transport. */
abstract class FollowContract extends FetchContract {
  private static final int BLOCK = IndexHarness.SLOT_BYTES;
  private static final long KEY = 77;
  private static final long SECOND_NS = 1_000_000_000L;

  final void follow(long id, int blockBytes) {
    follow(id, blockBytes, KEY);
  }

  private void follow(long id, int blockBytes, long key) {
    long[] name = fingerprint(LayerWriter.text());
    ByteBuffer body = ByteBuffer.allocate(48).order(ByteOrder.LITTLE_ENDIAN);
    body.putLong(SECOND_NS);
    body.putLong(name[0]).putLong(name[1]).putInt(0).putInt(8).putInt(1).putInt(blockBytes);
    sender.open().send(frame(FrameType.FOLLOW, id).with(body.putLong(key).flip()));
  }

  private void stop(long id) {
    sender.open().send(frame(FrameType.STOP, id));
  }

  /** Takes a piece, and compares its place and its bytes. */
  final void piece(long id, int units, int from, int to) {
    Frame piece = answer(id);
    assertEquals(FrameType.PIECE, piece.type());
    ByteBuffer body = piece.body();
    assertEquals(List.of(units, from, to), List.of(body.getInt(), body.getInt(), body.getInt()));
    await(() -> !sender.payloads.isEmpty());
    long begin = (long) BLOCK / units * from;
    long end = (long) BLOCK / units * to;
    assertArrayEquals(
        LayerWriter.block(KEY).asSlice(begin, end - begin).toArray(ValueLayout.JAVA_BYTE),
        sender.payloads.removeFirst());
  }

  final void whole(long id) {
    Frame whole = answer(id);
    assertEquals(FrameType.WHOLE, whole.type());
    assertEquals(Checksums.of(LayerWriter.block(KEY)), whole.checksum());
  }

  private boolean isUnused() {
    return count(Counter.GAUGE_FOLLOWED) == 0 && count(Counter.GAUGE_LEASES) == 0;
  }

  /** Everything that was sent before has been taken. */
  final void settle(long id) {
    sender.open().send(frame(FrameType.PING, id));
    assertEquals(FrameType.PONG, answer(id).type());
  }

  @Test
  void layers_comeAsTheyAreWritten_andThenTheChecksum() throws IOException, ProtocolViolation {
    greet();
    LayerWriter engine = new LayerWriter(index);
    follow(3, BLOCK);
    settle(4);
    engine.write(KEY, 1);
    piece(3, 4, 1, 2);
    engine.write(KEY, 0);
    piece(3, 4, 0, 1);
    assertEquals(1, count(Counter.GAUGE_FOLLOWED));
    engine.write(KEY, 3);
    engine.write(KEY, 2);
    piece(3, 4, 3, 4);
    piece(3, 4, 2, 3);
    whole(3);
    assertEquals(1, count(Counter.GAUGE_LEASES), "until the other node has the block");
    stop(3);
    await(this::isUnused);
    assertEquals(Status.OK, engine.client.ask(Verb.LOOKUP, KEY));
  }

  @Test
  void tracedRequest_isToldWhenTheWholeBlockWasSent() throws IOException, ProtocolViolation {
    greet();
    LayerWriter engine = new LayerWriter(index);
    ByteBuffer ids = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
    sender.open().send(frame(FrameType.TRACE, 3).with(ids.putLong(1).putLong(2).putLong(3).flip()));
    follow(3, BLOCK);
    settle(4);
    assertEquals(List.of(), served);
    for (int layer = 0; layer < 4; layer++) {
      engine.write(KEY, layer);
    }
    await(() -> sender.frames.stream().anyMatch(one -> one.type() == FrameType.WHOLE));
    await(() -> served.size() == 1);
    ServedBlock block = served.getFirst();
    assertEquals(new TracedRequest(1, 2, 3), block.request());
    assertEquals(Status.OK, block.status());
    assertEquals(BLOCK, block.bytes());
  }

  @Test
  void layersThatWereWrittenBefore_comeTogether() throws IOException, ProtocolViolation {
    greet();
    LayerWriter engine = new LayerWriter(index);
    engine.write(KEY, 0);
    engine.write(KEY, 1);
    follow(3, BLOCK);
    piece(3, 4, 0, 2);
    engine.write(KEY, 2);
    piece(3, 4, 2, 3);
  }

  @Test
  void blockThatIsThere_comesInOnePiece() throws IOException, ProtocolViolation {
    greet();
    LayerWriter engine = new LayerWriter(index);
    for (int layer = 0; layer < 4; layer++) {
      engine.write(KEY, layer);
    }
    follow(3, BLOCK);
    piece(3, 1, 0, 1);
    whole(3);
  }

  @Test
  void blockThatIsPutWhole_comesInOnePiece() throws IOException, ProtocolViolation {
    greet();
    LayerWriter engine = new LayerWriter(index);
    follow(3, BLOCK);
    settle(4);
    IndexHarness.Answer slot = engine.client.reserve(KEY, 1, false);
    index.slabs().asSlice(slot.places().getFirst(), BLOCK).copyFrom(LayerWriter.block(KEY));
    assertEquals(Status.OK, engine.client.commit(slot.ids().getFirst()));
    piece(3, 1, 0, 1);
    whole(3);
  }

  @Test
  void writerThatDies_isTold_andTheSlotIsFree() throws IOException, ProtocolViolation {
    greet();
    LayerWriter engine = new LayerWriter(index);
    follow(3, BLOCK);
    engine.write(KEY, 0);
    piece(3, 4, 0, 1);
    index.close(engine.client);
    Frame none = answer(3);
    assertEquals(List.of(FrameType.NONE, Status.MISS), List.of(none.type(), none.status()));
    assertEquals("a part of the block was lost", none.text());
    await(this::isUnused);
    assertEquals(0, index.directory().size());
  }

  @Test
  void blockThatIsNotWritten_isGivenUp_whenItsTimeIsOver() {
    greet();
    follow(3, BLOCK);
    settle(4);
    index.nowNs += SECOND_NS + 1;
    Frame none = answer(3);
    assertEquals(List.of(FrameType.NONE, Status.DEADLINE), List.of(none.type(), none.status()));
    await(this::isUnused);
  }

  @Test
  void manyBlocksThatEndAtOnce_areToldWithoutAFullQueue() {
    greet();
    for (int i = 0; i < 2000; i++) {
      follow(10 + i, BLOCK, 1000 + i);
      if (i % 100 == 0) {
        turn();
      }
    }
    await(() -> count(Counter.GAUGE_FOLLOWED) == 2000);
    index.nowNs += SECOND_NS + 1;
    await(() -> sender.frames.size() == 2000);
    assertTrue(sender.frames.stream().allMatch(one -> one.type() == FrameType.NONE));
    assertEquals("", sender.closed);
  }

  @Test
  void blockThatIsWantedNoMore_isNotSent() throws IOException, ProtocolViolation {
    greet();
    LayerWriter engine = new LayerWriter(index);
    follow(3, BLOCK);
    engine.write(KEY, 0);
    piece(3, 4, 0, 1);
    stop(3);
    await(this::isUnused);
    engine.write(KEY, 1);
    settle(4);
    assertEquals(List.of(), sender.frames);
  }

  @Test
  void nodeThatLeaves_hasNoLease() throws IOException, ProtocolViolation {
    greet();
    LayerWriter engine = new LayerWriter(index);
    follow(3, BLOCK);
    engine.write(KEY, 0);
    piece(3, 4, 0, 1);
    sender.open().close("enough");
    await(this::isUnused);
  }

  @Test
  void blockOfAnotherLength_isNone() throws IOException, ProtocolViolation {
    greet();
    LayerWriter engine = new LayerWriter(index);
    follow(3, 2 * BLOCK);
    engine.write(KEY, 0);
    Frame none = answer(3);
    assertEquals(List.of(FrameType.NONE, Status.MISS), List.of(none.type(), none.status()));
    await(this::isUnused);
  }

  @Test
  void followOfGarbage_closesTheLink() {
    greet();
    sender.open().send(frame(FrameType.FOLLOW, 3).with(ByteBuffer.allocate(48)));
    await(() -> !sender.closed.isEmpty());
    assertTrue(isUnused());
  }
}
