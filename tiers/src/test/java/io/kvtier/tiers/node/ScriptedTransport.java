package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/** Links on which a test plays the other nodes, by hand. */
final class ScriptedTransport implements NodeTransport {
  final List<Link> links = new ArrayList<>();
  long nowNs = 1_000_000_000L;

  @Override
  public NodeLink connect(NodeAddress address, NodeLink.Listener listener) {
    Link link = new Link(address, listener);
    links.add(link);
    return link;
  }

  @Override
  public int poll(long waitNs) {
    return 0;
  }

  @Override
  public void wake() {}

  @Override
  public long nowNs() {
    return nowNs;
  }

  @Override
  public void close() {}

  /** A link to one node, with what was sent to it. */
  final class Link implements NodeLink {
    final NodeAddress address;
    final Listener listener;
    final List<Frame> sent = new ArrayList<>();

    /** Run when nothing reads the blocks any more that were sent. */
    final List<Runnable> whenSent = new ArrayList<>();

    private final long incarnation;
    private long reader;

    /** The frames that wait in the link, beside those in {@link #sent}. */
    int earlier;

    /** Runs when nothing writes the block any more that was discarded; null: at once. */
    @Nullable Runnable released;

    boolean holdsDiscarded;

    private long discardedNs;

    /** Whether the reader knows who the node is. */
    boolean isTrusted;

    Link(NodeAddress address, Listener listener) {
      this.address = address;
      this.listener = listener;
      incarnation = 1000L + links.size();
    }

    long incarnation() {
      return incarnation;
    }

    /** The node accepts the reader. */
    void welcome() throws FrameException {
      listener.onOpen(this);
      reader = sent.getLast().sender();
      var _ = listener.onFrame(this, frame(FrameType.WELCOME, Status.OK, 0));
    }

    /** Takes the oldest request of a type; fails if there is none. */
    Frame take(FrameType type) {
      for (Frame frame : sent) {
        if (frame.type() == type) {
          sent.remove(frame);
          return frame;
        }
      }
      throw new AssertionError(address + " was sent no " + type + ", but " + sent);
    }

    boolean isSent(FrameType type) {
      return sent.stream().anyMatch(frame -> frame.type() == type);
    }

    Frame frame(FrameType type, Status status, long id) {
      return Frame.of(type, status, incarnation, reader, id);
    }

    void answer(byte... places) throws FrameException {
      Frame ask = take(FrameType.ASK);
      Messages.Places all = new Messages.Places(7, ByteBuffer.wrap(places));
      Frame answer = frame(FrameType.ANSWER, Status.OK, ask.id()).with(all.body());
      var _ = listener.onFrame(this, answer);
    }

    /** Answers a push's frame; all memory of the node is unused. */
    void answer(FrameType type, Status status, Frame request) throws FrameException {
      Messages.Room room = new Messages.Room(1L << 30, "");
      var _ = listener.onFrame(this, frame(type, status, request.id()).with(room.body()));
    }

    /** A piece begins to come; returns where its bytes go, null for nowhere. */
    @Nullable MemorySegment beginPiece(Frame follow, int units, int from, int to, int length)
        throws FrameException {
      Messages.Piece piece = new Messages.Piece(units, from, to);
      return listener.onFrame(
          this,
          frame(FrameType.PIECE, Status.OK, follow.id()).with(length, 0, 0).with(piece.body()));
    }

    /** All pieces were sent. */
    void whole(Frame follow, int checksum) throws FrameException {
      var _ =
          listener.onFrame(
              this, frame(FrameType.WHOLE, Status.OK, follow.id()).with(0, checksum, 0));
    }

    /** A block begins to come; returns where its bytes go, null for nowhere. */
    @Nullable MemorySegment begin(Frame fetch, byte value, int length) throws FrameException {
      return begin(fetch.id(), value, length);
    }

    /** The block of a request begins to come. */
    @Nullable MemorySegment begin(long id, byte value, int length) throws FrameException {
      CRC32C crc = new CRC32C();
      for (int i = 0; i < length; i++) {
        crc.update(value);
      }
      return listener.onFrame(
          this, frame(FrameType.BLOCK, Status.OK, id).with(length, (int) crc.getValue(), 5));
    }

    /** All bytes of the block have come. */
    void end(@Nullable MemorySegment target, byte value, int length) {
      CRC32C crc = new CRC32C();
      for (int i = 0; i < length; i++) {
        crc.update(value);
        if (target != null) {
          target.set(ValueLayout.JAVA_BYTE, i, value);
        }
      }
      listener.onPayload(this, target == null ? 0 : (int) crc.getValue(), target != null);
    }

    void deliver(byte value, int length) throws FrameException {
      MemorySegment target = begin(take(FrameType.FETCH), value, length);
      end(target, value, length);
    }

    @Override
    public String address() {
      return address.toString();
    }

    @Override
    public void send(Frame frame, MemorySegment payload, Runnable isSent) {
      sent.add(frame);
      if (payload.byteSize() > 0) {
        whenSent.add(isSent);
      }
    }

    @Override
    public void trust() {
      isTrusted = true;
    }

    @Override
    public void discard(Runnable whenReleased) {
      if (holdsDiscarded) {
        released = whenReleased;
        discardedNs = nowNs;
      } else {
        whenReleased.run();
      }
    }

    @Override
    public boolean isDiscardingFor(long ns) {
      return released != null && nowNs - discardedNs >= ns;
    }

    @Override
    public void close(String why) {
      listener.onClosed(this, why);
    }

    @Override
    public int queued() {
      return earlier + sent.size();
    }

    @Override
    public long movedNs() {
      return nowNs;
    }

    @Override
    public long heardNs() {
      return nowNs;
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
