package io.kvtier.daemon.index;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.daemon.index.core.OperatorCommands;
import io.kvtier.daemon.index.device.DeviceLine;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.report.EventFan;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.daemon.index.report.EventTap;
import io.kvtier.daemon.index.report.HealthReport;
import io.kvtier.daemon.index.report.HealthWatch;
import io.kvtier.daemon.index.report.HolderTap;
import io.kvtier.daemon.index.report.Report;
import io.kvtier.daemon.index.report.ReportJson;
import io.kvtier.daemon.index.report.StatsAnswers;
import io.kvtier.daemon.index.report.StatsReport;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.OwnFind;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.verbs.RequestAdapter;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.host.NumaReport;
import io.kvtier.tiers.ledger.Ledger;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.IntConsumer;
import java.util.function.IntUnaryOperator;
import java.util.function.Supplier;
import org.jctools.queues.atomic.MpscAtomicArrayQueue;
import org.jspecify.annotations.Nullable;

/**
 * The index's duty cycle: opens and closes sessions, takes requests from their rings, collects
 * transfers and checks deadlines. {@link #doWork} does one round. The caller decides when to call
 * it, and when to sleep.
 */
public final class IndexAgent {
  /** Maximum transfers in flight to and from a GPU. */
  public static final int DEVICE_TRANSFERS = DeviceLine.TRANSFERS;

  /** Maximum size of a report for the daemon itself, which need not fit into a ring. */
  static final int REPORT_BYTES_MAX = 512 << 10;

  private static final int REQUESTS_PER_ROUND = 64;

  /** Maximum bytes of requests in a session's turn: large batches take long. */
  private static final int REQUEST_BYTES_PER_ROUND = 32 << 10;

  private static final long TIME_CHECK_NS = 1_000_000;
  private static final long GAUGES_NS = 100_000_000;
  private static final long HEALTH_NS = 250_000_000;

  /** How long a thread waits while the inbox is full. */
  private static final long FULL_INBOX_NS = 1_000_000;

  private sealed interface Message {
    record Open(Session session) implements Message {}

    record Close(Session session, boolean hasHungUp) implements Message {}

    record Report(Consumer<Supplier<String>> answer) implements Message {}

    record Stats(StatsAnswers.Made answer) implements Message {}

    record Node(Session session, NodeCall call) implements Message {}

    record Own(OwnFind find) implements Message {}

    record Command(String command, CompletableFuture<OperatorAnswer> answer) implements Message {}
  }

  private final IndexContext context;
  private final IndexCore core;
  private final Index index;
  private final NodeTurns nodeTurns;
  private final EventFan fan = new EventFan();
  private final @Nullable EventTap events;
  private @Nullable HolderTap holders;
  private final IntUnaryOperator tiersOf;
  private final RequestAdapter adapter;
  private final StatsReport stats;
  private final StatsAnswers statsAnswers;
  private final Counters counters;
  private final HealthWatch health;
  private final MpscAtomicArrayQueue<Message> inbox = new MpscAtomicArrayQueue<>(1 << 16);
  private long nextTimeCheckNs;
  private long nextGaugesNs;
  private long nextHealthNs;
  private boolean waitsForClient;

  /** An index with no sessions. */
  public IndexAgent(IndexContext context) {
    this.context = context;
    core = context.core();
    counters = core.counters();
    EventRing ring = context.events();
    events = ring == null ? null : new EventTap(ring, core.directory());
    if (events != null) {
      fan.add(events);
    }
    index = new Index(context, fan);
    nodeTurns = new NodeTurns(index.nodeCalls());
    tiersOf = index.store().places()::tiersOf;
    health =
        new HealthWatch(index.store(), index.devices(), index.refusals(), counters, index::drains);
    stats =
        new StatsReport(
            new StatsReport.Identity(
                context.identity().version(),
                context.identity().generation(),
                core.clock().getAsLong()),
            new StatsReport.Parts(
                core,
                index.store(),
                index.devices(),
                index.sessions(),
                index::drains,
                health,
                events));
    statsAnswers = new StatsAnswers(this::report, this::offerStats);
    adapter =
        new RequestAdapter(
            index.requests(), index.writer(), core.limits(), statsAnswers, context.requests());
  }

  /**
   * Finds the blocks that an earlier start of the daemon left; called before the first {@link
   * #doWork}.
   *
   * @param lowerLedgers of each lower tier, one a device, in the order of the pipelines
   * @param storesBegin every new store gets a higher count
   */
  public void recover(List<List<Ledger>> lowerLedgers, long storesBegin) throws IOException {
    List<List<Ledger>> ledgers = new ArrayList<>();
    ledgers.add(List.of(context.tiers().first().ledger()));
    ledgers.addAll(lowerLedgers);
    index.recover(ledgers, storesBegin);
  }

  /** Hands a new session over; from any thread. False when too many are waiting. */
  public boolean offerOpen(Session session) {
    return inbox.offer(new Message.Open(session));
  }

  /**
   * Says that a session's client is gone; from any thread. False when the inbox is full: say it
   * again.
   */
  public boolean offerClose(Session session) {
    return offerClose(session, true);
  }

  /**
   * Says that a session is over; from any thread. False when the inbox is full: say it again.
   *
   * @param hasHungUp whether the client has closed the socket, and so writes no more
   */
  public boolean offerClose(Session session, boolean hasHungUp) {
    return inbox.offer(new Message.Close(session, hasHungUp));
  }

  /**
   * Hands over what another node asks in its session; from any thread. False when too many messages
   * wait for the index.
   */
  public boolean offerNodeCall(Session session, NodeCall call) {
    return inbox.offer(new Message.Node(session, call));
  }

  /**
   * Hands over a question of a part of this daemon; from any thread. False when too many messages
   * wait for the index.
   */
  public boolean offerFind(OwnFind find) {
    return inbox.offer(new Message.Own(find));
  }

  /**
   * Asks for the daemon's state, as STATS reports it; from any thread. False when too many messages
   * wait for the index.
   *
   * @param answer receives a supplier of the JSON on the index's thread, and must neither block nor
   *     fail. The supplier may be called on any thread.
   */
  public boolean offerReport(Consumer<Supplier<String>> answer) {
    return inbox.offer(new Message.Report(answer));
  }

  /** The health of all parts, as of the last check; from any thread. */
  public HealthReport health() {
    return health.latest();
  }

  /** Makes the JSON of STATS on other threads; called before the first {@link #doWork}. */
  public void makeReportsWith(Executor executor) {
    statsAnswers.makeWith(executor);
  }

  private void offerStats(StatsAnswers.Made answer) {
    Message message = new Message.Stats(answer);
    while (!inbox.offer(message) && !Thread.currentThread().isInterrupted()) {
      LockSupport.parkNanos(FULL_INBOX_NS);
    }
  }

  /**
   * Tells other nodes which blocks are in host memory; called before the first {@link #doWork}.
   *
   * @param feed takes the changes
   */
  public void announceTo(ChangeFeed feed) {
    HolderTap tap = new HolderTap(feed, core.directory(), core.namespaces());
    holders = tap;
    fan.add(tap);
  }

  /** Sets the name by which other nodes know this one, for reports. */
  public void showNode(String name) {
    stats.showNode(name);
  }

  /** Sets who knows where the first tier's memory is, for reports. */
  public void showNuma(Supplier<@Nullable NumaReport> source) {
    stats.showNuma(source);
  }

  /**
   * Registers another part of the daemon for the commands that begin with a word; called before the
   * first {@link #doWork}.
   */
  public void extend(String word, OperatorCommands commands) {
    index.admin().extend(word, commands);
  }

  /** Sets who hears that an operator has ended a drain; called before the first {@link #doWork}. */
  public void whenDrainEnds(Runnable told) {
    index.whenDrainEnds(told);
  }

  /**
   * Runs an operator's command for the daemon itself; from any thread. The caller must ring the
   * index's bell afterwards. The answer is completed on the index's thread.
   */
  public CompletableFuture<OperatorAnswer> command(String command) {
    CompletableFuture<OperatorAnswer> answer = new CompletableFuture<>();
    if (!inbox.offer(new Message.Command(command, answer))) {
      answer.complete(new OperatorAnswer(Status.BUSY, "too many messages wait for the index"));
    }
    return answer;
  }

  /** One round; returns how much was done. */
  public int doWork() {
    long now = core.clock().getAsLong();
    core.latencies().roundBegins(now);
    int work = index.store().collect() + index.devices().collect();
    work += takeMessages();
    work += nodeTurns.take();
    work += takeRequests(now);
    index.store().maintain(now);
    if (events != null) {
      events.walk(tiersOf);
    }
    if (holders != null) {
      holders.walk(tiersOf);
    }
    index.maintain();
    if (now >= nextTimeCheckNs) {
      nextTimeCheckNs = now + TIME_CHECK_NS;
      index.checkTime(now);
      Words.putLongRelease(
          context.identity().daemonRegion(), DaemonRegionDescriptor.HEARTBEAT_OFFSET, now);
    }
    if (now >= nextGaugesNs) {
      nextGaugesNs = now + GAUGES_NS;
      index.publishGauges();
      counters.takeOver();
    }
    if (now >= nextHealthNs) {
      nextHealthNs = now + HEALTH_NS;
      var _ = health.refresh(now);
    }
    publishCompletions();
    return work;
  }

  private int takeMessages() {
    int work = 0;
    for (Message message = inbox.poll(); message != null; message = inbox.poll()) {
      work++;
      switch (message) {
        case Message.Open(Session session) -> {
          if (!index.sessions().open(session)) {
            index.sessions().end(session, Status.BUSY, "too many sessions (limits.sessions)");
            session.owner().released(session);
          }
        }
        case Message.Close(Session session, boolean hasHungUp) -> {
          session.ended = true;
          nodeTurns.end(session);
          index.close(session, hasHungUp);
          session.owner().released(session);
        }
        case Message.Report(Consumer<Supplier<String>> answer) -> {
          Report report = report(null);
          answer.accept(() -> ReportJson.of(report, REPORT_BYTES_MAX));
        }
        case Message.Stats(StatsAnswers.Made answer) -> writeStats(answer);
        case Message.Node(Session session, NodeCall call) -> nodeTurns.add(session, call);
        case Message.Own(OwnFind find) -> index.nodeCalls().handle(find);
        case Message.Command(String command, var answer) ->
            answer.complete(index.admin().run(command, Grant.NO_TENANT));
      }
    }
    return work;
  }

  /** The state that a caller may see, with gauges that are up to date. */
  private Report report(@Nullable Grant asker) {
    index.publishGauges();
    return stats.take(asker);
  }

  private void writeStats(StatsAnswers.Made answer) {
    try {
      statsAnswers.write(answer);
    } catch (ProtocolViolation violation) {
      end(answer.session(), violation);
    }
  }

  private int takeRequests(long now) {
    int work = 0;
    waitsForClient = false;
    int end = index.sessions().end();
    for (int i = 0; i < end; i++) {
      Session session = index.sessions().at(i);
      if (session != null && !session.ended) {
        work += takeRequestsOf(session, now);
      }
    }
    return work;
  }

  private int takeRequestsOf(Session session, long now) {
    RingConsumer requests = session.requests();
    int taken = 0;
    session.waitsForRoom = false;
    int bytesTaken = 0;
    try {
      while (taken < REQUESTS_PER_ROUND
          && bytesTaken < REQUEST_BYTES_PER_ROUND
          && requests.hasNext()) {
        int bytes = requests.recordBytes();
        if (!adapter.next(session, requests.region(), requests.offset(), bytes, now)) {
          waitsForClient = true;
          session.waitsForRoom = true;
          break;
        }
        requests.skip(bytes);
        bytesTaken += bytes;
        taken++;
      }
      if (taken > 0) {
        requests.release();
        session.publish();
      }
    } catch (ProtocolViolation violation) {
      end(session, violation);
    }
    return taken;
  }

  private void end(Session session, ProtocolViolation violation) {
    index.sessions().end(session, Status.INVALID_ARGUMENT, String.valueOf(violation.getMessage()));
  }

  private void publishCompletions() {
    int end = index.sessions().end();
    for (int i = 0; i < end; i++) {
      Session session = index.sessions().at(i);
      if (session != null && !session.ended) {
        session.publish();
      }
    }
  }

  /**
   * Whether {@link #doWork} would find work. Called after the thread has announced its sleep, and
   * before it sleeps.
   */
  public boolean hasWork() {
    if (!inbox.isEmpty()
        || !nodeTurns.isEmpty()
        || index.hasBackgroundWork()
        || index.store().hasFinished()
        || index.devices().hasFinished()
        || (events != null && events.isToWalk())
        || (holders != null && holders.isToWalk())) {
      return true;
    }
    int end = index.sessions().end();
    for (int i = 0; i < end; i++) {
      Session session = index.sessions().at(i);
      if (session != null && !session.ended) {
        try {
          if (!session.waitsForRoom && session.requests().hasNext()) {
            return true;
          }
        } catch (ProtocolViolation violation) {
          return true;
        }
      }
    }
    return false;
  }

  /** Ends a recording of a trace, and updates the gauges; called after the last {@link #doWork}. */
  public void stop() {
    index.stop();
    index.publishGauges();
  }

  /** Whether copies to or from a GPU are under way, which take microseconds. */
  public boolean isCopying() {
    return index.devices().moves().inFlight() > 0;
  }

  /** Whether an engine is likely to request a load in a moment. */
  public boolean isLoadExpected(long nowNs) {
    return index.devices().isLoadExpected(nowNs);
  }

  /** How long the thread may sleep when nothing rings, ms. */
  public int sleepMsMax() {
    if (waitsForClient) {
      return 1; // a client that makes room in its completion ring rings no bell
    }
    if (index.store().records().isTrimming()) {
      return 1;
    }
    if (index.hasDeadlines() || !index.store().isIdle()) {
      return 5;
    }
    return index.store().scrubbers().isAnyActive() ? 250 : 500;
  }

  /** For tests: checks that the parts agree. */
  public void checkInvariants() {
    index.checkInvariants();
  }

  /** For tests: swaps a tier's policy, as the operator's command does. */
  public void swapPolicy(int tier, String policy) {
    index.store().stack().at(tier).swapPolicy(policy);
  }

  /** For tests: the blocks that can be named and stand in a tier that outlives the daemon. */
  public void forEachDurable(boolean memoryStays, IntConsumer visitor) {
    Directory directory = core.directory();
    BlockStore store = index.store();
    for (int block = 0; block < directory.highWater(); block++) {
      if (directory.isUsed(block)
          && directory.isLinked(block)
          && (store.stack().storedIn(block) != null
              || (memoryStays && store.first().isResident(block)))) {
        visitor.accept(block);
      }
    }
  }

  /** For tests: the number of a tenant's namespace, or -1. */
  public int namespaceId(int tenant, String name) {
    return index.namespaceId(tenant, name);
  }

  /** For tests: the slab that a block lies in, or -1. */
  public int slabOf(int block) {
    return core.directory().copies().slot(0, block) == CopyTable.NO_SLOT
        ? -1
        : context
            .tiers()
            .first()
            .space()
            .slots()
            .regionOf(core.directory().copies().slot(0, block));
  }

  /** For tests: how many transfers to and from GPUs are under way. */
  int copiesInFlight() {
    return index.devices().moves().inFlight();
  }

  /** For tests: that the pipelines are empty. */
  public boolean isIdle() {
    return index.store().isIdle() && index.devices().moves().isIdle();
  }

  @Override
  public String toString() {
    return index.store().toString();
  }
}
