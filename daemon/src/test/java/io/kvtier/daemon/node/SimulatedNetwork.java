package io.kvtier.daemon.node;

import io.kvtier.tiers.node.Frame;
import io.kvtier.tiers.node.FrameException;
import io.kvtier.tiers.node.FrameType;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.node.NodeTransport;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * A network of nodes on one thread, whose choices follow from a seed. It is as bad as {@link
 * NodeLink} allows:
 *
 * <ul>
 *   <li>Frames take time. The bytes of a block are read from their source, and written to their
 *       target, piece by piece, until the last of them has moved.
 *   <li>A side hears that a block is sent after the other side has the block, and has perhaps
 *       answered.
 *   <li>Links break, at either side or in the middle of a block, and both sides hear of it later.
 *   <li>A link can become silent: nothing moves on it any more, and no side hears of that.
 *   <li>Memory is written for a while after a link was told to discard a block, or to close.
 *   <li>A faulty node sends a piece of a block twice, in place of the next one.
 *   <li>A link between two nodes can deliver frames of an earlier one again: when it is new, and
 *       when a request has the number of an earlier one.
 * </ul>
 */
public final class SimulatedNetwork {
  private static final int KEPT_MAX = 64;

  /**
   * How bad the network is.
   *
   * @param delayNs the longest delay of a frame
   * @param breaks the probability that a link breaks, for each step of a frame
   * @param echoes the probability that a frame of an earlier link comes again on a new one
   * @param pieces in how many steps a block arrives at least
   * @param flips the probability that a byte of such a piece is damaged
   * @param repeats the probability that a PIECE comes in place of the next one of its block
   */
  public record Faults(
      long delayNs, double breaks, double echoes, int pieces, double flips, double repeats) {
    /** A network on which no piece comes twice. */
    public Faults(long delayNs, double breaks, double echoes, int pieces, double flips) {
      this(delayNs, breaks, echoes, pieces, flips, 0);
    }
  }

  private final LongSupplier clock;
  private final SplittableRandom random;
  private final Faults faults;
  private final Map<NodeAddress, Transport> transports = new LinkedHashMap<>();
  private final Map<List<Object>, ArrayDeque<Message>> kept = new HashMap<>();
  private final Set<List<NodeAddress>> silent = new HashSet<>();
  private boolean isCalm;

  /** How often a side of a link has found out who the other side is. */
  public int trusted;

  /** Whether no side hears that a block is sent. */
  public boolean holdsSent;

  /** A bug: memory counts as released at once, while bytes still arrive. */
  public boolean releasesEarly;

  /** A bug: a piece that shall go nowhere goes to where the piece before it went. */
  public boolean landsLate;

  /** A bug: the checksum of what came is the one that the frame promised. */
  public boolean believesChecksums;

  /** A bug: frames of earlier starts carry the incarnations of the present ones. */
  public boolean forgesIncarnations;

  public SimulatedNetwork(LongSupplier clock, SplittableRandom random, Faults faults) {
    this.clock = clock;
    this.random = random;
    this.faults = faults;
  }

  /** A network that loses nothing, and whose delays are short. */
  public static SimulatedNetwork withoutFaults(LongSupplier clock) {
    return new SimulatedNetwork(clock, new SplittableRandom(7), new Faults(1_000, 0, 0, 3, 0));
  }

  /** Makes a link with a listener; false if the link is refused. */
  @FunctionalInterface
  public interface Acceptor {
    boolean admit(Function<NodeLink.Listener, NodeLink> make);
  }

  /** A node's place in the network; the transport of an earlier start must be closed. */
  public Transport transport(NodeAddress address) {
    Transport made = new Transport(address);
    transports.put(address, made);
    return made;
  }

  /** Nothing moves between two nodes from now on, and neither hears of it. */
  public void silence(NodeAddress one, NodeAddress other) {
    silent.add(List.of(one, other));
    silent.add(List.of(other, one));
  }

  /** All nodes reach each other again. Links that were silent move on. */
  public void heal() {
    silent.clear();
  }

  /** No link breaks any more, and no frame of an earlier link comes again. */
  public void calm() {
    isCalm = true;
  }

  private boolean isEchoed() {
    return !isCalm && random.nextDouble() < faults.echoes;
  }

  private boolean isSilent(NodeAddress from, NodeAddress to) {
    return silent.contains(List.of(from, to));
  }

  private long later() {
    return clock.getAsLong() + random.nextLong(1 + faults.delayNs);
  }

  /** A block that has left its memory, of which its side hears later. */
  private record Sent(long dueNs, Runnable run) {}

  /** A frame on its way. */
  private static final class Message {
    final Frame frame;
    final @Nullable MemorySegment payload;
    final Runnable sent;
    final long dueNs;
    final boolean isEcho;
    boolean isTaken;
    boolean isDiscarded;
    long moved;
    @Nullable MemorySegment target;
    final CRC32C crc = new CRC32C();

    Message(
        Frame frame, @Nullable MemorySegment payload, Runnable sent, long dueNs, boolean isEcho) {
      this.isEcho = isEcho;
      this.frame = frame;
      this.payload = payload;
      this.sent = sent;
      this.dueNs = dueNs;
    }
  }

  /** One node's side of the network. */
  public final class Transport implements NodeTransport {
    private final NodeAddress address;
    private final List<End> ends = new ArrayList<>();
    private final List<Runnable> due = new ArrayList<>();
    private final List<Sent> sent = new ArrayList<>();
    private @Nullable Acceptor acceptor;

    private Transport(NodeAddress address) {
      this.address = address;
    }

    /** Accepts links of other nodes. */
    public void accept(Acceptor by) {
      acceptor = by;
    }

    @Override
    public NodeLink connect(NodeAddress to, NodeLink.Listener listener) {
      End here = new End(this, to, listener, true);
      ends.add(here);
      here.openNs = later();
      return here;
    }

    private void connectNow(End here) {
      Transport there = transports.get(here.to);
      Acceptor by = there == null ? null : there.acceptor;
      if (isSilent(address, here.to)) {
        return;
      }
      if (there == null || by == null) {
        here.fail("nobody listens there");
        return;
      }
      boolean isTaken =
          by.admit(listener -> {
            End other = new End(there, address, listener, false);
            there.ends.add(other);
            here.meet(other);
            return other;
          });
      End other = here.other;
      if (!isTaken || other == null) {
        here.fail("refused");
        return;
      }
      other.listener.onOpen(other);
      here.listener.onOpen(here);
    }

    @Override
    public int poll(long waitNs) {
      List<Runnable> now = new ArrayList<>(due);
      due.clear();
      now.forEach(Runnable::run);
      int done = now.size() + hearSent();
      for (End end : List.copyOf(ends)) {
        done += end.step();
      }
      return done;
    }

    private int hearSent() {
      List<Sent> heard =
          sent.stream().filter(one -> !holdsSent && one.dueNs <= clock.getAsLong()).toList();
      sent.removeAll(heard);
      heard.forEach(one -> one.run.run());
      return heard.size();
    }

    @Override
    public void wake() {}

    @Override
    public long nowNs() {
      return clock.getAsLong();
    }

    /** The node ends without a word: what it had in memory is gone. */
    @Override
    public void close() {
      for (End end : List.copyOf(ends)) {
        End other = end.other;
        end.state = State.CLOSED;
        if (other != null) {
          other.fail("connection reset");
        }
      }
      ends.clear();
      due.clear();
      sent.clear();
      transports.remove(address, this);
    }
  }

  private enum State {
    CONNECTING,
    OPEN,
    CLOSING,
    CLOSED
  }

  /** One side of a link. */
  private final class End implements NodeLink {
    private final Transport here;
    private final NodeAddress to;
    private final Listener listener;

    /** Whether this side has made the link. */
    private final boolean isReader;

    /** What comes from the other side. */
    private final ArrayDeque<Message> incoming = new ArrayDeque<>();

    private State state = State.CONNECTING;
    private @Nullable End other;
    private long openNs;
    private long heardNs = clock.getAsLong();
    private long received;
    private String why = "";
    private @Nullable Runnable released;

    /** The last PIECE of each block that was sent, and where the last one went that came. */
    private final Map<Long, Message> lastPieces = new HashMap<>();

    private final Map<Long, MemorySegment> lastTargets = new HashMap<>();

    /** The incarnations in the last frame of this link; 0 before the first. */
    private long sender;

    private long receiver;

    End(Transport here, NodeAddress to, Listener listener, boolean isReader) {
      this.isReader = isReader;
      this.here = here;
      this.to = to;
      this.listener = listener;
    }

    void meet(End met) {
      other = met;
      met.other = this;
      state = State.OPEN;
      met.state = State.OPEN;
      heardNs = clock.getAsLong();
    }

    /** Closes this side soon. */
    void fail(String reason) {
      if (state != State.CLOSED && state != State.CLOSING) {
        state = State.CLOSING;
        why = reason;
      }
    }

    /** Frames of earlier links come once more. */
    void echo() {
      for (Message old :
          kept.getOrDefault(List.of(to, here.address, !isReader), new ArrayDeque<>())) {
        if (isEchoed()) {
          incoming.add(new Message(old.frame, old.payload, () -> {}, later(), true));
        }
      }
    }

    int step() {
      if (state == State.CONNECTING && other == null && clock.getAsLong() >= openNs) {
        here.connectNow(this);
        return 1;
      }
      if (state == State.CLOSING) {
        // Bytes that were on their way still arrive.
        move(incoming.peek());
        end();
        return 1;
      }
      if (state != State.OPEN || isSilent(to, here.address)) {
        return 0;
      }
      return receive();
    }

    private void end() {
      state = State.CLOSED;
      here.ends.remove(this);
      End met = other;
      if (met != null) {
        met.fail("closed by the other side");
      }
      incoming.clear();
      listener.onClosed(this, why);
    }

    private int receive() {
      Message first = incoming.peek();
      if (first == null || clock.getAsLong() < first.dueNs) {
        return 0;
      }
      if (random.nextDouble() < faults.breaks && !isCalm) {
        fail("connection reset");
        End met = other;
        if (met != null) {
          met.fail("connection reset");
        }
        return 1;
      }
      heardNs = clock.getAsLong();
      received++;
      if (!first.isTaken) {
        first.isTaken = true;
        try {
          first.target = landed(first, listener.onFrame(this, seen(first)));
          if (!first.isEcho) {
            hear(first.frame);
          }
        } catch (FrameException e) {
          fail(String.valueOf(e.getMessage()));
          return 1;
        }
        if (first.payload == null) {
          incoming.poll();
        } else if (first.target != null && first.target.byteSize() != first.payload.byteSize()) {
          fail("a target of another length");
        }
        return 1;
      }
      if (move(first)) {
        incoming.poll();
        End met = other;
        if (met != null && met.state == State.OPEN) {
          met.here.sent.add(
              new Sent(
                  later(),
                  () -> {
                    if (met.state == State.OPEN) {
                      first.sent.run();
                    }
                  }));
        }
        Runnable waits = released;
        released = null;
        if (waits != null) {
          waits.run();
        }
        boolean isKept = !first.isDiscarded && first.target != null;
        if (state == State.OPEN) {
          int checksum = believesChecksums ? first.frame.checksum() : (int) first.crc.getValue();
          listener.onPayload(this, isKept ? checksum : 0, isKept);
        }
      }
      return 1;
    }

    private @Nullable MemorySegment landed(Message message, @Nullable MemorySegment target) {
      if (message.frame.type() != FrameType.PIECE || message.payload == null) {
        return target;
      }
      if (target != null) {
        lastTargets.put(message.frame.id(), target);
        return target;
      }
      MemorySegment before = lastTargets.get(message.frame.id());
      boolean isLanding =
          landsLate && before != null && before.byteSize() == message.payload.byteSize();
      return isLanding ? before : null;
    }

    /** The frames of earlier links come after the first of this one. */
    private void hear(Frame frame) {
      if (sender == 0) {
        echo();
      }
      sender = frame.sender();
      receiver = frame.receiver();
    }

    private Frame seen(Message message) {
      Frame frame = message.frame;
      boolean isForged = forgesIncarnations && message.isEcho;
      return copy(
          frame, isForged ? sender : frame.sender(), isForged ? receiver : frame.receiver());
    }

    private static Frame copy(Frame frame, long from, long to) {
      ByteBuffer body =
          ByteBuffer.allocate(frame.body().remaining()).order(ByteOrder.LITTLE_ENDIAN);
      body.put(frame.body().duplicate()).flip();
      return new Frame(
          frame.type(),
          frame.status(),
          from,
          to,
          frame.id(),
          body,
          frame.payloadBytes(),
          frame.checksum(),
          frame.lease());
    }

    /** Moves a piece of a block; true when all of it has moved. */
    private boolean move(@Nullable Message message) {
      End met = other;
      boolean isGone = met == null || met.state == State.CLOSED;
      if (message == null || !message.isTaken || message.payload == null || isGone) {
        return false;
      }
      long size = message.payload.byteSize();
      long piece = Math.min(size - message.moved, 1 + random.nextLong(1 + size / faults.pieces));
      byte[] moving = message.payload.asSlice(message.moved, piece).toArray(ValueLayout.JAVA_BYTE);
      if (random.nextDouble() < faults.flips) {
        moving[random.nextInt(moving.length)] ^= 1;
      }
      message.crc.update(moving);
      MemorySegment target = message.target;
      if (target != null && !(message.isDiscarded && released == null && !releasesEarly)) {
        target.asSlice(message.moved, piece).copyFrom(MemorySegment.ofArray(moving));
      }
      message.moved += piece;
      if (message.isDiscarded && released != null && random.nextBoolean()) {
        Runnable waits = released;
        released = null;
        waits.run();
      }
      return message.moved == size;
    }

    @Override
    public void send(Frame frame, MemorySegment payload, Runnable sent) {
      End met = other;
      if (state != State.OPEN || met == null) {
        return;
      }
      Frame copy = copy(frame, frame.sender(), frame.receiver());
      Message last = met.incoming.peekLast();
      long dueNs = Math.max(later(), last == null ? 0 : last.dueNs);
      boolean hasPayload = payload.byteSize() > 0;
      Message message = new Message(copy, hasPayload ? payload : null, sent, dueNs, false);
      met.incoming.add(copy.type() == FrameType.PIECE ? repeated(message) : message);
      if (!hasPayload) {
        here.due.add(() -> {
          if (state == State.OPEN) {
            sent.run();
          }
        });
      }
      switch (copy.type()) {
        case FETCH, ASK, RESERVE -> echo(copy.id());
        default -> {}
      }
      keep(copy, payload);
    }

    /** The piece, or the one that was sent before it. */
    private Message repeated(Message piece) {
      Message before = lastPieces.put(piece.frame.id(), piece);
      return before != null && random.nextDouble() < faults.repeats
          ? new Message(before.frame, before.payload, piece.sent, piece.dueNs, false)
          : piece;
    }

    /** An earlier answer to a request of that number comes first. */
    private void echo(long id) {
      for (Message old :
          kept.getOrDefault(List.of(to, here.address, !isReader), new ArrayDeque<>())) {
        if (old.frame.id() == id && isEchoed()) {
          incoming.add(new Message(old.frame, old.payload, () -> {}, later(), true));
          return;
        }
      }
    }

    private void keep(Frame frame, MemorySegment payload) {
      if (frame.type() == FrameType.HELLO
          || frame.type() == FrameType.WELCOME
          || faults.echoes == 0) {
        return;
      }
      ArrayDeque<Message> old =
          kept.computeIfAbsent(List.of(here.address, to, isReader), _ -> new ArrayDeque<>());
      MemorySegment copy =
          payload.byteSize() == 0
              ? null
              : MemorySegment.ofArray(payload.toArray(ValueLayout.JAVA_BYTE));
      old.add(new Message(frame, copy, () -> {}, 0, true));
      if (old.size() > KEPT_MAX) {
        old.remove();
      }
    }

    @Override
    public void discard(Runnable done) {
      Message first = incoming.peek();
      if (first == null || !first.isTaken || first.payload == null || first.target == null) {
        done.run();
        return;
      }
      first.isDiscarded = true;
      if (releasesEarly) {
        done.run();
      } else {
        released = done;
      }
    }

    @Override
    public void trust() {
      trusted++;
    }

    @Override
    public void close(String reason) {
      fail(reason);
    }

    @Override
    public String address() {
      return to.toString();
    }

    @Override
    public int queued() {
      return 0;
    }

    @Override
    public long movedNs() {
      return heardNs;
    }

    @Override
    public long heardNs() {
      return heardNs;
    }

    @Override
    public long bytesReceived() {
      return received;
    }

    @Override
    public long bytesSent() {
      return 0;
    }
  }
}
