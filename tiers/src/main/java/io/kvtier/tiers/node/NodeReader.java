package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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
 * <p>Confined to the thread that calls {@link #doWork}, except {@link #fetch}, {@link #follow},
 * {@link #ask} and {@link #survey(Survey)}.
 */
public final class NodeReader {
  private static final long BUSY_WAIT_NS = TimeUnit.MILLISECONDS.toNanos(1);
  private static final long IDLE_WAIT_NS = TimeUnit.MILLISECONDS.toNanos(100);

  /** How long changes of this node's blocks wait to be announced. */
  private static final long CHANGES_WAIT_NS = TimeUnit.MILLISECONDS.toNanos(10);

  /**
   * The settings of a reader.
   *
   * @param name of this node, for the others
   * @param incarnation the number of this start of the daemon, never 0
   * @param token shows the others what this node may do; empty for none
   * @param shown makes texts of other nodes fit for logs and terminals
   * @param askNs how long a node may take to say which blocks it has
   * @param fetchNs how long all nodes together may take to deliver a block, from the first FETCH
   * @param pieces makes the map of the pieces of an expected block
   */
  public record Options(
      String name,
      long incarnation,
      Supplier<String> token,
      UnaryOperator<String> shown,
      long askNs,
      long fetchNs,
      Supplier<PieceMap> pieces) {
    /** Settings with the usual maps of pieces. */
    public Options(
        String name,
        long incarnation,
        Supplier<String> token,
        UnaryOperator<String> shown,
        long askNs,
        long fetchNs) {
      this(name, incarnation, token, shown, askNs, fetchNs, PieceMap::new);
    }
  }

  private final int number;
  private final NodeTransport transport;
  private final Options options;
  private final NodeHints hints;
  private final PushQueue pushes;
  private final Consumer<Transfer> finished;
  private final Consumer<Transfer> followed;
  private final TroubleLog troubles;
  private final List<PeerLink> links = new ArrayList<>();

  /** The links by the numbers of their nodes; null where there is none. */
  private final @Nullable PeerLink[] byNumber = new PeerLink[NodeTier.NUMBERS_MAX];

  private final Queue<Runnable> changes = new ConcurrentLinkedQueue<>();
  private final Queue<Transfer> toFetch = new ConcurrentLinkedQueue<>();
  private final Queue<Transfer> toFollow = new ConcurrentLinkedQueue<>();
  private final Queue<List<Question>> toAsk = new ConcurrentLinkedQueue<>();
  private final Queue<Survey> toSurvey = new ConcurrentLinkedQueue<>();

  /** Fetches whose nodes have enough to do. */
  private final ArrayDeque<Fetch> waiting = new ArrayDeque<>();

  private final HedgeTimes hedges = new HedgeTimes();

  /** Null if all nodes are asked about all blocks. */
  private @Nullable DirectoryClient directory;

  private @Nullable Locator locator;
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
   * @param followed takes those of expected blocks
   */
  public NodeReader(
      int number,
      NodeTransport transport,
      Options options,
      long firstId,
      NodeHints hints,
      PushQueue pushes,
      Consumer<Transfer> finished,
      Consumer<Transfer> followed,
      TroubleLog troubles) {
    this.number = number;
    this.pushes = pushes;
    this.transport = transport;
    this.options = options;
    this.hints = hints;
    this.finished = finished;
    this.followed = followed;
    this.troubles = troubles;
    lastId = firstId;
  }

  /**
   * Asks owners in the directory when there are more nodes than can be asked; called before the
   * first round.
   *
   * @param always whether owners are asked with fewer nodes, too
   */
  void use(NodeDirectory owned, ChangeFeed feed, boolean always) {
    DirectoryClient client = new DirectoryClient(this, owned, feed, always);
    directory = client;
    locator = new Locator(this, client);
  }

  // ---- from any thread

  /** Has a block fetched. The caller bounds how many are under way. */
  void fetch(Transfer transfer) {
    toFetch.add(transfer);
    transport.wake();
  }

  /** Has a block expected from its node. The caller bounds how many are under way. */
  void follow(Transfer transfer) {
    toFollow.add(transfer);
    transport.wake();
  }

  /** Ends the expected blocks that were given up. */
  void endGivenUp() {
    change(() -> links.forEach(PeerLink::lookForGivenUp));
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
    change(() -> {
      PeerLink link = new PeerLink(this, peer);
      links.add(link);
      byNumber[peer.number()] = link;
    });
  }

  /**
   * Closes the connection to a node for good. What waits for the node is tried with others.
   *
   * @param left runs on the reader's thread when nothing here uses the node's number any more
   */
  void leave(NodePeer peer, Runnable left) {
    change(() -> {
      List<PeerLink> gone = links.stream().filter(link -> link.peer().equals(peer)).toList();
      // Fetches that wait for the node itself must not be tried with the next node of its number.
      forget(peer);
      links.removeAll(gone);
      gone.forEach(link -> byNumber[peer.number()] = null);
      gone.forEach(PeerLink::leave);
      left.run();
    });
  }

  /** Forgets that fetches may be tried with a node, because it has left or started anew. */
  private void forget(NodePeer peer) {
    waiting.forEach(fetch -> fetch.holders = Holders.remove(fetch.holders, peer.number()));
    links.forEach(link -> link.forget(peer.number()));
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
    for (Transfer one = toFollow.poll(); one != null; one = toFollow.poll()) {
      follow(one, nowNs);
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
    if (directory != null) {
      work += directory.doWork(nowNs);
    }
    for (int left = waiting.size(); left > 0; left--) {
      goOn(waiting.remove());
    }
    work += pushes.serve(links, nowNs, ++turn);
    for (PeerLink link : links) {
      link.endRound();
    }
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
    return directory != null && directory.hasBegun() ? CHANGES_WAIT_NS : IDLE_WAIT_NS;
  }

  // ---- questions

  private @Nullable Locator locator() {
    return directory == null || !directory.isAsked() ? null : locator;
  }

  private void ask(List<Question> questions, long nowNs) {
    List<PeerLink> ready = readyLinks();
    Locator now = locator();
    if (ready.isEmpty()) {
      questions.forEach(question -> hints.answer(question, Presence.UNKNOWN));
    } else if (now == null) {
      questions.forEach(question -> question.open = ready.size());
      ask(ready, questions, nowNs);
    } else {
      locate(now, questions, nowNs);
    }
  }

  /** Asks the directory, sequence by sequence. */
  private void locate(Locator at, List<Question> questions, long nowNs) {
    OneFrame.each(
        questions,
        Messages.KEYS_MAX,
        (one, other) -> one.sequence == other.sequence,
        together -> locateTogether(at, List.copyOf(together), nowNs));
  }

  private void locateTogether(Locator at, List<Question> questions, long nowNs) {
    long[] hashes = questions.stream().mapToLong(question -> question.key.high()).toArray();
    if (questions.getFirst().sequence == Question.ALONE) {
      at.locateEach(hashes, found -> askHolders(questions, found.nodes()), nowNs);
    } else {
      at.locateSequence(hashes, found -> askHolders(questions, found.nodes()), nowNs);
    }
  }

  /**
   * Asks the nodes that the directory has named.
   *
   * @param named for each question; null where the directory has not answered
   */
  private void askHolders(List<Question> questions, List<@Nullable List<PeerLink>> named) {
    Map<PeerLink, List<Question>> asked = new LinkedHashMap<>();
    for (int i = 0; i < questions.size(); i++) {
      Question question = questions.get(i);
      List<PeerLink> nodes = named.get(i);
      if (nodes == null || nodes.isEmpty()) {
        question.isTold = true;
        hints.answer(question, nodes == null ? Presence.UNKNOWN : Presence.ABSENT);
      } else {
        question.open = nodes.size();
        nodes.forEach(link -> asked.computeIfAbsent(link, _ -> new ArrayList<>()).add(question));
      }
    }
    long nowNs = transport.nowNs();
    asked.forEach((link, some) -> ask(List.of(link), some, nowNs));
  }

  private void ask(List<PeerLink> nodes, List<Question> questions, long nowNs) {
    OneFrame.each(
        questions,
        Messages.KEYS_MAX,
        Question::goesWith,
        together -> askTogether(nodes, List.copyOf(together), nowNs));
  }

  private void askTogether(List<PeerLink> nodes, List<Question> questions, long nowNs) {
    ByteBuffer body = Messages.keysOf(questions);
    Asker asker = (peer, places) -> answered(questions, peer, places);
    nodes.forEach(link -> link.ask(body, questions.size(), asker, nowNs));
  }

  private void survey(Survey survey, long nowNs) {
    Locator now = locator();
    if (now == null) {
      survey(survey, readyLinks(), nowNs);
    } else {
      now.locateSequence(
          survey.hashes(), found -> survey(survey, found.candidates(), nowNs), nowNs);
    }
  }

  private static void survey(Survey survey, List<PeerLink> nodes, long nowNs) {
    survey.begin(nodes.size());
    nodes.forEach(link -> link.ask(survey.body(), survey.count(), survey, nowNs));
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
      hints.add(question.key, peer.number());
    } else if (isHere) {
      question.holders = Holders.add(question.holders, peer.number());
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
    long holders = hints.holders(fetch.key);
    for (int place = 0; place < Holders.MAX; place++) {
      int holder = Holders.at(holders, place);
      if (holder >= 0 && byNumber[holder] != null) {
        fetch.holders = Holders.add(fetch.holders, holder);
      }
    }
    goOn(fetch);
  }

  /**
   * Asks the next node for a block, waits for one that has too much to do, or ends the fetch. No
   * node is asked now.
   */
  private void goOn(Fetch fetch) {
    long nowNs = transport.nowNs();
    List<PeerLink> candidates = candidates(fetch, nowNs);
    PeerLink next = next(fetch, candidates);
    if (next != null) {
      fetch.deadlineNs = fetch.deadlineNs == 0 ? nowNs + options.fetchNs() : fetch.deadlineNs;
      ask(next, fetch, nowNs);
    } else if (!candidates.isEmpty()) {
      waiting.add(fetch);
    } else {
      end(fetch);
    }
  }

  /** The nodes that can be asked for a block. */
  private List<PeerLink> candidates(Fetch fetch, long nowNs) {
    List<PeerLink> candidates = new ArrayList<>(Holders.MAX);
    if (fetch.deadlineNs == 0 || nowNs - fetch.deadlineNs < 0) {
      addCandidates(candidates, fetch, fetch.holders);
      addCandidates(candidates, fetch, hints.holders(fetch.key));
    }
    return candidates;
  }

  private void addCandidates(List<PeerLink> candidates, Fetch fetch, long holders) {
    for (int place = 0; place < Holders.MAX; place++) {
      int holder = Holders.at(holders, place);
      PeerLink link = holder < 0 ? null : byNumber[holder];
      if (link != null
          && link.isReady()
          && !fetch.tried.contains(link)
          && !candidates.contains(link)) {
        candidates.add(link);
      }
    }
  }

  private static void ask(PeerLink next, Fetch fetch, long nowNs) {
    fetch.tried.add(next);
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

  /** The candidate that should deliver a block first, of those that take one more. */
  private @Nullable PeerLink next(Fetch fetch, List<PeerLink> candidates) {
    PeerLink best = null;
    long bestNs = Long.MAX_VALUE;
    turn++;
    for (int i = 0; i < candidates.size(); i++) {
      PeerLink link = candidates.get(Math.floorMod(turn + i, candidates.size()));
      if (link.takes(fetch.transfer.length)) {
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
    hints.remove(fetch.key, peer.number());
    fetch.isCorrupt = true;
    damaged(peer, expected, found);
  }

  /** Tells of bytes that did not match the checksum of their writer. */
  void damaged(NodePeer peer, int expected, int found) {
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
    end(fetch.transfer, status, fetch.beganNs);
    finished.accept(fetch.transfer);
  }

  // ---- expected blocks

  private void follow(Transfer transfer, long nowNs) {
    transfer.annotationBytes = 0;
    transfer.cause = "";
    transfer.pieces = 0;
    Follow follow = new Follow(transfer, nowNs, options.pieces().get());
    if (follow.isOver(nowNs)) {
      followed(follow, transfer.givenUp ? Status.CANCELLED : Status.DEADLINE, "");
      return;
    }
    PeerLink named = null;
    for (PeerLink link : links) {
      named = link.peer().isCalled(transfer.node) ? link : named;
    }
    if (named == null) {
      followed(follow, Status.UNAVAILABLE, "no node has the name or the address that a get names");
    } else if (!named.follow(follow, nowNs)) {
      followed(
          follow, Status.UNAVAILABLE, "node " + named.peer().address() + " is not connected now");
    }
  }

  /** An expected block is there, or does not come: nothing writes its slot any more. */
  void followed(Follow follow, Status status, String trouble) {
    follow.transfer.cause = trouble;
    if (!trouble.isEmpty()) {
      troubles.tell("an expected block did not come", trouble);
    }
    end(follow.transfer, status, follow.beganNs);
    followed.accept(follow.transfer);
  }

  private void end(Transfer transfer, Status status, long beganNs) {
    transfer.status = status;
    transfer.parent = 0;
    transfer.depth = 0;
    transfer.elapsedNs = transport.nowNs() - beganNs;
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

  /** The connections on which frames can be sent. */
  List<PeerLink> readyLinks() {
    return links.stream().filter(PeerLink::isReady).toList();
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
    return nextIds(1);
  }

  /** The first of several numbers for requests, which follow each other. */
  long nextIds(int count) {
    long first = lastId + 1;
    lastId += count;
    return first;
  }

  /** Whether a frame is of an earlier start of either side. */
  boolean isStale(Frame frame, long incarnation) {
    return frame.receiver() != options.incarnation() || frame.sender() != incarnation;
  }

  /**
   * A node has answered.
   *
   * @param isAnotherStart whether this reader has met an earlier start of the node: each reader
   *     forgets what it waits for by itself
   */
  void connected(NodePeer peer, String name, long incarnation, boolean isAnotherStart) {
    if (peer.welcomed(name, incarnation)) {
      hints.forgetAll();
    }
    if (isAnotherStart) {
      forget(peer);
    }
    troubles.tellOver("node " + peer.address() + " (" + name + ") is connected");
  }

  /** A connection is made on which frames can be sent. */
  void ready(PeerLink link) {
    if (directory != null) {
      directory.connected(link);
    }
  }

  /** A connection is closed on which frames could be sent. */
  void closed(PeerLink link) {
    if (directory != null) {
      directory.closed(link);
    }
  }

  void broken(NodePeer peer, boolean wasReady, String why) {
    troubles.tell(
        wasReady
            ? "the connection to node " + peer.address() + " broke"
            : "node " + peer.address() + " can't be reached",
        why);
  }
}
