package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.transfer.Checksums;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** A daemon takes the blocks that another node pushes, over every transport. */
abstract class PushContract extends FollowContract {
  private static String text(int blockBytes) {
    return blockBytes + "\nname=pushed\nsize=" + blockBytes;
  }

  /** Tells the properties of the namespace of blocks of a length; returns its fingerprint. */
  private long[] introduce(int blockBytes) {
    long[] name = fingerprint(text(blockBytes));
    byte[] text = text(blockBytes).getBytes(StandardCharsets.UTF_8);
    ByteBuffer body = ByteBuffer.allocate(16 + text.length).order(ByteOrder.LITTLE_ENDIAN);
    body.putLong(name[0]).putLong(name[1]).put(text).flip();
    sender.open().send(frame(FrameType.SPACE, 2).with(body));
    return name;
  }

  private void reserve(long id, long[] name, int blockBytes, long key, int checksum) {
    ByteBuffer body = reserveBody(name, blockBytes, key);
    sender.open().send(frame(FrameType.RESERVE, id).with(0, checksum, 0).with(body));
  }

  private static ByteBuffer reserveBody(long[] name, int blockBytes, long key) {
    ByteBuffer body = ByteBuffer.allocate(56).order(ByteOrder.LITTLE_ENDIAN);
    body.putInt(3).putInt(1).putLong(99);
    body.putLong(name[0]).putLong(name[1]).putInt(0).putInt(8).putInt(1).putInt(blockBytes);
    return body.putLong(key).flip();
  }

  private void push(long id, MemorySegment block) {
    sender
        .open()
        .send(
            frame(FrameType.PUSH, id).with((int) block.byteSize(), Checksums.of(block), 0),
            block,
            () -> {});
  }

  /** What a client here finds in the place of a key; null for nothing. */
  private @Nullable MemorySegment found(int blockBytes, long key)
      throws IOException, ProtocolViolation {
    IndexHarness.Client client = index.open();
    String properties = text(blockBytes).substring(text(blockBytes).indexOf('\n') + 1);
    assertEquals(Status.OK, client.say(Verb.REGISTER, blockBytes, properties));
    client.sendKeys(Verb.ACQUIRE, key, 1);
    IndexHarness.Answer got = client.await();
    return got.first() == Status.OK
        ? index.slabs().asSlice(got.places().getFirst(), blockBytes)
        : null;
  }

  private boolean isAllFree() {
    return count(Counter.GAUGE_RESERVATIONS) == 0
        && count(Counter.GAUGE_PUSHED_BYTES) == 0
        && index.directory().size() == 0;
  }

  // ---- for networks with further tests

  /** Has a slot reserved to which no bytes come. */
  final void reserveOne() {
    greet();
    reserve(3, introduce(4096), 4096, 77, 0);
    assertEquals(FrameType.GO, answer(3).type());
  }

  /** Waits until the link is closed and all slots are free. */
  final void awaitTheEnd() {
    await(() -> !sender.closed.isEmpty());
    await(this::isAllFree);
  }

  final String reasonOfTheEnd() {
    return sender.closed;
  }

  // ---- tests

  @Test
  void pushedBlock_isVisible_withItsBytes() throws IOException, ProtocolViolation {
    greet();
    long[] name = introduce(4096);
    assertEquals(FrameType.GO, answer(2).type());
    MemorySegment block = block(4096, 5);
    reserve(3, name, 4096, 77, Checksums.of(block));
    assertEquals(FrameType.GO, answer(3).type());
    assertEquals(4096, count(Counter.GAUGE_PUSHED_BYTES));
    push(3, block);
    Frame pushed = answer(3);
    assertEquals(List.of(FrameType.PUSHED, Status.OK), List.of(pushed.type(), pushed.status()));
    assertEquals(1, count(Counter.NODE_TAKEN));
    assertEquals(4096, count(Counter.NODE_TAKEN_BYTES));
    reserve(4, name, 4096, 77, Checksums.of(block));
    assertEquals(FrameType.HAVE, answer(4).type());
    MemorySegment found = found(4096, 77);
    assertTrue(found != null);
    assertEquals(-1, found.mismatch(block));
    assertEquals(0, count(Counter.GAUGE_PUSHED_BYTES), "it was used here");
  }

  @Test
  void bytesThatDoNotMatchTheirChecksum_areNeverVisible() throws IOException, ProtocolViolation {
    greet();
    long[] name = introduce(4096);
    MemorySegment block = block(4096, 5);
    reserve(3, name, 4096, 77, Checksums.of(block) + 1);
    assertEquals(FrameType.GO, answer(3).type());
    push(3, block);
    assertEquals(Status.CORRUPT, answer(3).status());
    await(this::isAllFree);
    assertEquals(1, count(Counter.NODE_TAKE_CORRUPT));
    assertEquals(null, found(4096, 77));
  }

  @Test
  void blockThatIsCutOff_freesItsSlot_andIsNotVisible() throws IOException, ProtocolViolation {
    greet();
    long[] name = introduce(LONG_BYTES);
    MemorySegment block = block(LONG_BYTES, 5);
    reserve(3, name, LONG_BYTES, 77, Checksums.of(block));
    assertEquals(FrameType.GO, answer(3).type());
    push(3, block);
    turn();
    sender.open().close("enough");
    await(() -> !sender.closed.isEmpty());
    await(this::isAllFree);
    assertEquals(null, found(LONG_BYTES, 77));
  }

  @Test
  void abortedBlock_freesItsSlot_andItsLateBytesGoNowhere() throws IOException, ProtocolViolation {
    greet();
    long[] name = introduce(4096);
    MemorySegment late = block(4096, 5);
    MemorySegment other = block(4096, 6);
    reserve(3, name, 4096, 77, Checksums.of(late));
    assertEquals(FrameType.GO, answer(3).type());
    sender.open().send(frame(FrameType.ABORT, 3));
    await(this::isAllFree);
    // The slot is another block's now.
    reserve(4, name, 4096, 78, Checksums.of(other));
    assertEquals(FrameType.GO, answer(4).type());
    push(4, other);
    assertEquals(Status.OK, answer(4).status());
    push(3, late);
    sender.open().send(frame(FrameType.PING, 5));
    assertEquals(FrameType.PONG, answer(5).type());
    MemorySegment found = found(4096, 78);
    assertTrue(found != null);
    assertEquals(-1, found.mismatch(other));
    assertEquals(null, found(4096, 77));
  }

  @Test
  void abortBeforeTheSlotIsThere_freesIt() {
    greet();
    long[] name = introduce(4096);
    assertEquals(FrameType.GO, answer(2).type());
    reserve(3, name, 4096, 77, 0);
    sender.open().send(frame(FrameType.ABORT, 3));
    sender.open().send(frame(FrameType.PING, 4));
    assertEquals(FrameType.PONG, answer(4).type());
    await(this::isAllFree);
  }

  @Test
  void nodeThatLeaves_freesAllThatItReserved() {
    greet();
    long[] name = introduce(4096);
    for (int i = 0; i < 20; i++) {
      reserve(10 + i, name, 4096, i, 0);
    }
    await(() -> count(Counter.GAUGE_RESERVATIONS) == 20);
    sender.open().close("enough");
    await(this::isAllFree);
  }

  @Test
  void blocksBeyondTheBound_areAskedForLater() {
    greet();
    long[] name = introduce(4096);
    assertEquals(FrameType.GO, answer(2).type());
    for (int i = 0; i < 100; i++) {
      reserve(10 + i, name, 4096, i, 0);
    }
    await(() -> sender.frames.size() == 100);
    long refused =
        sender.frames.stream()
            .filter(one -> one.type() == FrameType.NO && one.status() == Status.PENDING)
            .count();
    assertEquals(36, refused);
    assertEquals(64, count(Counter.GAUGE_RESERVATIONS));
  }

  @Test
  void pushedBlocks_fillTheirShareAtMost() {
    greet();
    long[] name = introduce(LONG_BYTES);
    assertEquals(FrameType.GO, answer(2).type());
    reserve(3, name, LONG_BYTES, 1, 0);
    reserve(4, name, LONG_BYTES, 2, 0);
    assertEquals(FrameType.GO, answer(3).type());
    assertEquals(Status.OVER_QUOTA, answer(4).status());
    assertEquals(1, count(Counter.NODE_TAKE_REFUSED));
  }

  @Test
  void drainedDaemon_takesNoBlock() {
    var _ = index.agent().command("drain on");
    greet();
    long[] name = introduce(4096);
    reserve(3, name, 4096, 77, 0);
    assertEquals(Status.NOT_ADMITTED, answer(3).status());
  }

  @Test
  void nodeThatMayOnlyRead_isRefused_andCounted() {
    role = Role.READ;
    greet();
    long[] name = introduce(4096);
    assertEquals(Status.DENIED, answer(2).status());
    reserve(3, name, 4096, 77, 0);
    assertEquals(Status.DENIED, answer(3).status());
    assertEquals(1, count(Counter.NODE_TAKE_REFUSED));
    assertTrue(isAllFree());
  }

  @Test
  void namespaceThatWasNotTold_isRefused() {
    greet();
    reserve(3, fingerprint(text(4096)), 4096, 77, 0);
    assertEquals(Status.NAMESPACE_UNKNOWN, answer(3).status());
  }

  @Test
  void propertiesOfAnotherFingerprint_areRefused() {
    greet();
    byte[] text = text(4096).getBytes(StandardCharsets.UTF_8);
    ByteBuffer body = ByteBuffer.allocate(16 + text.length).order(ByteOrder.LITTLE_ENDIAN);
    sender.open().send(frame(FrameType.SPACE, 2).with(body.putLong(1).putLong(2).put(text).flip()));
    assertEquals(Status.INVALID_ARGUMENT, answer(2).status());
  }

  @Test
  void blockOfAnotherLength_isRefused() {
    greet();
    long[] name = introduce(4096);
    reserve(3, name, 8192, 77, 0);
    assertEquals(Status.INVALID_ARGUMENT, answer(3).status());
  }

  @Test
  void bytesOfAnotherLength_closeTheLink() {
    greet();
    long[] name = introduce(4096);
    reserve(3, name, 4096, 77, 0);
    assertEquals(FrameType.GO, answer(3).type());
    push(3, block(8192, 1));
    await(() -> !sender.closed.isEmpty());
    await(this::isAllFree);
  }

  @Test
  void reserveOfGarbage_closesTheLink() {
    greet();
    ByteBuffer body = ByteBuffer.allocate(56);
    sender.open().send(frame(FrameType.RESERVE, 3).with(body));
    await(() -> !sender.closed.isEmpty());
    assertTrue(isAllFree());
  }

  @Test
  void framesOfAnEarlierStart_areIgnored() {
    greet();
    long[] name = introduce(4096);
    assertEquals(FrameType.GO, answer(2).type());
    Frame stale = Frame.of(FrameType.RESERVE, Status.OK, OURS, THEIRS + 1, 3);
    sender.open().send(stale.with(reserveBody(name, 4096, 5)));
    sender.open().send(frame(FrameType.PING, 4));
    assertEquals(FrameType.PONG, answer(4).type());
    assertTrue(isAllFree());
  }
}
