package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.TracedRequest;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * One reader's connection to one node: made again after each break, with the questions and fetches
 * that wait for the node. All frames of the node carry the incarnations of both sides. A frame of
 * an earlier start of either side is ignored and counted. Confined to the reader's thread.
 */
final class PeerLink implements NodeLink.Listener {
  private static final long CONNECT_NS = TimeUnit.SECONDS.toNanos(5);
  private static final long PING_NS = TimeUnit.SECONDS.toNanos(1);
  private static final long SILENT_NS = TimeUnit.SECONDS.toNanos(3);
  private static final long REST_NS = TimeUnit.MILLISECONDS.toNanos(100);
  private static final long REST_NS_MAX = TimeUnit.SECONDS.toNanos(5);

  private static final long SELF_REST_NS = TimeUnit.MINUTES.toNanos(1);

  private enum State {
    /** The node has left. */
    GONE,
    RESTING,
    CONNECTING,
    GREETING,
    READY
  }

  /** Takes the answer to a question; null if there is none. */
  @FunctionalInterface
  interface Reply {
    /**
     * Takes it.
     *
     * @throws FrameException if the answer is against the rules: the link closes
     */
    void take(@Nullable Frame answer) throws FrameException;
  }

  /** A question that is not answered. */
  private record Asked(FrameType answer, Reply reply, long askedNs, long deadlineNs) {
    void unanswered() {
      try {
        reply.take(null);
      } catch (FrameException e) {
        throw new IllegalStateException("no answer is against no rule", e);
      }
    }
  }

  private final NodeReader reader;
  private final NodePeer peer;
  private final FetchLine fetches;
  private final PushLine pushes;
  private final FollowLine follows;
  private final Map<Long, Asked> asked = new LinkedHashMap<>();
  private State state = State.RESTING;
  private @Nullable NodeLink link;

  /** The state of the node after the link has closed. */
  private NodePeer.State failure = NodePeer.State.UNREACHABLE;

  private long incarnation;

  /** The number of the start that this link has met last; 0: none. */
  private long metIncarnation;

  private long begunNs;
  private long retryNs;
  private long restNs = REST_NS;
  private long pingedNs;
  private long pingId;

  /** Whether the bytes that are arriving are a piece of a block. */
  private boolean isPieceArriving;

  PeerLink(NodeReader reader, NodePeer peer) {
    this.reader = reader;
    this.peer = peer;
    fetches = new FetchLine(this, reader);
    pushes = new PushLine(this, reader);
    follows = new FollowLine(this, reader);
  }

  NodePeer peer() {
    return peer;
  }

  /** The pushes to the node. */
  PushLine pushes() {
    return pushes;
  }

  /** Asks the node for a block that it may not have yet; false if the node can't be asked. */
  boolean follow(Follow follow, long nowNs) {
    NodeLink now = link;
    if (now == null || state != State.READY) {
      return false;
    }
    follows.begin(follow, nowNs);
    return true;
  }

  /** Has the next round look for expected blocks that were given up. */
  void lookForGivenUp() {
    follows.lookForGivenUp();
  }

  @Nullable NodeLink link() {
    return link;
  }

  /** The number of the node's present start; 0 before the first connection. */
  long incarnation() {
    return incarnation;
  }

  boolean isReady() {
    return state == State.READY;
  }

  /** How long a block of a length would take if the node was asked for it now, ns. */
  long expectedNs(int length) {
    return fetches.expectedNs(length);
  }

  /** Whether one more block of a length can be fetched now: a node is not asked for too much. */
  boolean takes(int length) {
    return fetches.takes(length);
  }

  /** Another node has delivered a block. */
  void abandon(Fetch fetch) {
    fetches.abandon(fetch);
  }

  boolean isWaiting() {
    return !asked.isEmpty() || fetches.isWaiting() || pushes.isWaiting() || follows.isWaiting();
  }

  /** Blocks that are being fetched from this node must not be fetched from another one. */
  void forget(int number) {
    fetches.forget(number);
  }

  /** The node has left: what waits for it goes on without it, and nothing connects again. */
  void leave() {
    state = State.GONE;
    if (link != null) {
      link.close("the node has left");
    }
  }

  // ---- rounds

  /** Connects, asks whether the node is still there, and ends what takes too long. */
  void advance(long nowNs) {
    NodeLink now = link;
    switch (state) {
      case GONE -> {}
      case RESTING -> {
        if (nowNs - retryNs >= 0) {
          state = State.CONNECTING;
          begunNs = nowNs;
          failure = NodePeer.State.UNREACHABLE;
          link = reader.transport().connect(peer.address(), this);
        }
      }
      case CONNECTING, GREETING -> {
        if (now != null && nowNs - begunNs >= CONNECT_NS) {
          now.close("no connection within " + CONNECT_NS / 1_000_000_000L + " s");
        }
      }
      case READY -> {
        if (now != null) {
          watch(now, nowNs);
        }
      }
    }
  }

  private void watch(NodeLink now, long nowNs) {
    peer.setUsesFabric(now.usesFabric());
    // A node that takes the bytes of blocks may have no time for a PONG.
    if (nowNs - (pushes.isWaiting() ? now.movedNs() : now.heardNs()) >= SILENT_NS) {
      now.close("the node was silent for " + SILENT_NS / 1_000_000_000L + " s");
      return;
    }
    if (now.isDiscardingFor(SILENT_NS)) {
      now.close("a block that came too late has not ended");
      return;
    }
    if (pingId == 0 && nowNs - now.heardNs() >= PING_NS && nowNs - pingedNs >= PING_NS) {
      ping(now, nowNs);
    }
    endLate(now, nowNs);
    pushes.advance(now, nowNs);
    follows.advance(now, nowNs);
  }

  private void ping(NodeLink now, long nowNs) {
    pingedNs = nowNs;
    pingId = reader.nextId();
    now.send(frame(FrameType.PING, Status.OK, pingId));
  }

  /** Ends questions and fetches after their deadlines. The oldest question stands first. */
  private void endLate(NodeLink now, long nowNs) {
    boolean isSilent = false;
    while (!asked.isEmpty()) {
      Map.Entry<Long, Asked> first = asked.entrySet().iterator().next();
      if (nowNs - first.getValue().deadlineNs < 0) {
        break;
      }
      isSilent |= now.heardNs() - first.getValue().askedNs < 0;
      asked.remove(first.getKey());
      first.getValue().unanswered();
    }
    isSilent |= fetches.endLate(now, nowNs);
    if (isSilent && !pushes.isWaiting()) {
      now.close("the node did not answer in time");
    }
  }

  // ---- questions and fetches

  /**
   * Asks the node which blocks it has.
   *
   * @param body names the blocks
   */
  void ask(ByteBuffer body, int count, Asker asker, long nowNs) {
    request(
        FrameType.ASK,
        body,
        answer -> {
          Messages.Places places = null;
          try {
            if (answer != null && answer.status() == Status.OK) {
              places = Messages.Places.of(answer.body(), count);
            }
          } finally {
            asker.answered(peer, places);
          }
        },
        nowNs);
  }

  /**
   * Sends a question to the node. If the node can't be asked, the question is unanswered at once.
   */
  void request(FrameType type, ByteBuffer body, Reply reply, long nowNs) {
    FrameType answer =
        switch (type) {
          case ASK -> FrameType.ANSWER;
          case LOCATE -> FrameType.LOCATED;
          default -> FrameType.NOTED;
        };
    Asked question = new Asked(answer, reply, nowNs, nowNs + reader.options().askNs());
    NodeLink now = link;
    if (now == null || state != State.READY) {
      question.unanswered();
      return;
    }
    long id = reader.nextId();
    asked.put(id, question);
    now.send(frame(type, Status.OK, id).with(body));
  }

  /** Asks the node for a block, at the end of the round. */
  void fetch(Fetch fetch, long nowNs) {
    NodeLink now = link;
    if (now == null || state != State.READY) {
      reader.failed(fetch, this);
      return;
    }
    fetches.begin(fetch, nowNs);
  }

  /** Ends a round: sends what the node is asked for and told, in few frames. */
  void endRound() {
    NodeLink now = link;
    if (now == null || state != State.READY) {
      return;
    }
    fetches.endRound(now);
  }

  /** The frame that comes before a FETCH or FOLLOW of blocks that a traced request waits for. */
  @Nullable Frame trace(Transfer block, long id) {
    TracedRequest request = block.request;
    return request == null
        ? null
        : frame(FrameType.TRACE, Status.OK, id).with(Messages.traceOf(request));
  }

  Frame frame(FrameType type, Status status, long id) {
    return Frame.of(type, status, reader.options().incarnation(), incarnation, id);
  }

  // ---- what the link tells

  @Override
  public void onOpen(NodeLink opened) {
    if (state == State.GONE) {
      return;
    }
    state = State.GREETING;
    incarnation = 0;
    Messages.Hello hello =
        new Messages.Hello(reader.options().name(), reader.options().token().get());
    opened.send(frame(FrameType.HELLO, Status.OK, reader.nextId()).with(hello.body()));
  }

  @Override
  public @Nullable MemorySegment onFrame(NodeLink from, Frame frame) throws FrameException {
    if (!from.equals(link) || state == State.GONE) {
      return null;
    }
    if (state == State.GREETING) {
      greet(from, frame);
      return null;
    }
    if (reader.isStale(frame, incarnation)) {
      peer.countStale();
      fetches.stale();
      isPieceArriving = false;
      return null;
    }
    switch (frame.type()) {
      case ANSWER, LOCATED, NOTED -> answered(frame);
      case NONE -> {
        if (!follows.none(frame)) {
          fetches.none(frame);
        }
      }
      case PIECE -> {
        isPieceArriving = true;
        return follows.piece(frame);
      }
      case WHOLE -> follows.whole(from, frame);
      case BLOCK -> {
        isPieceArriving = false;
        return fetches.block(frame);
      }
      case PONG -> {
        if (frame.id() == pingId) {
          peer.tookRoundTrip(reader.nowNs() - pingedNs);
          pingId = 0;
        }
      }
      default -> {
        if (!pushes.answered(from, frame, reader.nowNs())) {
          throw new FrameException("a node that was asked sends a frame " + frame.type());
        }
      }
    }
    return null;
  }

  private void greet(NodeLink from, Frame frame) throws FrameException {
    switch (frame.type()) {
      case WELCOME -> {
        if (frame.receiver() != reader.options().incarnation()) {
          peer.countStale();
          return;
        }
        if (frame.sender() == reader.options().incarnation()) {
          failure = NodePeer.State.SELF;
          from.close("the address is this node's own");
          return;
        }
        incarnation = frame.sender();
        state = State.READY;
        restNs = REST_NS;
        peer.become(reader.number(), NodePeer.State.CONNECTED);
        boolean isAnotherStart = metIncarnation != 0 && metIncarnation != incarnation;
        metIncarnation = incarnation;
        String name = reader.options().shown().apply(frame.text());
        reader.connected(peer, name, incarnation, isAnotherStart);
        reader.ready(this);
        ping(from, reader.nowNs());
        from.trust();
      }
      case REFUSED -> {
        String why = reader.options().shown().apply(frame.text());
        failure = NodePeer.State.REFUSED;
        restNs = REST_NS_MAX;
        from.close("the node refuses this one: " + why);
      }
      default -> throw new FrameException("a node answers HELLO with a frame " + frame.type());
    }
  }

  private void answered(Frame frame) throws FrameException {
    Asked one = asked.remove(frame.id());
    if (one == null) {
      return; // it came after its deadline
    }
    if (frame.type() != one.answer) {
      one.unanswered();
      throw new FrameException("a node answers with " + frame.type() + ", not " + one.answer);
    }
    one.reply.take(frame);
  }

  @Override
  public void onPayload(NodeLink from, int checksum, boolean isKept) {
    if (isPieceArriving) {
      isPieceArriving = false;
      follows.arrived(isKept);
      return;
    }
    fetches.arrived(from, checksum, isKept);
  }

  @Override
  public void onClosed(NodeLink closed, String why) {
    if (!closed.equals(link)) {
      return;
    }
    link = null;
    boolean wasReady = state == State.READY || (state == State.GONE && incarnation != 0);
    boolean isGone = state == State.GONE;
    state = isGone ? State.GONE : State.RESTING;
    boolean isSelf = failure == NodePeer.State.SELF;
    peer.become(reader.number(), failure);
    long nowNs = reader.nowNs();
    retryNs = nowNs + (isSelf ? SELF_REST_NS : restNs);
    restNs = wasReady ? REST_NS : Math.min(2 * restNs, REST_NS_MAX);
    isPieceArriving = false;
    pingId = 0;
    if (wasReady) {
      reader.closed(this);
    }
    if (!isSelf && !isGone) {
      peer.failed(why);
      reader.broken(peer, wasReady, why);
    }
    List<Asked> unanswered = new ArrayList<>(asked.values());
    asked.clear();
    unanswered.forEach(Asked::unanswered);
    pushes.closed(why);
    follows.closed(why);
    fetches.closed(why, isGone);
  }
}
