package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
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

  /** The most blocks that a node is asked for at a time, and their bytes. */
  private static final int FETCHES_MAX = 64;

  private static final long FETCHED_BYTES_MAX = 16L << 20;

  private static final long SELF_REST_NS = TimeUnit.MINUTES.toNanos(1);

  private enum State {
    /** The node has left. */
    GONE,
    RESTING,
    CONNECTING,
    GREETING,
    READY
  }

  /** An ASK that is not answered. */
  private record Asked(List<Question> questions, long askedNs, long deadlineNs) {}

  private final NodeReader reader;
  private final NodePeer peer;
  private final Map<Long, Asked> asked = new LinkedHashMap<>();
  private final Map<Long, Fetch> fetches = new LinkedHashMap<>();
  private long fetchedBytes;
  private State state = State.RESTING;
  private @Nullable NodeLink link;

  /** What the node is when the link closes. */
  private NodePeer.State failure = NodePeer.State.UNREACHABLE;

  private long incarnation;
  private long begunNs;
  private long retryNs;
  private long restNs = REST_NS;
  private long pingedNs;
  private long pingId;

  /** The fetch whose block is arriving; null: the block that is arriving goes nowhere. */
  private @Nullable Fetch arriving;

  private @Nullable Frame arrivingFrame;

  /** The fetch that was given up while its block arrived: its slot may still be written. */
  private @Nullable Fetch ending;

  PeerLink(NodeReader reader, NodePeer peer) {
    this.reader = reader;
    this.peer = peer;
  }

  NodePeer peer() {
    return peer;
  }

  boolean isReady() {
    return state == State.READY;
  }

  int fetching() {
    return fetches.size();
  }

  /** Whether one more block of a length can be fetched now: a node is not asked for too much. */
  boolean takes(int length) {
    return fetches.isEmpty()
        || (fetches.size() < FETCHES_MAX && fetchedBytes + length <= FETCHED_BYTES_MAX);
  }

  private @Nullable Fetch removeFetch(long id) {
    Fetch fetch = fetches.remove(id);
    fetchedBytes -= fetch == null ? 0 : fetch.transfer.length;
    return fetch;
  }

  boolean isWaiting() {
    return !asked.isEmpty() || !fetches.isEmpty();
  }

  /** What is fetched from this node must not be tried with some others. */
  void forget(long bits) {
    fetches.values().forEach(fetch -> fetch.candidates &= ~bits);
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
    if (nowNs - now.heardNs() >= SILENT_NS) {
      now.close("the node was silent for " + SILENT_NS / 1_000_000_000L + " s");
      return;
    }
    if (pingId == 0 && nowNs - now.heardNs() >= PING_NS && nowNs - pingedNs >= PING_NS) {
      ping(now, nowNs);
    }
    endLate(now, nowNs);
  }

  private void ping(NodeLink now, long nowNs) {
    pingedNs = nowNs;
    pingId = reader.nextId();
    now.send(frame(FrameType.PING, Status.OK, pingId));
  }

  /** Ends what has passed its deadline. The oldest stand first, and all have equally long. */
  private void endLate(NodeLink now, long nowNs) {
    boolean isSilent = false;
    while (!asked.isEmpty()) {
      Map.Entry<Long, Asked> first = asked.entrySet().iterator().next();
      if (nowNs - first.getValue().deadlineNs < 0) {
        break;
      }
      isSilent |= now.heardNs() - first.getValue().askedNs < 0;
      asked.remove(first.getKey());
      unanswered(first.getValue());
    }
    List<Long> late = new ArrayList<>();
    for (Map.Entry<Long, Fetch> each : fetches.entrySet()) {
      if (nowNs - each.getValue().deadlineNs >= 0) {
        late.add(each.getKey());
      }
    }
    for (Long id : late) {
      Fetch fetch = removeFetch(id);
      if (fetch != null) {
        isSilent |= now.heardNs() - fetch.askedNs < 0;
        expire(now, fetch);
      }
    }
    if (isSilent) {
      now.close("the node did not answer in time");
    }
  }

  private void expire(NodeLink now, Fetch fetch) {
    peer.countError();
    fetch.trouble = "node " + peer.address() + " did not deliver in time";
    fetch.candidates = 0;
    if (fetch == arriving) {
      arriving = null;
      ending = fetch;
      now.discard(this::released);
    } else {
      reader.goOn(fetch);
    }
  }

  /** Nothing writes the slot any more of the block that was given up while it arrived. */
  private void released() {
    Fetch fetch = ending;
    ending = null;
    if (fetch != null) {
      reader.goOn(fetch);
    }
  }

  // ---- questions and fetches

  /** Asks the node about blocks that go together. */
  void ask(List<Question> questions, long nowNs) {
    NodeLink now = link;
    if (now == null || state != State.READY) {
      unanswered(new Asked(questions, nowNs, nowNs));
      return;
    }
    long id = reader.nextId();
    asked.put(id, new Asked(questions, nowNs, nowNs + reader.options().askNs()));
    now.send(frame(FrameType.ASK, Status.OK, id).with(Messages.keysOf(questions)));
  }

  private void unanswered(Asked one) {
    one.questions.forEach(question -> reader.answered(question, peer, false, false));
  }

  /** Asks the node for a block. */
  void fetch(Fetch fetch, long nowNs) {
    NodeLink now = link;
    if (now == null || state != State.READY) {
      reader.goOn(fetch);
      return;
    }
    long id = reader.nextId();
    fetch.askedNs = nowNs;
    fetches.put(id, fetch);
    fetchedBytes += fetch.transfer.length;
    now.send(frame(FrameType.FETCH, Status.OK, id).with(Messages.keyOf(fetch.transfer)));
  }

  private Frame frame(FrameType type, Status status, long id) {
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
      arriving = null;
      arrivingFrame = null;
      return null;
    }
    switch (frame.type()) {
      case ANSWER -> answered(frame);
      case NONE -> none(frame);
      case BLOCK -> {
        return block(frame);
      }
      case PONG -> {
        if (frame.id() == pingId) {
          peer.tookRoundTrip(reader.nowNs() - pingedNs);
          pingId = 0;
        }
      }
      default -> throw new FrameException("a node that was asked sends a frame " + frame.type());
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
        reader.connected(peer, reader.options().shown().apply(frame.text()), incarnation);
        ping(from, reader.nowNs());
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
    ByteBuffer places = frame.body();
    boolean isWhole = places.remaining() == one.questions.size();
    for (int i = 0; i < one.questions.size(); i++) {
      boolean isHere = isWhole && places.get(places.position() + i) == Frame.IN_MEMORY;
      reader.answered(one.questions.get(i), peer, isWhole, isHere);
    }
    if (!isWhole && frame.status() == Status.OK) {
      throw new FrameException(
          places.remaining() + " answers to " + one.questions.size() + " questions");
    }
  }

  private void none(Frame frame) {
    Fetch fetch = removeFetch(frame.id());
    if (fetch == null) {
      return;
    }
    if (frame.status() == Status.MISS) {
      reader.hints().remove(fetch.key, peer.bit());
    } else {
      peer.countError();
      fetch.trouble = "node " + peer.address() + " answers " + frame.status();
    }
    reader.goOn(fetch);
  }

  private @Nullable MemorySegment block(Frame frame) throws FrameException {
    Fetch fetch = fetches.get(frame.id());
    arrivingFrame = frame;
    arriving = fetch;
    if (fetch == null) {
      return null;
    }
    if (frame.payloadBytes() != fetch.transfer.length) {
      throw new FrameException(
          "a block has " + frame.payloadBytes() + " bytes, expected " + fetch.transfer.length);
    }
    return fetch.transfer.bytes();
  }

  @Override
  public void onPayload(NodeLink from, int checksum, boolean isKept) {
    Frame frame = arrivingFrame;
    Fetch fetch = arriving;
    arriving = null;
    arrivingFrame = null;
    if (frame == null) {
      return;
    }
    boolean isGood = fetch == null || (isKept && checksum == frame.checksum());
    from.send(
        frame(FrameType.RELEASE, isGood ? Status.OK : Status.CORRUPT, frame.id())
            .with(0, 0, frame.lease()));
    if (fetch == null) {
      return;
    }
    removeFetch(frame.id());
    if (isGood) {
      peer.countBlock(frame.payloadBytes());
      fetch.transfer.checksum = checksum;
      reader.finish(fetch, Status.OK);
      return;
    }
    peer.countError();
    reader.damaged(fetch, peer, frame.checksum(), checksum);
    reader.goOn(fetch);
  }

  @Override
  public void onClosed(NodeLink closed, String why) {
    if (!closed.equals(link)) {
      return;
    }
    link = null;
    boolean wasReady = state == State.READY;
    boolean isGone = state == State.GONE;
    state = isGone ? State.GONE : State.RESTING;
    boolean isSelf = failure == NodePeer.State.SELF;
    peer.become(reader.number(), failure);
    long nowNs = reader.nowNs();
    retryNs = nowNs + (isSelf ? SELF_REST_NS : restNs);
    restNs = wasReady ? REST_NS : Math.min(2 * restNs, REST_NS_MAX);
    arriving = null;
    arrivingFrame = null;
    pingId = 0;
    if (!isSelf && !isGone) {
      peer.failed(why);
      reader.broken(peer, wasReady, why);
    }
    List<Asked> unanswered = new ArrayList<>(asked.values());
    List<Fetch> undelivered = new ArrayList<>(fetches.values());
    asked.clear();
    fetches.clear();
    fetchedBytes = 0;
    unanswered.forEach(this::unanswered);
    released();
    for (Fetch fetch : undelivered) {
      if (!isGone) {
        peer.countError();
        fetch.trouble = "the connection to node " + peer.address() + " broke: " + why;
      }
      reader.goOn(fetch);
    }
  }
}
