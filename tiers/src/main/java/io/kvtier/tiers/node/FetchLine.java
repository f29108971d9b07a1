package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The blocks that one reader fetches from one node, over one connection. One FETCH names the blocks
 * of a round that have one namespace, group, length and traced request, in their order. One RELEASE
 * names the leases that end in a round. Each block is answered on its own. Confined to the reader's
 * thread.
 */
final class FetchLine {
  /** The most blocks that a node is asked for at a time, and their bytes. */
  private static final int FETCHES_MAX = Messages.FETCHED_MAX;

  private static final long FETCHED_BYTES_MAX = 16L << 20;

  /**
   * A block that the node is asked for, and that it has not answered.
   *
   * @param expectedNs how long it should take; negative if that is not known
   */
  private record Fetching(Fetch fetch, long askedNs, long expectedNs) {
    /** Whether one FETCH can name both blocks. */
    boolean goesWith(Fetching other) {
      return OneFrame.names(fetch.transfer, other.fetch.transfer)
          && fetch.transfer.length == other.fetch.transfer.length
          && Objects.equals(fetch.transfer.request, other.fetch.transfer.request);
    }
  }

  private final PeerLink owner;
  private final NodeReader reader;
  private final NodePeer peer;
  private final Map<Long, Fetching> fetches = new LinkedHashMap<>();

  /** The blocks that the node is asked for at the end of the round. */
  private final List<Fetching> unsent = new ArrayList<>();

  /** The leases that the node is told of at the end of the round. */
  private final long[] ended = new long[Messages.FETCHED_MAX];

  private int endedCount;

  /** The bytes of all blocks that the node is asked for. */
  private long fetchedBytes;

  /** The time of the next look for blocks that are late, if there are blocks. */
  private long nextLookNs;

  /** The time at which the last block had come, ns; also of a block that went nowhere. */
  private long deliveredNs;

  /** The fetch whose block is arriving; null: the block that is arriving goes nowhere. */
  private @Nullable Fetch arriving;

  private @Nullable Frame arrivingFrame;

  /** The fetch that was given up while its block arrived: its slot may still be written. */
  private @Nullable Fetch ending;

  FetchLine(PeerLink owner, NodeReader reader) {
    this.owner = owner;
    this.reader = reader;
    peer = owner.peer();
  }

  /** Whether the node is asked for blocks. */
  boolean isWaiting() {
    return !fetches.isEmpty() || !unsent.isEmpty();
  }

  /** How long a block of a length would take if the node was asked for it now, ns. */
  long expectedNs(int length) {
    return peer.speed().isKnown(reader.nowNs())
        ? peer.speed().expectedNs(fetchedBytes + length)
        : peer.roundTripNs();
  }

  /** Whether one more block of a length can be fetched now: a node is not asked for too much. */
  boolean takes(int length) {
    int count = fetches.size() + unsent.size();
    return count == 0 || (count < FETCHES_MAX && fetchedBytes + length <= FETCHED_BYTES_MAX);
  }

  // ---- requests

  /** Asks the node for a block, at the end of the round. */
  void begin(Fetch fetch, long nowNs) {
    long expectedNs = peer.speed().isKnown(nowNs) ? expectedNs(fetch.transfer.length) : -1;
    if (fetch.second == null) {
      long lateNs = expectedNs < 0 ? HedgeTimes.NEVER : reader.hedges().lateNs(expectedNs);
      fetch.lateNs = lateNs == HedgeTimes.NEVER ? lateNs : nowNs + lateNs;
    }
    nextLookNs = isWaiting() ? earlier(nextLookNs, firstNs(fetch)) : firstNs(fetch);
    fetch.askedAt.add(owner);
    unsent.add(new Fetching(fetch, nowNs, expectedNs));
    fetchedBytes += fetch.transfer.length;
  }

  /** The time at which a block is late, or is given up. */
  private static long firstNs(Fetch fetch) {
    return fetch.lateNs == HedgeTimes.NEVER
        ? fetch.deadlineNs
        : earlier(fetch.lateNs, fetch.deadlineNs);
  }

  private static long earlier(long oneNs, long otherNs) {
    return oneNs - otherNs < 0 ? oneNs : otherNs;
  }

  /** Sends what the node is asked for and told. */
  void endRound(NodeLink now) {
    if (endedCount > 0) {
      sendEnded(now);
    }
    OneFrame.gather(
        unsent, Messages.FETCHED_MAX, Fetching::goesWith, together -> send(now, together));
    unsent.clear();
  }

  private void send(NodeLink now, List<Fetching> together) {
    List<Transfer> blocks = new ArrayList<>(together.size());
    long first = reader.nextIds(together.size());
    for (Fetching one : together) {
      fetches.put(first + blocks.size(), one);
      blocks.add(one.fetch.transfer);
    }
    Frame trace = owner.trace(blocks.getFirst(), first);
    if (trace != null) {
      now.send(trace);
    }
    now.send(owner.frame(FrameType.FETCH, Status.OK, first).with(Messages.fetchOf(blocks)));
  }

  private void sendEnded(NodeLink now) {
    sendRelease(now, Status.OK, Messages.releaseOf(ended, endedCount));
    endedCount = 0;
  }

  private void sendRelease(NodeLink now, Status status, ByteBuffer leases) {
    now.send(owner.frame(FrameType.RELEASE, status, reader.nextId()).with(leases));
  }

  // ---- ends

  private @Nullable Fetching remove(long id) {
    Fetching fetching = fetches.remove(id);
    fetchedBytes -= fetching == null ? 0 : fetching.fetch.transfer.length;
    return fetching;
  }

  /**
   * Another node has delivered a block. If this node delivers the block, too, the bytes go nowhere.
   * If this node should have delivered by now, its speed is lower than was expected.
   */
  void abandon(Fetch fetch) {
    long nowNs = reader.nowNs();
    for (Fetching one : fetches.values()) {
      long elapsedNs = nowNs - one.askedNs;
      if (one.fetch == fetch && one.expectedNs >= 0 && elapsedNs > one.expectedNs) {
        peer.speed().late(elapsedNs, nowNs);
        reader.hedges().learn(one.expectedNs, elapsedNs);
      }
    }
    if (fetches.values().removeIf(one -> one.fetch == fetch)
        || unsent.removeIf(one -> one.fetch == fetch)) {
      fetchedBytes -= fetch.transfer.length;
    }
  }

  /** Blocks that are being fetched from this node must not be fetched from another one. */
  void forget(int number) {
    Consumer<Fetching> forget =
        one -> one.fetch.holders = Holders.remove(one.fetch.holders, number);
    fetches.values().forEach(forget);
    unsent.forEach(forget);
  }

  /**
   * Ends fetches after their deadlines, and asks other nodes for those that are late.
   *
   * @return whether the node has been silent since it was asked for a block that is too late
   */
  boolean endLate(NodeLink now, long nowNs) {
    if (fetches.isEmpty() || nowNs - nextLookNs < 0) {
      return false;
    }
    List<Long> late = new ArrayList<>();
    List<Fetch> toHedge = new ArrayList<>();
    nextLookNs = nowNs + Long.MAX_VALUE / 2;
    for (Fetching one : unsent) {
      nextLookNs = earlier(nextLookNs, firstNs(one.fetch));
    }
    for (Map.Entry<Long, Fetching> each : fetches.entrySet()) {
      Fetch fetch = each.getValue().fetch;
      if (nowNs - fetch.deadlineNs >= 0) {
        late.add(each.getKey());
        continue;
      }
      if (fetch.lateNs != HedgeTimes.NEVER && nowNs - fetch.lateNs >= 0) {
        toHedge.add(fetch);
      }
      nextLookNs = earlier(nextLookNs, firstNs(fetch));
    }
    boolean isSilent = false;
    for (Long id : late) {
      Fetching one = remove(id);
      if (one != null) {
        isSilent |= now.heardNs() - one.askedNs < 0;
        peer.speed().late(nowNs - one.askedNs, nowNs);
        expire(now, one.fetch);
      }
    }
    toHedge.forEach(reader::hedge);
    return isSilent;
  }

  private void expire(NodeLink now, Fetch fetch) {
    peer.countError();
    fetch.trouble = "node " + peer.address() + " did not deliver in time";
    if (fetch == arriving) {
      arriving = null;
      ending = fetch;
      now.discard(this::released);
    } else {
      reader.failed(fetch, owner);
    }
  }

  /** A block was given up while it arrived, and nothing writes its slot any more. */
  private void released() {
    Fetch fetch = ending;
    ending = null;
    if (fetch != null) {
      fetch.isArriving = false;
      reader.failed(fetch, owner);
    }
  }

  /**
   * The connection is closed.
   *
   * @param isGone whether the node has left, which is no error
   */
  void closed(String why, boolean isGone) {
    if (arriving != null) {
      arriving.isArriving = false;
    }
    arriving = null;
    arrivingFrame = null;
    List<Fetching> undelivered = new ArrayList<>(fetches.values());
    undelivered.addAll(unsent);
    fetches.clear();
    unsent.clear();
    endedCount = 0;
    fetchedBytes = 0;
    released();
    for (Fetching one : undelivered) {
      if (!isGone) {
        peer.countError();
        one.fetch.trouble = "the connection to node " + peer.address() + " broke: " + why;
      }
      reader.failed(one.fetch, owner);
    }
  }

  // ---- answers

  /** The node does not deliver a block. */
  void none(Frame frame) {
    Fetching one = remove(frame.id());
    if (one == null) {
      return;
    }
    if (frame.status() == Status.MISS) {
      reader.hints().remove(one.fetch.key, peer.number());
    } else {
      peer.countError();
      one.fetch.trouble = "node " + peer.address() + " answers " + frame.status();
    }
    reader.failed(one.fetch, owner);
  }

  /** A block begins to come; returns where its bytes go, null for nowhere. */
  @Nullable MemorySegment block(Frame frame) throws FrameException {
    Fetching one = fetches.get(frame.id());
    arrivingFrame = frame;
    arriving = null;
    if (one == null) {
      return null;
    }
    Fetch fetch = one.fetch;
    if (frame.payloadBytes() != fetch.transfer.length) {
      throw new FrameException(
          "a block has " + frame.payloadBytes() + " bytes, expected " + fetch.transfer.length);
    }
    if (fetch.isArriving) {
      // Another connection writes the slot. If that comes to nothing, the node is asked again.
      var _ = remove(frame.id());
      fetch.tried.remove(owner);
      reader.failed(fetch, owner);
      return null;
    }
    fetch.isArriving = true;
    arriving = fetch;
    return fetch.transfer.bytes();
  }

  /** A frame of an earlier start has come: the bytes behind it are of no block. */
  void stale() {
    arriving = null;
    arrivingFrame = null;
  }

  /** All bytes of a block have come. */
  void arrived(NodeLink from, int checksum, boolean isKept) {
    Frame frame = arrivingFrame;
    Fetch fetch = arriving;
    arriving = null;
    arrivingFrame = null;
    if (frame == null) {
      return;
    }
    boolean isGood = fetch == null || (isKept && checksum == frame.checksum());
    endLease(from, frame.lease(), isGood);
    long beforeNs = deliveredNs;
    deliveredNs = reader.nowNs();
    if (fetch == null) {
      return;
    }
    fetch.isArriving = false;
    Fetching one = remove(frame.id());
    if (isGood) {
      peer.countBlock(frame.payloadBytes());
      learn(one, frame.payloadBytes(), beforeNs);
      fetch.transfer.checksum = checksum;
      reader.delivered(fetch, owner);
      return;
    }
    peer.countError();
    reader.damaged(fetch, peer, frame.checksum(), checksum);
    reader.failed(fetch, owner);
  }

  private void endLease(NodeLink from, long lease, boolean isGood) {
    if (!isGood) {
      sendRelease(from, Status.CORRUPT, Messages.releaseOf(new long[] {lease}, 1));
      return;
    }
    ended[endedCount++] = lease;
    if (endedCount == ended.length) {
      sendEnded(from);
    }
  }

  /**
   * A block came.
   *
   * @param beforeNs when the block before it had come, also if that one went nowhere
   */
  private void learn(@Nullable Fetching one, int length, long beforeNs) {
    long nowNs = deliveredNs;
    if (one != null) {
      boolean isFollowing = beforeNs - one.askedNs > 0;
      long sinceNs = isFollowing ? beforeNs : one.askedNs;
      peer.speed().delivered(length, nowNs - sinceNs, isFollowing, nowNs);
      if (one.expectedNs >= 0) {
        reader.hedges().learn(one.expectedNs, nowNs - one.askedNs);
      }
    }
  }
}
