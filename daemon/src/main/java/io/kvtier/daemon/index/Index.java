package io.kvtier.daemon.index;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.device.Devices;
import io.kvtier.daemon.index.move.BlockListener;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.HoldTable;
import io.kvtier.daemon.index.session.OperationPool;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.RequestWatch;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionTable;
import io.kvtier.daemon.index.session.SlotClaims;
import io.kvtier.daemon.index.session.WaiterTable;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.verbs.Acquires;
import io.kvtier.daemon.index.verbs.Admin;
import io.kvtier.daemon.index.verbs.Annotations;
import io.kvtier.daemon.index.verbs.Deletes;
import io.kvtier.daemon.index.verbs.Holdings;
import io.kvtier.daemon.index.verbs.Lookups;
import io.kvtier.daemon.index.verbs.OperationEnds;
import io.kvtier.daemon.index.verbs.Puts;
import io.kvtier.daemon.index.verbs.Registrations;
import io.kvtier.daemon.index.verbs.Registry;
import io.kvtier.daemon.index.verbs.Removals;
import io.kvtier.daemon.index.verbs.Requests;
import io.kvtier.daemon.index.verbs.Scans;
import io.kvtier.daemon.index.verbs.Shortages;
import io.kvtier.daemon.index.verbs.Upkeep;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.ledger.Ledger;
import java.io.IOException;
import java.util.BitSet;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The index without its duty cycle: makes the parts and connects them, and does with all of them
 * what has to be done each round. Confined to the index's thread.
 */
final class Index implements BlockListener {
  private final Directory directory;
  private final Namespaces namespaces;
  private final Counters counters;
  private final SessionTable sessions;
  private final BlockStore store;
  private final Registry registry;
  private final HoldTable holds;
  private final Operations operations;
  private final WaiterTable firstWaiters;
  private final Shortages shortages;
  private final Devices devices;
  private final Puts puts;
  private final Acquires acquires;
  private final Holdings holdings;
  private final OperationEnds ends;
  private final Removals removals;
  private final Scans scans;
  private final Admin admin;
  private final Upkeep upkeep;
  private final CompletionWriter writer;
  private final Requests requests;
  private final RequestWatch watch;

  /**
   * An index without sessions and blocks.
   *
   * @param events hears in which tiers blocks are; null for nobody
   */
  Index(IndexContext context, Limits limits, Namespaces namespaces, @Nullable BlockEvents events) {
    this.directory = context.directory();
    this.counters = context.counters();
    this.namespaces = namespaces;
    watch = context.requests();
    int holdsMax = limits.holdsMax();
    int holdsPerSessionMax = limits.holdsPerSessionMax();
    sessions = new SessionTable(limits, namespaces.tenants(), counters);
    store = new BlockStore(context.storeParts(events), limits, namespaces, this);
    registry =
        new Registry(
            directory, namespaces, store, events, context.clock(), this::noteNamespacesInUse);
    holds = new HoldTable(holdsMax);
    SlotClaims claims = new SlotClaims(context.first().slots(), context.writers(), holdsMax);
    firstWaiters = new WaiterTable(holdsMax);
    writer = new CompletionWriter(directory, store.first(), namespaces, watch);
    OperationPool pool = new OperationPool(limits.operationsMax());
    operations =
        new Operations(
            sessions,
            holds,
            writer,
            context.latencies(),
            watch,
            pool,
            limits.operationsPerSessionMax());
    context.requests().connect(firstWaiters, pool, namespaces, store.storedTiers());
    shortages =
        new Shortages(
            directory, store, holds, firstWaiters, operations, counters, limits.standstillNs());
    devices =
        new Devices(
            context.gpus(),
            directory,
            counters,
            context.clock(),
            limits,
            store,
            operations,
            writer,
            namespaces,
            sessions);
    upkeep = new Upkeep(store, directory, namespaces);
    puts =
        new Puts(
            directory,
            store,
            holds,
            claims,
            namespaces,
            operations,
            devices,
            firstWaiters,
            counters,
            limits,
            context.clock(),
            watch,
            upkeep::drains);
    operations.whenEndsUnheard(puts::endLate);
    acquires =
        new Acquires(
            directory,
            namespaces,
            store,
            holds,
            operations,
            firstWaiters,
            devices,
            counters,
            limits);
    devices.connect(acquires);
    holdings =
        new Holdings(
            store, holds, claims, sessions, puts, writer, counters, watch, holdsPerSessionMax);
    removals = new Removals(store, operations);
    scans = new Scans(directory, store, operations, removals, holdsMax);
    admin = new Admin(store, namespaces, upkeep, sessions);
    ends =
        new OperationEnds(
            operations, devices, acquires, puts, scans, removals, holdings, writer, counters);
    requests =
        new Requests(
            directory,
            namespaces,
            store,
            devices,
            writer,
            counters,
            watch,
            new Requests.Verbs(
                new Registrations(directory, namespaces, registry, sessions, writer),
                new Lookups(
                    directory,
                    store,
                    namespaces,
                    devices.peers(),
                    admin,
                    writer,
                    counters,
                    context.clock()),
                puts,
                acquires,
                holdings,
                new Deletes(directory, namespaces, store, operations, removals, devices.peers()),
                scans,
                new Annotations(directory, store, writer, counters),
                ends,
                admin));
  }

  private void noteNamespacesInUse(BitSet ids) {
    for (int place = 0; place < sessions.end(); place++) {
      Session session = sessions.at(place);
      if (session != null) {
        ids.or(session.namespaces);
      }
    }
    operations.pool().noteInUse(ids);
    devices.noteInUse(ids);
  }

  // ---- parts

  SessionTable sessions() {
    return sessions;
  }

  BlockStore store() {
    return store;
  }

  Devices devices() {
    return devices;
  }

  Admin admin() {
    return admin;
  }

  /** What carries requests out. */
  Requests requests() {
    return requests;
  }

  /** What answers requests. */
  CompletionWriter writer() {
    return writer;
  }

  /** Whether no new blocks are taken. */
  boolean drains() {
    return upkeep.drains();
  }

  /** A namespace's id, or -1. */
  int namespaceId(int tenant, String name) {
    Namespaces.Namespace namespace = namespaces.byName(tenant, name);
    return namespace == null ? -1 : namespace.id();
  }

  // ---- the beginning and the end

  /** Finds what an earlier start of the daemon left; before the first request. */
  void recover(List<List<Ledger>> ledgers, long storesBegin) throws IOException {
    new Recovery(directory, registry, store, counters).run(ledgers, storesBegin);
    store.stack().all().forEach(ResidentTier::recovered);
  }

  /**
   * Releases all that a session holds, at once.
   *
   * @param hasHungUp whether its client has closed the socket, which says that it writes no more
   */
  void close(Session session, boolean hasHungUp) {
    if (!sessions.has(session)) {
      return;
    }
    ends.endAllOf(session);
    holdings.endAllOf(session, hasHungUp);
    store.first().slots().revoke(session.id());
    devices.close(session);
    sessions.remove(session);
  }

  /** The daemon stops. */
  void stop() {
    admin.stop();
  }

  // ---- what becomes of blocks

  @Override
  public void onFirstSettled(int block, Status status) {
    acquires.onFirstSettled(block, status);
  }

  @Override
  public boolean isAwaited(int block) {
    return firstWaiters.hasWaiters(block);
  }

  @Override
  public void onStoreSettled(int block, Status status) {
    scans.onStoreSettled(block, status);
  }

  @Override
  public void onForgotten(int block) {
    upkeep.forgotten(block);
    if (directory.holds(block) > 0) {
      holdings.endPinsOf(block);
    }
  }

  @Override
  public void onFreed(int block) {
    watch.forgot(block);
  }

  // ---- each round

  /** The work of each round: what waits for slots, and scans. */
  void maintain() {
    puts.serveQueue();
    scans.advance();
    removals.advance();
    devices.advance();
  }

  /** Ends operations and leases whose time is over; called every few milliseconds. */
  void checkTime(long nowNs) {
    ends.checkTime(nowNs);
    shortages.check(nowNs);
    devices.checkTime(nowNs);
    store.records().trim(nowNs);
    holdings.checkTime(nowNs);
  }

  /** Whether time must be looked at soon. */
  boolean hasDeadlines() {
    return operations.active() > 0 || holdings.hasDeadlines() || devices.hasDeadlines();
  }

  /** Whether each round may find something to do by itself. */
  boolean hasBackgroundWork() {
    return scans.isBusy();
  }

  void publishGauges() {
    holdings.publishGauges();
    counters.set(Counter.GAUGE_OPERATIONS, operations.active());
    counters.set(Counter.GAUGE_INDEX_BYTES, directory.metadataBytes() + store.policyBytes());
    store.publishGauges();
    devices.publishGauges();
  }

  /** Checks that nothing contradicts anything; for tests. */
  void checkInvariants() {
    store.checkInvariants();
    devices.checkInvariants();
    int operationsOfSessions = 0;
    int holdsOfSessions = 0;
    for (int place = 0; place < sessions.end(); place++) {
      Session session = sessions.at(place);
      if (session != null) {
        operationsOfSessions += session.operations;
        holdsOfSessions += session.holds;
      }
    }
    int held = 0;
    for (int block = 0; block < directory.highWater(); block++) {
      held += directory.isUsed(block) ? directory.holds(block) : 0;
    }
    int leasesAndPins = holds.count(HoldTable.LEASE) + holds.count(HoldTable.PIN);
    if (operationsOfSessions != operations.active() - operations.pool().departed()
        || holdsOfSessions
            != leasesAndPins + holds.count(HoldTable.RESERVATION) + holds.count(HoldTable.LATE)
        || held != leasesAndPins + devices.leases()) {
      throw new IllegalStateException("operations or holds do not add up");
    }
  }
}
