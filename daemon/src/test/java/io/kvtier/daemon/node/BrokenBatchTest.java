package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameException;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.Messages;
import io.kvtier.tiers.node.NodeHints;
import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.node.NodeReader;
import io.kvtier.tiers.node.NodeTier;
import io.kvtier.tiers.object.BlockKey;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A connection over TCP breaks inside a batch of blocks. The test is the node that has them. */
class BrokenBatchTest {
  /** More than the kernel takes at a time. A node is asked for three such blocks at a time. */
  private static final int LONG_BYTES = 5 << 20;

  private static final long NODE = 5;
  private static final long READER = 7;
  private static final long TIMEOUT_NS = 30_000_000_000L;
  private static final long FETCH_NS = 20_000_000_000L;
  private static final byte OLD = 1;
  private static final byte NEW = 2;

  /** Has all blocks, and answers what it is asked; the bytes that it sends are a test's affair. */
  private static final class Holder implements NodeLink.Listener {
    final List<NodeLink> links = new ArrayList<>();

    /** The number of the first block of the last FETCH, and how many it names. */
    long firstId;

    int named;

    @Override
    public void onOpen(NodeLink link) {
      links.add(link);
    }

    @Override
    public MemorySegment onFrame(NodeLink link, Frame frame) throws FrameException {
      switch (frame.type()) {
        case HELLO -> link.send(answer(FrameType.WELCOME, frame.id()).with("holder"));
        case PING -> link.send(answer(FrameType.PONG, frame.id()));
        case ASK -> {
          byte[] places = new byte[Messages.Keys.of(frame.body()).count()];
          Arrays.fill(places, Frame.IN_MEMORY);
          Messages.Places all = new Messages.Places(0, ByteBuffer.wrap(places));
          link.send(answer(FrameType.ANSWER, frame.id()).with(all.body()));
        }
        case FETCH -> {
          named = Messages.Keys.ofFetch(frame.body()).count();
          firstId = frame.id();
        }
        default -> {}
      }
      return MemorySegment.NULL;
    }

    @Override
    public void onPayload(NodeLink link, int checksum, boolean isKept) {}

    @Override
    public void onClosed(NodeLink link, String why) {}

    NodeLink link() {
      return links.getLast();
    }

    /** Sends the bytes of the i-th block of the batch. */
    void deliver(int i, MemorySegment bytes) {
      Frame block = answer(FrameType.BLOCK, firstId + i);
      link().send(block.with((int) bytes.byteSize(), Checksums.of(bytes), 1 + i), bytes, () -> {});
    }

    private static Frame answer(FrameType type, long id) {
      return Frame.of(type, Status.OK, NODE, READER, id);
    }
  }

  private final Holder holder = new Holder();
  private final Arena arena = Arena.ofShared();
  private final NodeHints hints = new NodeHints();
  private final Loopback sides;
  private final NodeTier tier;
  private final NodeReader reader;
  private final List<Transfer> finished = new ArrayList<>();

  BrokenBatchTest() throws IOException {
    sides =
        new Loopback(
            null,
            make -> {
              var _ = make.apply(holder);
              return true;
            });
    tier =
        new NodeTier(
            List.of(sides.from()),
            new NodeReader.Options("reader", READER, () -> "", text -> text, FETCH_NS, FETCH_NS),
            hints,
            () -> 1,
            () -> {},
            TroubleLog.NONE);
    reader = tier.readers().getFirst();
    tier.join(sides.address());
    await(tier::isOpen);
  }

  @AfterEach
  void stop() throws IOException {
    sides.from().close();
    sides.to().close();
    sides.close();
    arena.close();
  }

  private void turn() {
    var _ = reader.doWork() + sides.from().poll(0) + sides.to().poll(1_000_000);
    var _ = tier.pipeline().collect(finished::add);
  }

  private void await(BooleanSupplier condition) {
    long end = System.nanoTime() + TIMEOUT_NS;
    while (!condition.getAsBoolean()) {
      turn();
      assertTrue(System.nanoTime() < end, () -> "after " + finished.size() + " blocks");
    }
  }

  private static Transfer block(int key) {
    Transfer block = new Transfer(0);
    block.namespaceHigh = 1;
    block.namespaceLow = 2;
    block.keyBytes = 8;
    ByteBuffer.wrap(block.key).putLong(key);
    return block;
  }

  /** Has blocks fetched in one batch, each to memory of its own. */
  private List<Transfer> fetch(int count) {
    List<Transfer> all = new ArrayList<>();
    for (int key = 0; key < count; key++) {
      Transfer one = block(key);
      BlockKey name = BlockKey.of(one);
      assertTrue(hints.probe(ObjectKey.of(one), name, null));
      one.slab = filled(OLD);
      one.length = LONG_BYTES;
      all.add(one);
    }
    hints.endRound();
    await(() -> all.stream().allMatch(this::isKnown));
    holder.named = 0;
    all.forEach(one -> assertTrue(tier.pipeline().offer(one)));
    await(() -> holder.named > 0);
    return all;
  }

  private boolean isKnown(Transfer one) {
    return hints.lookup(ObjectKey.of(one)) == Presence.PRESENT;
  }

  private MemorySegment filled(byte value) {
    return arena.allocate(LONG_BYTES).fill(value);
  }

  private static List<Status> outcomes(List<Transfer> all) {
    return all.stream().map(one -> one.status).toList();
  }

  @Test
  void blockThatWasWhole_isDelivered_andTheOthersEnd_andNothingWritesTheirSlots() {
    List<Transfer> all = fetch(3);
    assertEquals(3, holder.named);
    MemorySegment bytes = filled(NEW);
    holder.deliver(0, bytes);
    holder.deliver(1, bytes);
    NodeLink breaking = holder.link();
    await(() -> breaking.bytesSent() > LONG_BYTES + LONG_BYTES / 8);
    assertTrue(breaking.bytesSent() < 2 * LONG_BYTES, "the second block is sent in part");
    breaking.close("the test breaks it");
    await(() -> finished.size() == 3);
    assertEquals(List.of(Status.OK, Status.IO_ERROR, Status.IO_ERROR), outcomes(all));
    assertEquals(-1, all.getFirst().bytes().mismatch(bytes));
    assertEquals(Checksums.of(bytes), all.getFirst().checksum);

    // The slots are other blocks' now. The node is there again, and delivers on a new connection.
    all.forEach(one -> one.slab.fill(OLD));
    await(() -> holder.links.size() == 2 && tier.isOpen());
    List<Transfer> again = fetch(3);
    for (int i = 0; i < 3; i++) {
      holder.deliver(i, bytes);
    }
    await(() -> finished.size() == 6);
    assertEquals(List.of(Status.OK, Status.OK, Status.OK), outcomes(again));
    again.forEach(one -> assertEquals(-1, one.bytes().mismatch(bytes)));
    all.forEach(one -> assertEquals(-1, one.bytes().mismatch(filled(OLD))));
  }
}
