package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameException;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.node.NodeTransport;
import io.kvtier.tiers.transfer.Checksums;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What every {@link NodeTransport} does. */
abstract class NodeTransportContract {
  private static final long TIMEOUT_NS = 20_000_000_000L;

  /** A transport that makes links, and one that accepts them, at an address. */
  record Pair(NodeTransport from, NodeTransport to, NodeAddress address) {}

  /** Makes both sides; the acceptor gives a listener to each link that comes. */
  abstract Pair open(NodeLink.Listener acceptor) throws IOException;

  /** A side of a link, which notes all that it hears. */
  static class Side implements NodeLink.Listener {
    final List<String> texts = new ArrayList<>();
    final List<Frame> frames = new ArrayList<>();
    final List<Integer> checksums = new ArrayList<>();
    final Deque<MemorySegment> targets = new ArrayDeque<>();
    @Nullable NodeLink link;
    String closed = "";
    int kept;

    @Override
    public void onOpen(NodeLink opened) {
      link = opened;
      opened.trust();
    }

    @Override
    public @Nullable MemorySegment onFrame(NodeLink from, Frame frame) throws FrameException {
      link = from;
      texts.add(frame.text());
      frames.add(frame);
      return frame.payloadBytes() == 0 ? null : targets.poll();
    }

    @Override
    public void onPayload(NodeLink from, int checksum, boolean isKept) {
      checksums.add(checksum);
      kept += isKept ? 1 : 0;
    }

    @Override
    public void onClosed(NodeLink from, String why) {
      closed = why.isEmpty() ? "without a reason" : why;
    }

    NodeLink open() {
      NodeLink opened = link;
      assertTrue(opened != null, "not open");
      return opened;
    }
  }

  private final Side reader = new Side();
  private final Side holder = new Side();
  private final Arena arena = Arena.ofShared();
  private @Nullable Pair pair;

  @BeforeEach
  void connect() throws IOException {
    Pair made = open(holder);
    pair = made;
    var _ = made.from.connect(made.address, reader);
    await(() -> reader.link != null);
    await(() -> isSettled(reader.link, holder.link));
  }

  /** Whether both sides have agreed on how blocks go. */
  boolean isSettled(@Nullable NodeLink here, @Nullable NodeLink there) {
    return true;
  }

  @AfterEach
  void close() {
    Pair made = pair;
    if (made != null) {
      made.from.close();
      made.to.close();
    }
    arena.close();
  }

  private void turn() {
    Pair made = pair;
    if (made != null) {
      var _ = made.from.poll(0) + made.to.poll(1_000_000);
    }
  }

  final void await(BooleanSupplier condition) {
    long end = System.nanoTime() + TIMEOUT_NS;
    while (!condition.getAsBoolean()) {
      turn();
      assertTrue(System.nanoTime() < end, "reader: " + reader.closed + ", " + holder.closed);
    }
  }

  private static Frame frame(FrameType type, long id) {
    return Frame.of(type, Status.OK, 11, 22, id);
  }

  private MemorySegment block(int bytes, int seed) {
    MemorySegment block = arena.allocate(bytes, 8);
    for (int i = 0; i < bytes; i++) {
      block.set(ValueLayout.JAVA_BYTE, i, (byte) (i * 31 + seed + (i >> 9)));
    }
    return block;
  }

  private void sendBlock(NodeLink link, long id, MemorySegment block, Runnable sent) {
    link.send(
        frame(FrameType.BLOCK, id).with((int) block.byteSize(), Checksums.of(block), id),
        block,
        sent);
  }

  @Test
  void frames_comeInOrder_withTheirFields() {
    for (int i = 0; i < 200; i++) {
      reader.open().send(frame(FrameType.ASK, i).with("question " + i));
    }
    await(() -> holder.frames.size() == 200);
    for (int i = 0; i < 200; i++) {
      Frame frame = holder.frames.get(i);
      assertEquals("question " + i, holder.texts.get(i));
      assertEquals(
          List.of(11L, 22L, (long) i), List.of(frame.sender(), frame.receiver(), frame.id()));
      assertEquals(FrameType.ASK, frame.type());
    }
    holder.open().send(Frame.of(FrameType.NONE, Status.MISS, 22, 11, 7));
    await(() -> reader.frames.size() == 1);
    assertEquals(Status.MISS, reader.frames.getFirst().status());
  }

  @Test
  void longBody_comesWhole() {
    byte[] body = new byte[60_000];
    for (int i = 0; i < body.length; i++) {
      body[i] = (byte) ('a' + i % 26);
    }
    reader.open().send(frame(FrameType.ASK, 1).with(ByteBuffer.wrap(body)));
    reader.open().send(frame(FrameType.PING, 2));
    await(() -> holder.frames.size() == 2);
    assertEquals(new String(body, StandardCharsets.US_ASCII), holder.texts.getFirst());
  }

  @Test
  void blocks_comeIntoTheirTargets_withTheChecksumOfWhatCame() {
    reader.open().send(frame(FrameType.FETCH, 0));
    await(() -> holder.link != null);
    int[] lengths = {1, 4096, 65_536, 100_001, 3 << 20};
    List<MemorySegment> targets = new ArrayList<>();
    List<MemorySegment> blocks = new ArrayList<>();
    int[] sent = {0};
    for (int i = 0; i < lengths.length; i++) {
      targets.add(arena.allocate(lengths[i], 8));
      blocks.add(block(lengths[i], i));
      reader.targets.add(targets.getLast());
      sendBlock(holder.open(), i, blocks.getLast(), () -> sent[0]++);
      holder.open().send(frame(FrameType.PONG, 100 + i));
    }
    await(() -> reader.checksums.size() == lengths.length && sent[0] == lengths.length);
    for (int i = 0; i < lengths.length; i++) {
      assertEquals(-1, targets.get(i).mismatch(blocks.get(i)), "block " + i);
      assertEquals(Checksums.of(blocks.get(i)), reader.checksums.get(i));
    }
    await(() -> reader.frames.size() == 2 * lengths.length);
    assertEquals(lengths.length, reader.kept);
  }

  @Test
  void memoryThatWasSent_mayChange() {
    reader.open().send(frame(FrameType.FETCH, 0));
    await(() -> holder.link != null);
    MemorySegment block = block(2 << 20, 3);
    int checksum = Checksums.of(block);
    reader.targets.add(arena.allocate(2 << 20, 8));
    sendBlock(holder.open(), 1, block, () -> block.fill((byte) 0));
    await(() -> reader.checksums.size() == 1);
    assertEquals(checksum, reader.checksums.getFirst());
  }

  @Test
  void blockThatNobodyWants_goesNowhere() {
    reader.open().send(frame(FrameType.FETCH, 0));
    await(() -> holder.link != null);
    sendBlock(holder.open(), 1, block(300_000, 1), () -> {});
    MemorySegment target = arena.allocate(4096, 8);
    reader.targets.clear();
    await(() -> reader.checksums.size() == 1);
    assertEquals(0, reader.kept);
    reader.targets.add(target);
    MemorySegment block = block(4096, 2);
    sendBlock(holder.open(), 2, block, () -> {});
    await(() -> reader.checksums.size() == 2);
    assertEquals(-1, target.mismatch(block));
  }

  @Test
  void targetThatWasReleased_isNotWrittenAnyMore() {
    reader.open().send(frame(FrameType.FETCH, 0));
    await(() -> holder.link != null);
    MemorySegment target = arena.allocate(8 << 20, 8);
    reader.targets.add(target);
    sendBlock(holder.open(), 1, block(8 << 20, 5), () -> {});
    await(() -> reader.frames.size() == 1);
    assertTrue(reader.checksums.isEmpty(), "the block came at once");
    boolean[] released = {false};
    reader
        .open()
        .discard(() -> {
          released[0] = true;
          target.fill((byte) 0x55);
        });
    await(() -> reader.checksums.size() == 1);
    assertTrue(released[0]);
    assertEquals(0, reader.kept);
    for (long i = 0; i < target.byteSize(); i++) {
      assertEquals(0x55, target.get(ValueLayout.JAVA_BYTE, i));
    }
  }

  @Test
  void blocksOfBothSides_comeIntoTheirTargets() {
    reader.open().send(frame(FrameType.PING, 0));
    await(() -> holder.link != null);
    MemorySegment pushed = block(3 << 20, 7);
    MemorySegment served = block(3 << 20, 8);
    MemorySegment there = arena.allocate(3 << 20, 8);
    MemorySegment here = arena.allocate(3 << 20, 8);
    holder.targets.add(there);
    reader.targets.add(here);
    reader
        .open()
        .send(frame(FrameType.PUSH, 1).with(3 << 20, Checksums.of(pushed), 0), pushed, () -> {});
    sendBlock(holder.open(), 2, served, () -> {});
    await(() -> holder.checksums.size() == 1 && reader.checksums.size() == 1);
    assertEquals(-1, there.mismatch(pushed));
    assertEquals(-1, here.mismatch(served));
    assertEquals(Checksums.of(pushed), holder.checksums.getFirst());
  }

  @Test
  void linkThatBreaksInABlock_leavesItsTargetAlone_afterTheEnd() {
    reader.open().send(frame(FrameType.PING, 0));
    await(() -> holder.link != null);
    // More than the kernel keeps of a connection.
    int bytes = 24 << 20;
    MemorySegment target = arena.allocate(bytes, 8);
    holder.targets.add(target);
    reader.open().send(frame(FrameType.PUSH, 1).with(bytes, 0, 0), block(bytes, 5), () -> {});
    await(() -> holder.frames.size() == 2);
    reader.open().close("enough");
    await(() -> !holder.closed.isEmpty());
    assertTrue(holder.checksums.isEmpty(), "the block came whole");
    target.fill((byte) 0x55);
    for (int i = 0; i < 20; i++) {
      turn();
    }
    for (long i = 0; i < bytes; i += 4096) {
      assertEquals(0x55, target.get(ValueLayout.JAVA_BYTE, i));
    }
  }

  @Test
  void targetOfAnotherLength_closesTheLink() {
    reader.open().send(frame(FrameType.FETCH, 0));
    await(() -> holder.link != null);
    reader.targets.add(arena.allocate(100, 8));
    sendBlock(holder.open(), 1, block(200, 1), () -> {});
    await(() -> !reader.closed.isEmpty());
    await(() -> !holder.closed.isEmpty());
  }

  @Test
  void close_isHeardOnBothSides_once() {
    reader.open().send(frame(FrameType.PING, 0));
    await(() -> holder.link != null);
    reader.open().close("enough");
    await(() -> !reader.closed.isEmpty() && !holder.closed.isEmpty());
    assertEquals("enough", reader.closed);
    reader.closed = "";
    reader.open().send(frame(FrameType.PING, 1));
    reader.open().close("again");
    turn();
    assertEquals("", reader.closed);
  }

  @Test
  void addressWhereNobodyListens_closesTheLink_withAReason() {
    Side nobody = new Side();
    Pair made = pair;
    assertTrue(made != null);
    var _ = made.from.connect(new NodeAddress("127.0.0.1", 1), nobody);
    await(() -> !nobody.closed.isEmpty());
    assertNotEquals("without a reason", nobody.closed);
    assertFalse(nobody.link != null);
  }
}
