package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The pushes of one reader to one node, over one connection. A push has three steps: RESERVE asks
 * for a slot, PUSH sends the bytes, and PUSHED is the answer when they have come. The bytes under
 * way are bounded, so that a slow node gets fewer blocks. Confined to the reader's thread.
 */
final class PushLine {
  /** The most blocks that are under way to a node, and their bytes. */
  private static final int PUSHES_MAX = 32;

  private static final long BYTES_MAX = 16L << 20;

  /** How long a node may take for a step. */
  private static final long STEP_NS = TimeUnit.SECONDS.toNanos(20);

  /** The first pause before a node that can't take a block yet is asked again. */
  private static final long REST_NS = TimeUnit.MILLISECONDS.toNanos(2);

  private static final long REST_NS_MAX = TimeUnit.MILLISECONDS.toNanos(250);

  /** How often a connection may break before a block is not pushed there again. */
  private static final int BREAKS_MAX = 3;

  /** How much a measured speed counts against all earlier ones. */
  private static final double NEW_SHARE = 0.125;

  private enum Step {
    RESERVING,
    SENDING,
    SENT
  }

  /** A push under way. */
  private static final class Underway {
    final Push push;
    final SpaceName space;
    Step step = Step.RESERVING;
    long stepNs;

    /** The answer that came before this side had heard that the bytes were sent. */
    @Nullable Status answer;

    Underway(Push push, long nowNs) {
      this.push = push;
      space = SpaceName.of(push);
      stepNs = nowNs;
    }
  }

  /** The fingerprint of a namespace. */
  private record SpaceName(long high, long low) {
    static SpaceName of(Push push) {
      return new SpaceName(push.high, push.low);
    }
  }

  /** The reason why the node takes no blocks of a namespace, or no blocks at all. */
  private record Refusal(Status status, String why) {}

  private final PeerLink owner;
  private final NodeReader reader;
  private final Map<Long, Underway> underway = new LinkedHashMap<>();

  /** The namespaces that were told over this connection. */
  private final Set<SpaceName> told = new HashSet<>();

  /** The namespaces that the node has not answered yet, by the ids of their SPACE frames. */
  private final Map<Long, SpaceName> asked = new HashMap<>();

  private final Map<SpaceName, Refusal> refused = new HashMap<>();
  private @Nullable Refusal denied;
  private long bytes;
  private long restNs = REST_NS;
  private long notBeforeNs;
  private boolean isResting;
  private long unusedBytes = Long.MAX_VALUE;
  private double bytesPerNs;
  private long pushedNs;

  PushLine(PeerLink owner, NodeReader reader) {
    this.owner = owner;
    this.reader = reader;
  }

  /** Whether blocks are under way. */
  boolean isWaiting() {
    return !underway.isEmpty();
  }

  // ---- the choice of a node

  /** Whether a block can be pushed now; notes it if the node does not take the block at all. */
  boolean takes(Push push, long nowNs) {
    Refusal refusal = denied == null ? refused.get(SpaceName.of(push)) : denied;
    if (refusal != null && !push.spares(owner.peer())) {
      refuse(push, refusal);
    }
    isResting &= nowNs - notBeforeNs < 0;
    return !push.spares(owner.peer())
        && !isResting
        && (underway.isEmpty()
            || (underway.size() < PUSHES_MAX && bytes + push.length <= BYTES_MAX));
  }

  private void refuse(Push push, Refusal refusal) {
    push.spare(owner.peer());
    push.refused(refusal.status, refusal.why);
  }

  /** Whether a block goes here rather than to another node. */
  boolean isBetter(PushLine other, int length) {
    boolean isUnused = isUnused(length);
    return isUnused == other.isUnused(length)
        ? expectedNs(length) < other.expectedNs(length)
        : isUnused;
  }

  private boolean isUnused(int length) {
    return unusedBytes - bytes >= length;
  }

  /** When a block would be there; the node whose speed is unknown is tried. */
  private double expectedNs(int length) {
    return bytesPerNs == 0 ? underway.size() * 1e-3 : (bytes + length) / bytesPerNs;
  }

  // ---- steps

  /** Asks for a slot. */
  void begin(Push push, long nowNs) {
    NodeLink link = owner.link();
    SpaceName space = SpaceName.of(push);
    if (link == null) {
      throw new IllegalStateException("a push over no connection");
    }
    if (!told.contains(space)) {
      ByteBuffer body = Messages.spaceOf(push);
      if (body == null) {
        refuse(push, new Refusal(Status.TOO_LARGE, "the namespace's properties are too long"));
        reader.pushQueue().add(push);
        return;
      }
      long id = reader.nextId();
      told.add(space);
      asked.put(id, space);
      link.send(owner.frame(FrameType.SPACE, Status.OK, id).with(body));
    }
    long id = reader.nextId();
    underway.put(id, new Underway(push, nowNs));
    bytes += push.length;
    link.send(
        owner
            .frame(FrameType.RESERVE, Status.OK, id)
            .with(0, push.checksum, 0)
            .with(Messages.reserveOf(push)));
  }

  /** Ends what takes too long, and what was cancelled. */
  void advance(NodeLink link, long nowNs) {
    if (underway.isEmpty()) {
      return;
    }
    if (reader.pushQueue().isCancelled()) {
      cancel(link);
    }
    for (Underway one : underway.values()) {
      if (nowNs - one.stepNs >= STEP_NS) {
        link.close("a block could not be pushed within " + STEP_NS / 1_000_000_000L + " s");
        return;
      }
    }
  }

  /** Ends the pushes for which there is no slot. The bytes of others are on their way. */
  private void cancel(NodeLink link) {
    List<Long> reserving = new ArrayList<>();
    underway.forEach((id, one) -> {
      if (one.step == Step.RESERVING) {
        reserving.add(id);
      }
    });
    for (Long id : reserving) {
      Underway one = remove(id);
      if (one != null) {
        link.send(owner.frame(FrameType.ABORT, Status.OK, id));
        one.push.end(Status.CANCELLED);
      }
    }
  }

  private @Nullable Underway remove(long id) {
    Underway one = underway.remove(id);
    bytes -= one == null ? 0 : one.push.length;
    return one;
  }

  // ---- what the node answers

  /** Takes an answer; false if the frame is none to a push. */
  boolean answered(NodeLink link, Frame frame, long nowNs) throws FrameException {
    switch (frame.type()) {
      case GO -> {
        var _ = room(frame);
        if (asked.remove(frame.id()) == null) {
          go(link, frame, nowNs);
        }
      }
      case HAVE -> {
        var _ = room(frame);
        Underway one = removeReserving(frame);
        if (one != null) {
          one.push.end(Status.EXISTS);
        }
      }
      case NO -> no(frame, nowNs);
      case PUSHED -> pushed(frame, nowNs);
      default -> {
        return false;
      }
    }
    return true;
  }

  /** Removes a push without a slot. The bytes of a push with a slot may be being read. */
  private @Nullable Underway removeReserving(Frame frame) throws FrameException {
    Underway one = underway.get(frame.id());
    if (one != null && one.step != Step.RESERVING) {
      throw new FrameException(
          "a node answers " + frame.type() + " for a block that it has given a slot");
    }
    return remove(frame.id());
  }

  private Messages.Room room(Frame frame) throws FrameException {
    Messages.Room room = Messages.Room.of(frame.body());
    unusedBytes = room.unusedBytes();
    return room;
  }

  private void go(NodeLink link, Frame frame, long nowNs) {
    Underway one = underway.get(frame.id());
    if (one == null || one.step != Step.RESERVING) {
      // Of an earlier connection, or cancelled: the slot there must not wait.
      if (one == null) {
        link.send(owner.frame(FrameType.ABORT, Status.OK, frame.id()));
      }
      return;
    }
    restNs = REST_NS;
    one.step = Step.SENDING;
    one.stepNs = nowNs;
    Push push = one.push;
    link.send(
        owner.frame(FrameType.PUSH, Status.OK, frame.id()).with(push.length, push.checksum, 0),
        push.bytes,
        () -> sent(frame.id(), one));
  }

  /** Nothing reads the bytes of a block any more. */
  private void sent(long id, Underway one) {
    one.step = Step.SENT;
    Status answer = one.answer;
    if (answer == null) {
      one.stepNs = reader.nowNs();
    } else {
      end(id, one, answer, reader.nowNs());
    }
  }

  private void no(Frame frame, long nowNs) throws FrameException {
    Messages.Room room = room(frame);
    Refusal refusal = new Refusal(frame.status(), reader.options().shown().apply(room.why()));
    SpaceName space = asked.remove(frame.id());
    boolean isPending = frame.status() == Status.PENDING;
    if (isPending) {
      rest(nowNs);
    }
    if (space != null) {
      if (isPending) {
        told.remove(space);
      } else {
        refused.put(space, refusal);
      }
      return;
    }
    Underway one = removeReserving(frame);
    if (one == null) {
      return;
    }
    // The node refuses blocks of a namespace that it could not register yet.
    if (isPending || !told.contains(one.space)) {
      one.push.refused(refusal.status, refusal.why);
    } else {
      denied = frame.status() == Status.DENIED ? refusal : denied;
      refuse(one.push, refused.getOrDefault(one.space, refusal));
    }
    reader.pushQueue().add(one.push);
  }

  private void rest(long nowNs) {
    isResting = true;
    notBeforeNs = nowNs + restNs;
    restNs = Math.min(2 * restNs, REST_NS_MAX);
  }

  private void pushed(Frame frame, long nowNs) throws FrameException {
    Underway one = underway.get(frame.id());
    if (one == null) {
      return;
    }
    if (one.step == Step.RESERVING) {
      throw new FrameException("a node has a block that was not sent");
    }
    if (one.step == Step.SENDING) {
      one.answer = frame.status(); // with a fabric, the answer can be first
    } else {
      end(frame.id(), one, frame.status(), nowNs);
    }
  }

  private void end(long id, Underway one, Status answer, long nowNs) {
    var _ = remove(id);
    switch (answer) {
      case OK -> {
        measure(one, nowNs);
        owner.peer().countPushed(one.push.length);
        one.push.end(Status.OK);
      }
      case CORRUPT -> one.push.end(Status.CORRUPT);
      default -> {
        refuse(one.push, new Refusal(answer, "the node gave its slot up"));
        reader.pushQueue().add(one.push);
      }
    }
  }

  /** The speed follows from the time since the block before, or since the last step of this one. */
  private void measure(Underway one, long nowNs) {
    long beginNs = Math.max(pushedNs, one.stepNs);
    pushedNs = nowNs;
    double speed = one.push.length / (double) Math.max(1, nowNs - beginNs);
    bytesPerNs = bytesPerNs == 0 ? speed : bytesPerNs + NEW_SHARE * (speed - bytesPerNs);
  }

  // ---- the end

  /** The connection is closed: the blocks go to other nodes, or to this one later. */
  void closed(String reason) {
    List<Underway> left = new ArrayList<>(underway.values());
    underway.clear();
    told.clear();
    asked.clear();
    refused.clear();
    denied = null;
    bytes = 0;
    isResting = false;
    unusedBytes = Long.MAX_VALUE;
    for (Underway one : left) {
      Push push = one.push;
      push.refused(Status.UNAVAILABLE, reason);
      if (++push.breaks >= BREAKS_MAX) {
        push.spare(owner.peer());
      }
      reader.pushQueue().add(push);
    }
  }
}
