package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * Asks other nodes for blocks, fetches blocks from them and pushes blocks to them, over one
 * connection to each node. A fetch is tried with each node that is said to have the block, the
 * fastest first, until one delivers bytes that match their checksum. If a node is late, a second
 * one is asked as well: the block whose bytes begin to come first goes to the slot, the other goes
 * nowhere. A block that no node delivers is a miss.
 *
 * <p>Confined to the thread that calls {@link #doWork}, except {@link #fetch}, {@link #ask} and
 * {@link #survey(Survey)}.
 */
public final class NodeReader {
  private static final long BUSY_WAIT_NS = TimeUnit.MILLISECONDS.toNanos(1);
  private static final long IDLE_WAIT_NS = TimeUnit.MILLISECONDS.toNanos(100);

  /**
   * The settings of a reader.
   *
   * @param name of this node, for the others
   * @param incarnation the number of this start of the daemon, never 0
   * @param token shows the others what this node may do; empty for none
   * @param shown makes texts of other nodes fit for logs and terminals
   * @param askNs how long a node may take to say which blocks it has
   * @param fetchNs how long all nodes together may take to deliver a block, from the first FETCH
   */
  public record Options(
      String name,
      long incarnation,
      Supplier<String> token,
      UnaryOperator<String> shown,
      long askNs,
      long fetchNs) {}

  private final int number;
  private final NodeTransport transport;
  private final Options options;
  private final NodeHints hints;
  private final PushQueue pushes;
  private final Consumer<Transfer> finished;
  private final TroubleLog troubles;
  private final List<PeerLink> links = new ArrayList<>();
  private final Queue<Runnable> changes = new ConcurrentLinkedQueue<>();
  private final Queue<Transfer> toFetch = new ConcurrentLinkedQueue<>();
  private final Queue<List<Question>> toAsk = new ConcurrentLinkedQueue<>();
  private final Queue<Survey> toSurvey = new ConcurrentLinkedQueue<>();

  /** Fetches whose nodes have enough to do. */
  private final ArrayDeque<Fetch> waiting = new ArrayDeque<>();

  private final HedgeTimes hedges = new HedgeTimes();
  private long lastId;
  private int turn;

  /**
   * A reader that has not connected yet.
   *
   * @param number of this reader among those of the daemon
   * @param firstId where the numbers of requests begin: drawn anew for each start, so that an
   *     answer of an earlier start answers nothing
   * @param pushes the blocks that all readers push
   * @param finished takes transfers that are over; on the reader's thread
   */
  public NodeReader(
      int number,
      NodeTransport transport,
      Options options,
      long firstId,
      NodeHints hints,
      PushQueue pushes,
      Consumer<Transfer> finished,
      TroubleLog troubles) {
    this.number = number;
    this.pushes = pushes;
    this.transport = transport;
    this.options = options;
    this.hints = hints;
    this.finished = finished;
    this.troubles = troubles;
    lastId = firstId;
  }

  // ---- from any thread

  /** Has a block fetched. The caller bounds how many are under way. */
  void fetch(Transfer transfer) {
    toFetch.add(transfer);
    transport.wake();
  }

  /** Has all nodes asked. */
  void ask(List<Question> questions) {
    toAsk.add(questions);
    transport.wake();
  }

  /** Has all nodes asked, each for itself. The caller bounds how many surveys are under way. */
  void survey(Survey survey) {
    toSurvey.add(survey);
    transport.wake();
  }

  /** Connects to a node from now on. */
  void join(NodePeer peer) {
    change(() -> links.add(new PeerLink(this, peer)));
  }

  /**
   * Closes the connection to a node for good. What waits for the node is tried with others.
   *
   * @param left runs on the reader's thread when nothing here uses the node's bit any more
   */
  void leave(NodePeer peer, Runnable left) {
    change(() -> {
      List<PeerLink> gone = links.stream().filter(link -> link.peer().equals(peer)).toList();
      links.removeAll(gone);
      waiting.forEach(fetch -> fetch.holders &= ~peer.bit());
      links.forEach(link -> link.forget(peer.bit()));
      gone.forEach(PeerLink::leave);
      left.run();
    });
  }

  private void change(Runnable change) {
    changes.add(change);
    transport.wake();
  }

  /** Ends a wait of the thread. */
  void wake() {
    transport.wake();
  }

  // ---- rounds

  /**
   * One round, after which {@link NodeTransport#poll} must be called; returns how much was done.
   */
  public int doWork() {
    long nowNs = transport.nowNs();
    int work = 0;
    for (Runnable change = changes.poll(); change != null; change = changes.poll()) {
      change.run();
      work++;
    }
    for (Transfer one = toFetch.poll(); one != null; one = toFetch.poll()) {
      begin(one, nowNs);
      work++;
    }
    for (List<Question> some = toAsk.poll(); some != null; some = toAsk.poll()) {
      ask(some, nowNs);
      work++;
    }
    for (Survey one = toSurvey.poll(); one != null; one = toSurvey.poll()) {
      survey(one, nowNs);
      work++;
    }
    for (PeerLink link : links) {
      link.advance(nowNs);
    }
    for (int left = waiting.size(); left > 0; left--) {
      goOn(waiting.remove());
    }
    work += pushes.serve(links, nowNs, ++turn);
    return work;
  }

  /** How long the thread may wait for the next event. */
  public long waitNs() {
    if (!pushes.isEmpty()) {
      return BUSY_WAIT_NS;
    }
    for (PeerLink link : links) {
      if (link.isWaiting()) {
        return BUSY_WAIT_NS;
      }
    }
    return IDLE_WAIT_NS;
  }

  // ---- questions

  private void ask(List<Question> questions, long nowNs) {
    List<PeerLink> ready = links.stream().filter(PeerLink::isReady).toList();
    for (Question question : questions) {
      question.open = ready.size();
      if (ready.isEmpty()) {
        hints.answer(question, Presence.UNKNOWN);
      }
    }
    if (ready.isEmpty()) {
      return;
    }
    int begin = 0;
    for (int i = 1; i <= questions.size(); i++) {
      if (i == questions.size()
          || i - begin == Messages.KEYS_MAX
          || !questions.get(begin).goesWith(questions.get(i))) {
        List<Question> together = List.copyOf(questions.subList(begin, i));
        ByteBuffer body = Messages.keysOf(together);
        Asker asker = (peer, places) -> answered(together, peer, places);
        ready.forEach(link -> link.ask(body, together.size(), asker, nowNs));
        begin = i;
      }
    }
  }

  private void survey(Survey survey, long nowNs) {
    List<PeerLink> ready = links.stream().filter(PeerLink::isReady).toList();
    survey.begin(ready.size());
    ready.forEach(link -> link.ask(survey.body(), survey.count(), survey, nowNs));
  }

  private void answered(List<Question> questions, NodePeer peer, Messages.@Nullable Places places) {
    for (int i = 0; i < questions.size(); i++) {
      answered(questions.get(i), peer, places != null, places != null && places.isInMemory(i));
    }
  }

  /** A node has answered a question, or will not. The first node that has the block decides. */
  private void answered(Question question, NodePeer peer, boolean isAnswer, boolean isHere) {
    question.open--;
    question.isAnswered |= isAnswer;
    if (isHere && question.isTold) {
      hints.add(question.key, peer.bit());
    } else if (isHere) {
      question.holders |= peer.bit();
      question.isTold = true;
      hints.answer(question, Presence.PRESENT);
    } else if (question.open == 0 && !question.isTold) {
      question.isTold = true;
      hints.answer(question, question.isAnswered ? Presence.ABSENT : Presence.UNKNOWN);
    }
  }

  // ---- fetches

  private void begin(Transfer transfer, long nowNs) {
    transfer.annotationBytes = 0;
    transfer.cause = "";
    Fetch fetch = new Fetch(transfer, nowNs);
    fetch.holders = hints.holders(fetch.key) & connectable();
    goOn(fetch);
  }

  /** The nodes that have not left, a bit each. */
  private long connectable() {
    long bits = 0;
    for (PeerLink link : links) {
      bits |= link.peer().bit();
    }
    return bits;
  }

  /**
   * Asks the next node for a block, waits for one that has too much to do, or ends the fetch. No
   * node is asked now.
   */
  private void goOn(Fetch fetch) {
    long nowNs = transport.nowNs();
    long candidates = candidates(fetch, nowNs);
    PeerLink next = next(fetch, candidates);
    if (next != null) {
      fetch.deadlineNs = fetch.deadlineNs == 0 ? nowNs + options.fetchNs() : fetch.deadlineNs;
      ask(next, fetch, nowNs);
    } else if (candidates != 0) {
      waiting.add(fetch);
    } else {
      end(fetch);
    }
  }

  /** The nodes that can be asked for a block, a bit each. */
  private long candidates(Fetch fetch, long nowNs) {
    boolean isLate = fetch.deadlineNs != 0 && nowNs - fetch.deadlineNs >= 0;
    long holders = fetch.holders | hints.holders(fetch.key);
    return isLate ? 0 : holders & ~fetch.tried & ready();
  }

  private static void ask(PeerLink next, Fetch fetch, long nowNs) {
    fetch.tried |= next.peer().bit();
    next.fetch(fetch, nowNs);
  }

  /** The node that was asked for a block is late: another one is asked as well, if that may be. */
  void hedge(Fetch fetch) {
    fetch.lateNs = HedgeTimes.NEVER;
    long nowNs = transport.nowNs();
    PeerLink next = fetch.isArriving ? null : next(fetch, candidates(fetch, nowNs));
    if (next != null && hedges.take()) {
      fetch.second = next;
      next.peer().countHedge();
      ask(next, fetch, nowNs);
    }
  }

  /** A node that was asked for a block does not deliver it. */
  void failed(Fetch fetch, PeerLink link) {
    fetch.askedAt.remove(link);
    if (fetch.askedAt.isEmpty()) {
      goOn(fetch);
    }
  }

  /** A node has delivered a block. */
  void delivered(Fetch fetch, PeerLink link) {
    if (link.equals(fetch.second)) {
      link.peer().countHedgeWon();
    }
    for (PeerLink other : fetch.askedAt) {
      if (!other.equals(link)) {
        other.abandon(fetch);
      }
    }
    finish(fetch, Status.OK);
  }

  private void end(Fetch fetch) {
    if (fetch.isCorrupt) {
      finish(fetch, Status.CORRUPT);
    } else if (fetch.trouble.isEmpty()) {
      finish(fetch, Status.MISS);
    } else {
      fetch.transfer.cause = fetch.trouble;
      troubles.tell("a block was not fetched", fetch.trouble);
      finish(fetch, Status.IO_ERROR);
    }
  }

  /** The nodes that can be asked, a bit each. */
  private long ready() {
    long bits = 0;
    for (PeerLink link : links) {
      bits |= link.isReady() ? link.peer().bit() : 0;
    }
    return bits;
  }

  /** The candidate that should deliver a block first, of those that take one more. */
  private @Nullable PeerLink next(Fetch fetch, long candidates) {
    PeerLink best = null;
    long bestNs = Long.MAX_VALUE;
    turn++;
    for (int i = 0; i < links.size(); i++) {
      PeerLink link = links.get(Math.floorMod(turn + i, links.size()));
      if ((candidates & link.peer().bit()) != 0 && link.takes(fetch.transfer.length)) {
        long expectedNs = link.expectedNs(fetch.transfer.length);
        if (expectedNs < bestNs) {
          best = link;
          bestNs = expectedNs;
        }
      }
    }
    return best;
  }

  /** The bytes of a block did not match the checksum of its writer. */
  void damaged(Fetch fetch, NodePeer peer, int expected, int found) {
    hints.remove(fetch.key, peer.bit());
    fetch.isCorrupt = true;
    troubles.tell(
        "a block was damaged",
        "node "
            + peer.address()
            + " says that its checksum is "
            + Integer.toHexString(expected)
            + ", the bytes that came have "
            + Integer.toHexString(found));
  }

  /** Ends a fetch: nothing writes the slot any more. */
  private void finish(Fetch fetch, Status status) {
    Transfer transfer = fetch.transfer;
    transfer.status = status;
    transfer.parent = 0;
    transfer.depth = 0;
    transfer.elapsedNs = transport.nowNs() - fetch.beganNs;
    finished.accept(transfer);
  }

  // ---- for links

  int number() {
    return number;
  }

  NodeTransport transport() {
    return transport;
  }

  Options options() {
    return options;
  }

  NodeHints hints() {
    return hints;
  }

  HedgeTimes hedges() {
    return hedges;
  }

  PushQueue pushQueue() {
    return pushes;
  }

  long nowNs() {
    return transport.nowNs();
  }

  /** A number for a request, which no other request of this start has. */
  long nextId() {
    return ++lastId;
  }

  /** Whether a frame is of an earlier start of either side. */
  boolean isStale(Frame frame, long incarnation) {
    return frame.receiver() != options.incarnation() || frame.sender() != incarnation;
  }

  void connected(NodePeer peer, String name, long incarnation) {
    if (peer.welcomed(name, incarnation)) {
      hints.forgetAll();
      waiting.forEach(fetch -> fetch.holders &= ~peer.bit());
      links.forEach(link -> link.forget(peer.bit()));
    }
    troubles.tellOver("node " + peer.address() + " (" + name + ") is connected");
  }

  void broken(NodePeer peer, boolean wasReady, String why) {
    troubles.tell(
        wasReady
            ? "the connection to node " + peer.address() + " broke"
            : "node " + peer.address() + " can't be reached",
        why);
  }
}
