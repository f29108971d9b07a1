package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameException;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.node.NodeTransport;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The blocks that a daemon follows for a node that takes no answers. */
final class PieceSenderTest {
  private static final int MANY = PieceSender.FOLLOWS_MAX + 1000;
  private static final long OURS = 11;
  private static final long THEIRS = 22;

  private final FakeIndex index = new FakeIndex();
  private final StillLink link = new StillLink();
  private final NodeServer server =
      new NodeServer(
          new NodeServer.Options(
              "holder",
              THEIRS,
              _ -> new Grant("node", Role.READ, Grant.NO_TENANT),
              () -> {},
              null,
              1,
              new AtomicInteger(),
              _ -> {}),
          new NoTransport(),
          index,
          TroubleLog.NONE);

  @BeforeEach
  void greet() throws FrameException {
    server.admit(listener -> link.of(listener));
    ByteBuffer hello = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
    link.hear(Frame.of(FrameType.HELLO, Status.OK, OURS, 0, 1).with(hello));
    assertEquals(FrameType.WELCOME, link.frames.removeFirst().type());
  }

  private void follow(long id) throws FrameException {
    ByteBuffer body = ByteBuffer.allocate(48).order(ByteOrder.LITTLE_ENDIAN);
    body.putLong(1_000_000_000L);
    body.putLong(1).putLong(2).putInt(0).putInt(8).putInt(1).putInt(4096).putLong(id).flip();
    link.hear(Frame.of(FrameType.FOLLOW, Status.OK, OURS, THEIRS, id).with(body));
    var _ = server.doWork();
  }

  @Test
  void follow_tooManyBlocks_areRefusedByTheLink_whichIsBounded() throws FrameException {
    for (int i = 0; i < MANY; i++) {
      follow(2 + i);
    }
    assertEquals(PieceSender.FOLLOWS_MAX, index.calls.size());
    assertEquals(MANY - PieceSender.FOLLOWS_MAX, link.frames.size());
    assertEquals(Status.BUSY, link.frames.getLast().status());
  }

  @Test
  void follow_blocksThatAreLost_countUntilTheNodeKnows() throws FrameException {
    index.news = new NodeCall.Followed.Lost(Status.MISS, "lost");
    for (int i = 0; i < MANY; i++) {
      follow(2 + i);
    }
    assertEquals(PieceSender.FOLLOWS_MAX, index.calls.size());
    link.read();
    var _ = server.doWork();
    assertEquals(2 * PieceSender.FOLLOWS_MAX, index.calls.size(), "each is followed no more");
    follow(1_000_000);
    assertEquals(2 * PieceSender.FOLLOWS_MAX + 1, index.calls.size());
  }

  @Test
  void follow_blocksThatTheNodeGivesUpAtOnce_countUntilTheIndexKnows() throws FrameException {
    index.isBehind = true;
    for (int i = 0; i < MANY; i++) {
      follow(2 + i);
      link.hear(Frame.of(FrameType.STOP, Status.OK, OURS, THEIRS, 2 + i));
    }
    assertEquals(2 * PieceSender.FOLLOWS_MAX, index.calls.size());
    assertEquals(MANY - PieceSender.FOLLOWS_MAX, link.frames.size());
    index.endAll();
    follow(1_000_000);
    assertEquals(2 * PieceSender.FOLLOWS_MAX + 1, index.calls.size());
  }

  /** An index that notes the calls. */
  private static final class FakeIndex implements NodeIndex {
    final List<NodeCall> calls = new ArrayList<>();

    /** Whether the calls wait. */
    boolean isBehind;

    /** The news of each block, told at once; null: none. */
    NodeCall.@Nullable Followed news;

    @Override
    public Session open(String name, Grant grant, Runnable ended) throws IOException {
      try (Descriptor memory =
          SharedMemory.create("kvtier-test", SessionRegion.regionBytes(4096, 4096))) {
        return new Session(
            SlotAllocator.DAEMON,
            Session.Client.of(name, 1, 1),
            grant,
            SessionRegion.create(memory, SlotAllocator.DAEMON, 4096, 4096, Arena.ofAuto()),
            1,
            new NoOwner());
      }
    }

    @Override
    public boolean call(Session session, NodeCall call) {
      calls.add(call);
      if (news != null && call instanceof NodeCall.Follow follow) {
        follow.told().accept(news);
      }
      if (!isBehind) {
        end(call);
      }
      return true;
    }

    private static void end(NodeCall call) {
      if (call instanceof NodeCall.Unfollow unfollow) {
        unfollow.ended().run();
      }
    }

    /** Carries out the calls that wait. */
    void endAll() {
      calls.forEach(FakeIndex::end);
    }

    @Override
    public boolean close(Session session) {
      return true;
    }

    @Override
    public MemorySegment slab(int slab) {
      return MemorySegment.NULL;
    }
  }

  /** An owner that nothing is told to. */
  private static final class NoOwner implements Session.Owner {
    @Override
    public void end(Session session, Status reason, String why) {
      throw new AssertionError(why);
    }

    @Override
    public void released(Session session) {}
  }

  /** A transport without links of its own. */
  private static final class NoTransport implements NodeTransport {
    @Override
    public NodeLink connect(NodeAddress address, NodeLink.Listener listener) {
      throw new IllegalStateException("a server connects to no node");
    }

    @Override
    public int poll(long waitNs) {
      return 0;
    }

    @Override
    public void wake() {}

    @Override
    public long nowNs() {
      return 0;
    }

    @Override
    public void close() {}
  }

  /** A link whose other side reads when the test says so. */
  private static final class StillLink implements NodeLink {
    final List<Frame> frames = new ArrayList<>();
    private final ArrayDeque<Runnable> unsent = new ArrayDeque<>();
    private @Nullable Listener listener;

    NodeLink of(Listener made) {
      listener = made;
      return this;
    }

    void hear(Frame frame) throws FrameException {
      var _ = Objects.requireNonNull(listener).onFrame(this, frame);
    }

    /** The other side reads all that waits. */
    void read() {
      while (!unsent.isEmpty()) {
        unsent.remove().run();
      }
    }

    @Override
    public void send(Frame frame, MemorySegment payload, Runnable sent) {
      frames.add(frame);
      unsent.add(sent);
    }

    @Override
    public String address() {
      return "node";
    }

    @Override
    public void discard(Runnable released) {
      released.run();
    }

    @Override
    public void close(String why) {
      throw new AssertionError(why);
    }

    @Override
    public int queued() {
      return unsent.size();
    }

    @Override
    public long movedNs() {
      return 0;
    }

    @Override
    public long heardNs() {
      return 0;
    }

    @Override
    public long bytesReceived() {
      return 0;
    }

    @Override
    public long bytesSent() {
      return 0;
    }
  }
}
