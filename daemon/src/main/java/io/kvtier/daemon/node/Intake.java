package io.kvtier.daemon.node;

import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameException;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.Messages;
import io.kvtier.tiers.node.NodeLink;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.jspecify.annotations.Nullable;

/**
 * The blocks that another node pushes here, over one link. Each gets a slot from the index before
 * its bytes come, and is committed when they match the checksum of the block's writer. A slot is
 * given back with a word of the node, or when the link has closed: so no byte comes to a slot that
 * is another block's. Confined to the server's thread.
 */
final class Intake {
  /** The most blocks that have a slot, or wait for one; and their bytes, if there are several. */
  static final int BLOCKS_MAX = 64;

  static final long BYTES_MAX = 64L << 20;

  /** The most namespaces that wait for the index. */
  static final int SPACES_MAX = 64;

  /** How long a node may take from RESERVE to the last byte. */
  static final long PUSH_NS = TimeUnit.SECONDS.toNanos(60);

  /** Told where the index was not asked. */
  private static final NodeCall.Room NO_ROOM = new NodeCall.Room(0);

  /** A block that has a slot, or waits for one. */
  private static final class Place {
    final int length;
    final int checksum;
    final long sinceNs;
    NodeCall.Reserved.@Nullable Go slot;
    boolean isAborted;

    Place(int length, int checksum, long sinceNs) {
      this.length = length;
      this.checksum = checksum;
      this.sinceNs = sinceNs;
    }
  }

  private final ServedLink owner;
  private final NodeServer server;
  private final Map<Long, Place> places = new HashMap<>();
  private long bytes;
  private int spaces;

  /** The number of the block whose bytes are arriving; its place is in the table. */
  private long arrivingId;

  private @Nullable Place arriving;
  private final LongAdder blocksTaken = new LongAdder();
  private final LongAdder bytesTaken = new LongAdder();

  Intake(ServedLink owner, NodeServer server) {
    this.owner = owner;
    this.server = server;
  }

  /** The blocks that the node has pushed here; from any thread. */
  long blocksTaken() {
    return blocksTaken.sum();
  }

  /** The bytes of these blocks; from any thread. */
  long bytesTaken() {
    return bytesTaken.sum();
  }

  /** Whether a block has not come in time. */
  boolean isLate(long nowNs) {
    for (Place place : places.values()) {
      if (nowNs - place.sinceNs >= PUSH_NS) {
        return true;
      }
    }
    return false;
  }

  // ---- namespaces

  void space(Session session, NodeLink from, Frame frame) throws FrameException {
    Messages.Space space = Messages.Space.of(frame.body());
    long id = frame.id();
    NodeCall call =
        new NodeCall.Introduce(
            space.high(),
            space.low(),
            space.text(),
            answer -> server.later(() -> introduced(from, id, answer)));
    if (spaces < SPACES_MAX && server.index().call(session, call)) {
      spaces++;
    } else {
      answer(from, id, Status.PENDING, NO_ROOM, "too much waits for the index");
    }
  }

  private void introduced(NodeLink from, long id, NodeCall.Introduced answer) {
    spaces--;
    answer(from, id, answer.status(), answer.room(), answer.why());
  }

  private void answer(NodeLink from, long id, Status status, NodeCall.Room room, String why) {
    FrameType type =
        switch (status) {
          case OK -> FrameType.GO;
          case EXISTS -> FrameType.HAVE;
          default -> FrameType.NO;
        };
    Messages.Room told = new Messages.Room(room.unusedBytes(), why);
    from.send(owner.answer(type, status, id).with(told.body()));
  }

  // ---- blocks

  void reserve(Session session, NodeLink from, Frame frame) throws FrameException {
    Messages.Reserve wanted = Messages.Reserve.of(frame.body());
    int length = wanted.keys().blockBytes();
    long id = frame.id();
    if (places.containsKey(id)) {
      return; // it came twice
    }
    if (!places.isEmpty() && (places.size() >= BLOCKS_MAX || bytes + length > BYTES_MAX)) {
      answer(from, id, Status.PENDING, NO_ROOM, "too many blocks are under way");
      return;
    }
    Place place = new Place(length, frame.checksum(), server.nowNs());
    NodeCall.Pushed pushed =
        new NodeCall.Pushed(
            ServedLink.blocks(wanted.keys()),
            length,
            wanted.isEncoded(),
            wanted.importance(),
            wanted.depth(),
            wanted.parent());
    places.put(id, place);
    bytes += length;
    NodeCall call =
        new NodeCall.Reserve(
            pushed, answer -> server.later(() -> reserved(session, from, id, place, answer)));
    if (!server.index().call(session, call)) {
      remove(id, place);
      answer(from, id, Status.PENDING, NO_ROOM, "too much waits for the index");
    }
  }

  private void remove(long id, Place place) {
    places.remove(id);
    bytes -= place.length;
  }

  private void reserved(
      Session session, NodeLink from, long id, Place place, NodeCall.Reserved answer) {
    if (!owner.isOf(session)) {
      return; // the reservation has ended with the session
    }
    switch (answer) {
      case NodeCall.Reserved.Go go -> {
        if (place.isAborted) {
          remove(id, place);
          server.surely(session, new NodeCall.Abort(go.reservation(), false));
        } else {
          place.slot = go;
          answer(from, id, Status.OK, go.room(), "");
        }
      }
      case NodeCall.Reserved.Have(var room) -> {
        remove(id, place);
        answer(from, id, Status.EXISTS, room, "");
      }
      case NodeCall.Reserved.No(Status status, String why, var room) -> {
        remove(id, place);
        answer(from, id, status, room, why);
      }
    }
  }

  /** The bytes of a block begin to come; null if they are of no block that has a slot. */
  @Nullable MemorySegment push(Frame frame) throws FrameException {
    Place place = places.get(frame.id());
    NodeCall.Reserved.Go slot = place == null ? null : place.slot;
    if (place == null || slot == null) {
      return null;
    }
    if (frame.payloadBytes() != place.length) {
      throw new FrameException(
          "a PUSH has " + frame.payloadBytes() + " bytes, its RESERVE had " + place.length);
    }
    arriving = place;
    arrivingId = frame.id();
    return server.index().slab(slot.slab()).asSlice(slot.offset(), place.length);
  }

  /** All bytes of the block have come. */
  void arrived(Session session, NodeLink from, int checksum, boolean isKept) {
    Place place = arriving;
    NodeCall.Reserved.Go slot = place == null ? null : place.slot;
    arriving = null;
    if (place == null || slot == null) {
      return;
    }
    long id = arrivingId;
    remove(id, place);
    if (!isKept || checksum != place.checksum) {
      server.damaged(owner, place.checksum, checksum);
      server.surely(session, new NodeCall.Abort(slot.reservation(), true));
      from.send(owner.answer(FrameType.PUSHED, Status.CORRUPT, id));
      return;
    }
    int length = place.length;
    server.surely(
        session,
        new NodeCall.Commit(
            slot.reservation(),
            checksum,
            status -> server.later(() -> committed(session, from, id, length, status))));
  }

  private void committed(Session session, NodeLink from, long id, int length, Status status) {
    if (!owner.isOf(session)) {
      return;
    }
    if (status == Status.OK) {
      blocksTaken.increment();
      bytesTaken.add(length);
    }
    from.send(owner.answer(FrameType.PUSHED, status, id));
  }

  /** The node does not push a block after all. */
  void abort(Session session, Frame frame) {
    Place place = places.get(frame.id());
    if (place == null) {
      return;
    }
    NodeCall.Reserved.Go slot = place.slot;
    if (slot == null) {
      place.isAborted = true;
    } else {
      remove(frame.id(), place);
      server.surely(session, new NodeCall.Abort(slot.reservation(), false));
    }
  }

  /** The link has closed: the slots are free when the index ends the session. */
  void closed() {
    places.clear();
    arriving = null;
    bytes = 0;
  }
}
