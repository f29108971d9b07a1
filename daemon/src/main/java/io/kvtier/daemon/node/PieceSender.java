package io.kvtier.daemon.node;

import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.ServedBlock;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameException;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.Messages;
import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.transfer.TracedRequest;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/**
 * Sends another node the blocks that it expects, over one link: each piece when it is written, and
 * the checksum when the block is whole. What can't be sent yet is a bit for each part of a block,
 * so a slow node costs no memory, and gets larger pieces. Pieces go in the order in which they were
 * written: the first layers of all blocks come before the last ones. Confined to the server's
 * thread.
 */
final class PieceSender {
  /** The most blocks that a node expects over one link, and that the index is told of. */
  static final int FOLLOWS_MAX = 4096;

  /** The most bytes, and frames, that are under way. */
  private static final long BYTES_MAX = 8L << 20;

  private static final int FRAMES_MAX = 256;

  /**
   * A smaller piece waits for the next one, unless it is the last: each costs a frame. Of a short
   * block, a piece is a sixteenth.
   */
  private static final int PIECE_BYTES_MIN = 64 << 10;

  private static final int PIECES_MIN = 16;

  private static final int PIECE_BYTES_MAX = 1 << 20;

  /** A block that the node expects. */
  private static final class Followed {
    final long id;
    final int length;
    final NodeCall.Follow call;
    MemorySegment bytes = MemorySegment.NULL;
    int units = 1;

    /** The parts that can be sent, and those that were sent. */
    final BitSet ready = new BitSet();

    final BitSet sent = new BitSet();
    boolean isQueued;
    boolean isWhole;
    int checksum;

    /** Why the block does not come; null while it may come. */
    NodeCall.Followed.@Nullable Lost lost;

    /** Whether the node wants no more of the block, or knows that the block does not come. */
    boolean isStopped;

    boolean isDamaged;

    /** How many of its pieces are being read. */
    int underway;

    /** The traced request that waits for the block; null if there is none. */
    final @Nullable TracedRequest request;

    final long sinceNs;

    /** The instant of the first news of the block; 0: there are none. */
    long newsNs;

    /** Whether everything was sent, and at which instant. The node keeps the lease. */
    boolean isSent;

    long sentNs;

    Followed(
        long id,
        Messages.Follow wanted,
        @Nullable TracedRequest request,
        long sinceNs,
        BiConsumer<Followed, NodeCall.Followed> told) {
      this.id = id;
      this.request = request;
      this.sinceNs = sinceNs;
      length = wanted.keys().blockBytes();
      call =
          new NodeCall.Follow(
              ServedLink.blocks(wanted.keys()),
              length,
              wanted.withinNs(),
              news -> told.accept(this, news));
    }
  }

  private final ServedLink owner;
  private final NodeServer server;
  private final Map<Long, Followed> follows = new HashMap<>();

  /** Blocks that the node expects no more, of which the index has not been told yet. */
  private final AtomicInteger ending = new AtomicInteger();

  /** Blocks with something to send. */
  private final ArrayDeque<Followed> queue = new ArrayDeque<>();

  private long bytes;
  private int frames;

  PieceSender(ServedLink owner, NodeServer server) {
    this.owner = owner;
    this.server = server;
  }

  // ---- what the node asks

  /**
   * The node wants a block that is perhaps not there yet.
   *
   * @param request the traced request that waits for the block; null if there is none
   */
  void follow(Session session, NodeLink from, Frame frame, @Nullable TracedRequest request)
      throws FrameException {
    Messages.Follow wanted = Messages.Follow.of(frame.body());
    long id = frame.id();
    if (follows.containsKey(id)) {
      return; // it came twice
    }
    Followed followed =
        new Followed(
            id,
            wanted,
            request,
            server.nowNs(),
            (one, news) -> server.later(() -> told(session, from, one, news)));
    boolean isOneTooMany = follows.size() + ending.get() >= FOLLOWS_MAX;
    if (!isOneTooMany && server.index().call(session, followed.call)) {
      follows.put(id, followed);
    } else {
      // The link bounds such answers: it closes, or reads nothing, when too many wait.
      from.send(owner.answer(FrameType.NONE, Status.BUSY, id).with("too many blocks are expected"));
      followed.newsNs = followed.sinceNs;
      served(followed, Status.BUSY);
    }
  }

  /** The node wants no more of a block, or has it. */
  void stop(Session session, Frame frame) {
    Followed followed = follows.get(frame.id());
    if (followed != null) {
      followed.isStopped = true;
      followed.isDamaged = frame.status() == Status.CORRUPT;
      endIfUnused(session, followed);
    }
  }

  private void endIfUnused(Session session, Followed followed) {
    if (followed.isStopped && followed.underway == 0 && follows.remove(followed.id, followed)) {
      ending.getAndIncrement();
      server.surely(
          session,
          new NodeCall.Unfollow(followed.call, followed.isDamaged, ending::getAndDecrement));
    }
  }

  // ---- what the index tells

  private void told(Session session, NodeLink from, Followed followed, NodeCall.Followed news) {
    if (!owner.isOf(session) || follows.get(followed.id) != followed || followed.isStopped) {
      return;
    }
    followed.newsNs = followed.newsNs == 0 ? server.nowNs() : followed.newsNs;
    switch (news) {
      case NodeCall.Followed.Piece(int slab, long offset, int units, int begin, int end) -> {
        followed.units = units;
        followed.ready.set(begin, end);
        followed.ready.andNot(followed.sent);
        place(followed, slab, offset);
      }
      case NodeCall.Followed.Whole(int slab, long offset, int checksum) -> {
        followed.ready.set(0, followed.units);
        followed.ready.andNot(followed.sent);
        followed.isWhole = true;
        followed.checksum = checksum;
        place(followed, slab, offset);
      }
      case NodeCall.Followed.Lost lost -> followed.lost = lost;
    }
    enqueue(followed);
    serve(session, from);
  }

  private void place(Followed followed, int slab, long offset) {
    if (followed.bytes.byteSize() == 0) {
      followed.bytes = server.index().slab(slab).asSlice(offset, followed.length);
    }
  }

  private void enqueue(Followed followed) {
    boolean isDue = followed.lost != null || followed.isWhole || isLong(followed);
    if (!followed.isQueued && isDue) {
      followed.isQueued = true;
      queue.add(followed);
    }
  }

  /** Whether the next piece is worth a frame. */
  private static boolean isLong(Followed followed) {
    return runBytes(followed) >= Math.min(PIECE_BYTES_MIN, followed.length / PIECES_MIN)
        && runBytes(followed) > 0;
  }

  private static int from(Followed followed) {
    int from = followed.ready.nextSetBit(0);
    return from < 0 ? followed.units : from;
  }

  private static int to(Followed followed, int from) {
    return followed.ready.nextClearBit(from);
  }

  private static long runBytes(Followed followed) {
    int from = from(followed);
    return from == followed.units
        ? 0
        : (long) (to(followed, from) - from) * (followed.length / followed.units);
  }

  // ---- frames

  /** Sends what the link can take. */
  private void serve(Session session, NodeLink to) {
    while (!queue.isEmpty() && (frames == 0 || (bytes < BYTES_MAX && frames < FRAMES_MAX))) {
      Followed followed = queue.remove();
      followed.isQueued = false;
      if (!followed.isStopped) {
        sendNext(session, to, followed);
      }
    }
  }

  private void sendNext(Session session, NodeLink to, Followed followed) {
    NodeCall.Followed.Lost lost = followed.lost;
    if (lost != null) {
      sendLast(
          session,
          to,
          followed,
          owner.answer(FrameType.NONE, lost.status(), followed.id).with(lost.why()));
    } else if (from(followed) < followed.units) {
      sendPiece(session, to, followed);
      enqueue(followed);
    } else if (followed.isWhole) {
      sendLast(
          session,
          to,
          followed,
          owner.answer(FrameType.WHOLE, Status.OK, followed.id).with(0, followed.checksum, 0));
    }
  }

  private void sendLast(Session session, NodeLink to, Followed followed, Frame frame) {
    frames++;
    to.send(
        frame,
        MemorySegment.NULL,
        () -> {
          followed.isStopped |= frame.type() == FrameType.NONE;
          followed.isSent = true;
          followed.sentNs = server.nowNs();
          served(followed, frame.status());
          sent(session, to, followed, 0);
        });
  }

  private void served(Followed followed, Status status) {
    TracedRequest request = followed.request;
    if (request != null) {
      server.served(
          new ServedBlock(
              request, status, followed.length, followed.sinceNs, followed.newsNs, server.nowNs()));
    }
  }

  private void sendPiece(Session session, NodeLink to, Followed followed) {
    int unitBytes = followed.length / followed.units;
    int from = from(followed);
    int end = Math.min(to(followed, from), from + Math.max(1, PIECE_BYTES_MAX / unitBytes));
    Messages.Piece piece = new Messages.Piece(followed.units, from, end);
    int length = (end - from) * unitBytes;
    followed.ready.clear(from, end);
    followed.sent.set(from, end);
    followed.underway++;
    frames++;
    bytes += length;
    to.send(
        owner.answer(FrameType.PIECE, Status.OK, followed.id).with(length, 0, 0).with(piece.body()),
        followed.bytes.asSlice(piece.offset(followed.length), length),
        () -> {
          followed.underway--;
          sent(session, to, followed, length);
        });
  }

  private void sent(Session session, NodeLink to, Followed followed, int length) {
    frames--;
    bytes -= length;
    endIfUnused(session, followed);
    serve(session, to);
  }

  /** Whether the node has had a whole block for too long, and has not said so. */
  boolean isLate(long nowNs) {
    for (Followed one : follows.values()) {
      if (one.isSent && nowNs - one.sentNs >= ServedLeases.KEPT_NS) {
        return true;
      }
    }
    return false;
  }

  /** The link has closed: nothing is read any more. */
  void closed() {
    follows.clear();
    queue.clear();
    bytes = 0;
    frames = 0;
  }
}
