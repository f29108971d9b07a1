package io.kvtier.daemon.node;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.access.VerbRoles;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.ServedBlock;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.node.DirectoryMessages;
import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameException;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.Messages;
import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.transfer.TracedRequest;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Another node that reads blocks here, expects some, and perhaps pushes some: a session with the
 * index, for as long as the link lasts. A leased block is sent from its slot. The lease ends when
 * the node says that it has the bytes, when the link closes, or after the time of all leases.
 * Confined to the server's thread.
 */
final class ServedLink implements NodeLink.Listener {
  /** The most leases, and fetches that wait for one. */
  static final int LEASES_MAX = 256;

  /** The most ASKs that wait for the index, and the most keys that they name. */
  static final int ASKS_MAX = 64;

  static final int ASKED_KEYS_MAX = 4 * Messages.KEYS_MAX;

  /** The keys of a question take memory of this many bytes, or of a higher power of two. */
  private static final int KEY_MEMORY_MIN = 256;

  private final NodeServer server;
  private final long cameNs;

  private final ServedLeases leases;
  private final Intake intake;
  private final PieceSender pieces;
  private volatile @Nullable NodeLink link;
  private @Nullable Session session;
  private volatile String name = "";
  private long incarnation;

  /** Whether the node announces its blocks on this link. */
  private boolean hasAnnounced;

  /** The traced request that wants blocks, and the FETCH or FOLLOW that names them. */
  private @Nullable TracedRequest traced;

  private long tracedId;
  private int fetches;
  private int asks;
  private int askedKeys;

  ServedLink(NodeServer server, long nowNs) {
    this.server = server;
    cameNs = nowNs;
    leases = new ServedLeases(server);
    intake = new Intake(this, server);
    pieces = new PieceSender(this, server);
  }

  /** The blocks that the node pushes here. */
  Intake intake() {
    return intake;
  }

  /** The blocks that the node reads. */
  ServedLeases leases() {
    return leases;
  }

  /** The blocks that the node expects. */
  PieceSender pieces() {
    return pieces;
  }

  /** Whether a session is this link's, and has not ended. */
  boolean isOf(Session one) {
    return one.equals(session);
  }

  boolean isGreeted() {
    return session != null;
  }

  long cameNs() {
    return cameNs;
  }

  String name() {
    return name;
  }

  @Nullable NodeLink link() {
    return link;
  }

  void adoptedBy(NodeLink made) {
    link = made;
  }

  // ---- what the link tells

  @Override
  public void onOpen(NodeLink opened) {}

  @Override
  public @Nullable MemorySegment onFrame(NodeLink from, Frame frame) throws FrameException {
    Session now = session;
    if (now == null) {
      greet(from, frame);
      return null;
    }
    if (frame.sender() != incarnation || frame.receiver() != server.incarnation()) {
      return null; // of an earlier start of either side
    }
    switch (frame.type()) {
      case ASK -> ask(now, from, frame);
      case FETCH -> fetch(now, from, frame);
      case ANNOUNCE -> announced(from, frame);
      case LOCATE -> locate(from, frame);
      case RELEASE -> release(now, frame);
      case PING -> from.send(answer(FrameType.PONG, Status.OK, frame.id()));
      case FOLLOW -> pieces.follow(now, from, frame, takeTrace(frame.id()));
      case TRACE -> {
        traced = Messages.trace(frame.body());
        tracedId = frame.id();
      }
      case STOP -> pieces.stop(now, frame);
      case SPACE -> intake.space(now, from, frame);
      case RESERVE -> intake.reserve(now, from, frame);
      case ABORT -> intake.abort(now, frame);
      case PUSH -> {
        return intake.push(frame);
      }
      default -> throw new FrameException("a node that reads sends a frame " + frame.type());
    }
    return null;
  }

  /** The traced request whose blocks a frame names; null if there is none. */
  private @Nullable TracedRequest takeTrace(long id) {
    TracedRequest request = id == tracedId ? traced : null;
    traced = null;
    return request;
  }

  Frame answer(FrameType type, Status status, long id) {
    return Frame.of(type, status, server.incarnation(), incarnation, id);
  }

  private void greet(NodeLink from, Frame frame) throws FrameException {
    if (frame.type() != FrameType.HELLO || frame.sender() == 0) {
      throw new FrameException("a node begins with a frame " + frame.type() + ", expected HELLO");
    }
    incarnation = frame.sender();
    Messages.Hello hello = Messages.Hello.of(frame.body());
    name = Printable.linesOf(hello.name());
    Grant grant = server.grantOf(hello.token());
    if (grant == null || !VerbRoles.mayCall(grant.role(), Verb.ACQUIRE)) {
      refuse(from, frame, "a valid token with the role read is needed (nodes.token_file)");
      return;
    }
    try {
      session = server.index().open(name, grant, () -> server.later(() -> from.close("ended")));
    } catch (IOException e) {
      refuse(from, frame, String.valueOf(e.getMessage()));
      return;
    }
    server.readersChanged();
    from.send(answer(FrameType.WELCOME, Status.OK, frame.id()).with(server.name()));
    from.trust();
  }

  private void refuse(NodeLink from, Frame frame, String why) {
    server.refused(from, why);
    Frame refusal = answer(FrameType.REFUSED, Status.DENIED, frame.id()).with(why);
    from.send(refusal, MemorySegment.NULL, () -> server.later(() -> from.close(why)));
  }

  // ---- questions

  private void ask(Session now, NodeLink from, Frame frame) throws FrameException {
    Messages.Keys keys = Messages.Keys.of(frame.body());
    long id = frame.id();
    if (asks >= ASKS_MAX || askedKeys + keys.count() > ASKED_KEYS_MAX) {
      from.send(answer(FrameType.ANSWER, Status.BUSY, id));
      return;
    }
    asks++;
    askedKeys += keys.count();
    ByteBuffer memory = server.keyMemory().take(keyMemoryBytes(keys));
    NodeCall call =
        new NodeCall.Find(
            blocks(keys, memory),
            found ->
                server.later(() -> {
                  server.keyMemory().giveBack(memory);
                  found(from, id, found);
                }));
    if (!server.index().call(now, call)) {
      server.keyMemory().giveBack(memory);
      asks--;
      askedKeys -= keys.count();
      from.send(answer(FrameType.ANSWER, Status.BUSY, id));
    }
  }

  private void found(NodeLink from, long id, NodeCall.Found found) {
    asks--;
    askedKeys -= found.places().limit();
    byte[] places = new byte[found.places().limit()];
    for (int i = 0; i < places.length; i++) {
      places[i] =
          switch (found.places().get(i)) {
            case NodeCall.FIRST -> Frame.IN_MEMORY;
            case NodeCall.LOWER -> Frame.BELOW;
            default -> Frame.ABSENT;
          };
    }
    Messages.Places answer = new Messages.Places(found.loadNs(), ByteBuffer.wrap(places));
    from.send(answer(FrameType.ANSWER, Status.OK, id).with(answer.body()));
  }

  /** Few sizes, so that memory that was used fits what comes next. */
  private static int keyMemoryBytes(Messages.Keys keys) {
    int bytes = Math.max(KEY_MEMORY_MIN, IndexKeys.bytes(keys.keyBytes(), keys.count()));
    return Integer.highestOneBit(bytes - 1) << 1;
  }

  static NodeCall.Blocks blocks(Messages.Keys keys) {
    return blocks(keys, IndexKeys.of(keys.keyBytes(), keys.count(), keys.keys()));
  }

  private static NodeCall.Blocks blocks(Messages.Keys keys, ByteBuffer memory) {
    return blocks(
        keys,
        IndexKeys.copy(keys.keyBytes(), keys.count(), keys.keys(), MemorySegment.ofBuffer(memory)));
  }

  private static NodeCall.Blocks blocks(Messages.Keys keys, MemorySegment copied) {
    return new NodeCall.Blocks(
        keys.high(), keys.low(), keys.group(), keys.keyBytes(), keys.count(), copied);
  }

  // ---- the directory

  private void announced(NodeLink from, Frame frame) throws FrameException {
    DirectoryMessages.Announcement news = DirectoryMessages.Announcement.of(frame.body());
    NodeDirectory directory = server.directory();
    Status status = Status.MISS;
    if (directory != null) {
      hasAnnounced = true;
      boolean isNoted = directory.note(incarnation, this, news.sequence(), news.entries());
      status = isNoted ? Status.OK : Status.STALE;
    }
    from.send(answer(FrameType.NOTED, status, frame.id()));
  }

  private void locate(NodeLink from, Frame frame) throws FrameException {
    long[] hashes = DirectoryMessages.hashes(frame.body());
    NodeDirectory directory = server.directory();
    if (directory == null || !directory.isOpen()) {
      from.send(answer(FrameType.LOCATED, Status.MISS, frame.id()));
      return;
    }
    long[] found = new long[NodeDirectory.HOLDERS_MAX];
    List<long[]> nodes = new ArrayList<>();
    for (long hash : hashes) {
      nodes.add(Arrays.copyOf(found, directory.find(hash, found)));
    }
    Frame located = answer(FrameType.LOCATED, Status.OK, frame.id());
    from.send(located.with(DirectoryMessages.Located.of(nodes).body()));
  }

  // ---- blocks

  /** Leases as many blocks of a FETCH as fit; the others are refused one by one. */
  private void fetch(Session now, NodeLink from, Frame frame) throws FrameException {
    Messages.Keys keys = Messages.Keys.ofFetch(frame.body());
    long id = frame.id();
    int fitting = Math.min(keys.count(), LEASES_MAX - fetches - leases.size());
    TracedRequest request = takeTrace(id);
    Wanted wanted = new Wanted(id, request, request == null ? 0 : server.nowNs());
    int taken = fitting > 0 && lease(now, from, wanted, keys.first(fitting)) ? fitting : 0;
    // The link bounds such answers: it reads nothing when too many wait.
    NodeCall.Leased busy = new NodeCall.Leased.Busy();
    for (int i = taken; i < keys.count(); i++) {
      leased(from, id + i, busy, onSent(now, wanted, busy, wanted.sinceNs));
    }
  }

  /**
   * The blocks of a FETCH.
   *
   * @param firstId the number of the first one
   * @param request the traced request that waits for them; null if there is none
   * @param sinceNs when it came, if it is traced
   */
  private record Wanted(long firstId, @Nullable TracedRequest request, long sinceNs) {}

  /** Asks the index for leases; false if too much waits for the index. */
  private boolean lease(Session now, NodeLink from, Wanted wanted, Messages.Keys keys) {
    ByteBuffer memory = server.keyMemory().take(keyMemoryBytes(keys));
    NodeCall call =
        new NodeCall.Lease(
            blocks(keys, memory),
            keys.blockBytes(),
            leased ->
                server.later(() -> {
                  server.keyMemory().giveBack(memory);
                  leased(from, wanted, leased);
                }));
    if (!server.index().call(now, call)) {
      server.keyMemory().giveBack(memory);
      return false;
    }
    fetches += keys.count();
    return true;
  }

  private void leased(NodeLink from, Wanted wanted, List<NodeCall.Leased> leased) {
    fetches -= leased.size();
    Session now = session;
    if (now == null) {
      return; // the leases ended with the session
    }
    long readyNs = wanted.request == null ? 0 : server.nowNs();
    for (int i = 0; i < leased.size(); i++) {
      NodeCall.Leased one = leased.get(i);
      leased(from, wanted.firstId + i, one, onSent(now, wanted, one, readyNs));
    }
  }

  /** The action after the answer about a block was sent: a traced request gets a span. */
  private Runnable onSent(Session now, Wanted wanted, NodeCall.Leased leased, long readyNs) {
    TracedRequest request = wanted.request;
    return () -> {
      if (leased instanceof NodeCall.Leased.Here here) {
        leases.sent(now, here.lease());
      }
      if (request != null) {
        served(request, leased, wanted.sinceNs, readyNs);
      }
    };
  }

  private void leased(NodeLink from, long id, NodeCall.Leased leased, Runnable sent) {
    switch (leased) {
      case NodeCall.Leased.Here here -> {
        leases.begin(here.lease());
        MemorySegment bytes =
            server.index().slab(here.slab()).asSlice(here.offset(), here.length());
        from.send(
            answer(FrameType.BLOCK, Status.OK, id)
                .with(here.length(), here.checksum(), here.lease()),
            bytes,
            sent);
      }
      case NodeCall.Leased.Absent _ -> none(from, id, Status.MISS, sent);
      case NodeCall.Leased.Busy _ -> none(from, id, Status.BUSY, sent);
    }
  }

  private void none(NodeLink from, long id, Status status, Runnable sent) {
    from.send(answer(FrameType.NONE, status, id), MemorySegment.NULL, sent);
  }

  private void served(TracedRequest request, NodeCall.Leased leased, long sinceNs, long readyNs) {
    Status status =
        switch (leased) {
          case NodeCall.Leased.Here _ -> Status.OK;
          case NodeCall.Leased.Absent _ -> Status.MISS;
          case NodeCall.Leased.Busy _ -> Status.BUSY;
        };
    long bytes = leased instanceof NodeCall.Leased.Here here ? here.length() : 0;
    server.served(new ServedBlock(request, status, bytes, sinceNs, readyNs, server.nowNs()));
  }

  private void release(Session now, Frame frame) throws FrameException {
    leases.release(now, Messages.leases(frame.body()), frame.status() == Status.CORRUPT);
  }

  @Override
  public void onPayload(NodeLink from, int checksum, boolean isKept) {
    Session now = session;
    if (now != null) {
      intake.arrived(now, from, checksum, isKept);
    }
  }

  @Override
  public void onClosed(NodeLink from, String why) {
    Session ended = session;
    session = null;
    leases.clear();
    intake.closed();
    pieces.closed();
    NodeDirectory directory = server.directory();
    if (directory != null && hasAnnounced) {
      directory.end(incarnation, this);
    }
    if (ended != null) {
      server.end(ended);
    }
    server.closed(this, ended != null, why);
  }
}
