package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.session.ServedBlock;
import io.kvtier.daemon.node.IndexSessions;
import io.kvtier.daemon.node.NodeServer;
import io.kvtier.daemon.node.SimulatedNetwork;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.Messages;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.node.NodeTransport;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/**
 * A daemon serves another node, over every transport. The test is the other node, and writes its
 * frames word by word.
 */
abstract class ServedContract {
  private static final long TIMEOUT_NS = 20_000_000_000L;
  static final int SLOTS = 4096;

  /** The most leases and reservations of a node in the index. */
  static final int HOLDS_MAX = Messages.FETCHED_MAX + 16;

  static final long OURS = 11;
  static final long THEIRS = 22;

  /** More than the kernel keeps of a connection; with a slab that holds it, and no other. */
  static final int LONG_BYTES = SLOTS * IndexHarness.SLOT_BYTES;

  /** The transports of both sides, and where the second one accepts. */
  record Sides(NodeTransport from, NodeTransport to, NodeAddress address) {}

  /** Makes both sides; the acceptor takes each link that comes. */
  abstract Sides open(SimulatedNetwork.Acceptor acceptor) throws IOException;

  /** Both sides over a simulated network. */
  static Sides simulated(SimulatedNetwork network, SimulatedNetwork.Acceptor acceptor) {
    NodeAddress address = new NodeAddress("receiver", 7076);
    SimulatedNetwork.Transport to = network.transport(address);
    to.accept(acceptor);
    return new Sides(network.transport(new NodeAddress("sender", 7076)), to, address);
  }

  /** The side that pushes: it notes what it hears. */
  static final class Sender implements NodeLink.Listener {
    final List<Frame> frames = new ArrayList<>();

    /** The bytes that came, in order. */
    final List<byte[]> payloads = new ArrayList<>();

    private final MemorySegment arrived = Arena.ofAuto().allocate(1 << 20);
    private int coming;
    @Nullable NodeLink link;
    String closed = "";

    @Override
    public void onOpen(NodeLink opened) {
      link = opened;
    }

    @Override
    public @Nullable MemorySegment onFrame(NodeLink from, Frame frame) {
      if (frame.type() == FrameType.WELCOME) {
        from.trust();
      }
      ByteBuffer body =
          ByteBuffer.allocate(frame.body().remaining()).order(ByteOrder.LITTLE_ENDIAN);
      frames.add(frame.with(body.put(frame.body().duplicate()).flip()));
      coming = frame.payloadBytes();
      return frame.payloadBytes() == 0 ? null : arrived.asSlice(0, frame.payloadBytes());
    }

    @Override
    public void onPayload(NodeLink from, int checksum, boolean isKept) {
      payloads.add(arrived.asSlice(0, coming).toArray(ValueLayout.JAVA_BYTE));
    }

    @Override
    public void onClosed(NodeLink from, String why) {
      closed = why.isEmpty() ? "without a reason" : why;
    }

    NodeLink open() {
      return Objects.requireNonNull(link);
    }
  }

  final Sender sender = new Sender();

  /** The blocks that traced requests have got, or have not. */
  final List<ServedBlock> served = new ArrayList<>();

  final Arena arena = Arena.ofShared();
  Role role = Role.WRITE;

  /** Whether the index leaves its messages alone. */
  boolean isIndexIdle;

  IndexHarness index;
  private NodeServer server;
  private Sides sides;

  @SuppressWarnings("NullAway.Init") // start() comes first
  ServedContract() {}

  @BeforeEach
  void start() throws IOException {
    index =
        new IndexHarness(
            new IndexHarness.Settings(2, SLOTS)
                .holdsPerSession(HOLDS_MAX)
                .checksums(new IndexHarness.InlinePipeline(Checksums::run), Integer.MAX_VALUE));
    sides = open(make -> server.admit(make));
    server =
        new NodeServer(
            new NodeServer.Options(
                "receiver",
                THEIRS,
                _ -> new Grant("node", role, Grant.NO_TENANT),
                () -> {},
                null,
                8,
                new AtomicInteger(),
                served::add),
            sides.to(),
            new IndexSessions(
                index.agent(),
                () -> {},
                2,
                slab -> index.slabs().asSlice((long) slab * LONG_BYTES, LONG_BYTES)),
            TroubleLog.NONE);
  }

  @AfterEach
  void stop() {
    sides.from().close();
    sides.to().close();
    index.close();
    arena.close();
  }

  // ---- the sender's words

  final void turn() {
    var _ = sides.from().poll(0) + server.doWork();
    var _ = isIndexIdle ? 0 : index.agent().doWork();
    var _ = sides.to().poll(1_000_000);
  }

  final void await(BooleanSupplier condition) {
    long end = System.nanoTime() + TIMEOUT_NS;
    while (!condition.getAsBoolean()) {
      turn();
      assertTrue(System.nanoTime() < end, "closed: " + sender.closed + ", " + sender.frames);
    }
    index.agent().checkInvariants();
  }

  static Frame frame(FrameType type, long id) {
    return Frame.of(type, Status.OK, OURS, THEIRS, id);
  }

  /** Connects, and is let in. */
  final void greet() {
    hello();
    assertEquals(FrameType.WELCOME, answer(1).type());
    await(this::isSettled);
  }

  /** Whether both sides have agreed on how blocks go. */
  boolean isSettled() {
    return true;
  }

  /** Connects, and says who it is. */
  final void hello() {
    sender.link = null;
    var _ = sides.from().connect(sides.address(), sender);
    await(() -> sender.link != null);
    ByteBuffer hello = ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN);
    hello.putInt(4).put("node".getBytes(StandardCharsets.UTF_8)).putInt(0).flip();
    sender.open().send(Frame.of(FrameType.HELLO, Status.OK, OURS, 0, 1).with(hello));
  }

  /** The next answer to a frame. */
  final Frame answer(long id) {
    int[] at = {-1};
    await(() -> {
      for (int i = 0; i < sender.frames.size() && at[0] < 0; i++) {
        at[0] = sender.frames.get(i).id() == id ? i : -1;
      }
      return at[0] >= 0;
    });
    return sender.frames.remove(at[0]);
  }

  final MemorySegment block(int bytes, long seed) {
    MemorySegment block = arena.allocate(bytes, 8);
    for (long at = 0; at < bytes; at += 8) {
      block.set(ValueLayout.JAVA_LONG, at, seed * 0x9E3779B97F4A7C15L + at);
    }
    return block;
  }

  final long count(Counter counter) {
    index.agent().stop();
    return index.counters.get(counter);
  }

  static long[] fingerprint(String text) {
    Namespaces.Fingerprint name = Namespaces.fingerprintOf(text);
    return new long[] {name.high(), name.low()};
  }
}
