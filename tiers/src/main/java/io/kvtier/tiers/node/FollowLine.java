package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Checksums;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The blocks that one reader expects from one node, over one connection. FOLLOW names a block,
 * PIECEs bring its bytes as the node gets them, WHOLE tells its checksum, and STOP ends it. A slot
 * here is given back only when no piece can arrive in it any more: this side decides where each
 * piece goes, and pieces of a block that was given up go nowhere. Confined to the reader's thread.
 */
final class FollowLine {
  /** How many frames may wait in the link before others wait here. */
  private static final int QUEUED_MAX = 256;

  /** The shortest time between two looks for blocks that are late. */
  private static final long LOOK_EVERY_NS = TimeUnit.MILLISECONDS.toNanos(5);

  /** The piece that is arriving. */
  private record Arriving(long id, Follow follow, Messages.Piece piece) {}

  private final PeerLink owner;
  private final NodeReader reader;
  private final Map<Long, Follow> follows = new LinkedHashMap<>();

  /** FOLLOW and STOP frames for which the link has no space yet. */
  private final ArrayDeque<Frame> unsent = new ArrayDeque<>();

  /** The time of the next look for blocks that are late, if there are blocks. */
  private long nextLookNs;

  /** Whether blocks may have been given up since the last look. */
  private boolean isToLook;

  private @Nullable Arriving arriving;

  /** The block that was given up while a piece of it arrived: its slot may still be written. */
  private @Nullable Follow ending;

  private Status endingStatus = Status.MISS;
  private String endingWhy = "";

  FollowLine(PeerLink owner, NodeReader reader) {
    this.owner = owner;
    this.reader = reader;
  }

  /** Whether frames wait for the link. */
  boolean isWaiting() {
    return !unsent.isEmpty();
  }

  /** Asks the node for a block. */
  void begin(Follow follow, long nowNs) {
    long id = reader.nextId();
    long deadlineNs = follow.transfer.deadlineNs;
    if (follows.isEmpty() || deadlineNs - nextLookNs < 0) {
      nextLookNs = deadlineNs;
    }
    follows.put(id, follow);
    Frame trace = owner.trace(follow.transfer, id);
    if (trace != null) {
      unsent.add(trace);
    }
    unsent.add(
        owner
            .frame(FrameType.FOLLOW, Status.OK, id)
            .with(Messages.followOf(follow.transfer, deadlineNs - nowNs)));
  }

  /** Has the next round look for blocks that were given up. */
  void lookForGivenUp() {
    isToLook = true;
  }

  /** Sends what waits, and ends the blocks that are late or were given up. */
  void advance(NodeLink link, long nowNs) {
    if (isToLook || (!follows.isEmpty() && nowNs - nextLookNs >= 0)) {
      isToLook = false;
      look(link, nowNs);
    }
    while (!unsent.isEmpty() && link.queued() < QUEUED_MAX) {
      Frame next = unsent.remove();
      link.send(next);
      if (next.type() == FrameType.TRACE) {
        // The FOLLOW of this TRACE: no other frame may come between both.
        link.send(unsent.remove());
      }
    }
  }

  private void look(NodeLink link, long nowNs) {
    List<Long> over = new ArrayList<>();
    long leftNs = Long.MAX_VALUE;
    for (Map.Entry<Long, Follow> each : follows.entrySet()) {
      if (each.getValue().isOver(nowNs)) {
        over.add(each.getKey());
      } else {
        leftNs = Math.min(leftNs, each.getValue().transfer.deadlineNs - nowNs);
      }
    }
    nextLookNs = nowNs + Math.max(leftNs, LOOK_EVERY_NS);
    for (Long id : over) {
      Follow follow = follows.get(id);
      if (follow != null) {
        if (follow.transfer.givenUp) {
          end(link, id, follow, Status.CANCELLED, "");
        } else {
          end(link, id, follow, Status.DEADLINE, "it was not in time");
        }
      }
    }
  }

  /** Ends a block here, and tells the node. */
  private void end(NodeLink link, long id, Follow follow, Status status, String why) {
    follows.remove(id);
    Status told = status == Status.CORRUPT ? Status.CORRUPT : Status.OK;
    unsent.add(owner.frame(FrameType.STOP, told, id));
    if (arriving == null || arriving.id != id) {
      finish(follow, status, why);
      return;
    }
    arriving = null;
    ending = follow;
    endingStatus = status;
    endingWhy = why;
    link.discard(this::released);
  }

  private void released() {
    Follow follow = ending;
    ending = null;
    if (follow != null) {
      finish(follow, endingStatus, endingWhy);
    }
  }

  private void finish(Follow follow, Status status, String why) {
    String trouble =
        why.isEmpty()
            ? ""
            : "node " + owner.peer().address() + ": " + why + ", and " + follow.pieces.missing();
    reader.followed(follow, status, trouble);
  }

  // ---- what the node sends

  /** A piece begins to come; null if it goes nowhere. */
  @Nullable MemorySegment piece(Frame frame) throws FrameException {
    arriving = null;
    Follow follow = follows.get(frame.id());
    if (follow == null) {
      return null;
    }
    int length = follow.transfer.length;
    Messages.Piece piece = Messages.Piece.of(frame.body(), length, frame.payloadBytes());
    if (!follow.pieces.isNew(piece)) {
      owner.peer().countStale();
      return null;
    }
    arriving = new Arriving(frame.id(), follow, piece);
    return follow.transfer.bytes().asSlice(piece.offset(length), frame.payloadBytes());
  }

  /** All bytes of the piece have come. */
  void arrived(boolean isKept) {
    Arriving now = arriving;
    arriving = null;
    if (now != null && isKept) {
      now.follow.pieces.add(now.piece);
      now.follow.transfer.pieces++;
    }
  }

  /** The node has sent all pieces of a block. */
  void whole(NodeLink link, Frame frame) {
    Follow follow = follows.get(frame.id());
    if (follow == null) {
      // Given up a moment ago, or of an earlier connection: the lease there must not wait.
      unsent.add(owner.frame(FrameType.STOP, Status.OK, frame.id()));
      return;
    }
    if (!follow.pieces.isWhole()) {
      end(link, frame.id(), follow, Status.IO_ERROR, "the block is said to be whole");
      return;
    }
    int checksum = Checksums.of(follow.transfer.bytes());
    boolean isGood = checksum == frame.checksum();
    if (isGood) {
      follow.transfer.checksum = checksum;
      owner.peer().countBlock(follow.transfer.length);
    } else {
      owner.peer().countError();
      reader.damaged(owner.peer(), frame.checksum(), checksum);
    }
    end(link, frame.id(), follow, isGood ? Status.OK : Status.CORRUPT, "");
  }

  /** The node does not deliver a block; false if the frame is of no block here. */
  boolean none(Frame frame) {
    Follow follow = follows.remove(frame.id());
    if (follow == null) {
      return false;
    }
    boolean isError = frame.status() != Status.MISS && frame.status() != Status.DEADLINE;
    if (isError) {
      owner.peer().countError();
    }
    String why = reader.options().shown().apply(frame.text());
    finish(follow, frame.status() == Status.DEADLINE ? Status.DEADLINE : Status.MISS, why);
    return true;
  }

  /** The connection is closed: no piece comes any more. */
  void closed(String why) {
    List<Follow> left = new ArrayList<>(follows.values());
    follows.clear();
    unsent.clear();
    arriving = null;
    released();
    for (Follow follow : left) {
      finish(follow, Status.IO_ERROR, "the connection broke: " + why);
    }
  }
}
