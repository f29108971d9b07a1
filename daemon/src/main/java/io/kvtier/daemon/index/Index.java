package io.kvtier.daemon.index;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.device.Devices;
import io.kvtier.daemon.index.move.BlockListener;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.move.StoreParts;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.HoldTable;
import io.kvtier.daemon.index.session.OperationPool;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.RequestWatch;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.daemon.index.session.SessionTable;
import io.kvtier.daemon.index.session.SlotClaims;
import io.kvtier.daemon.index.session.WaiterTable;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.verbs.Admin;
import io.kvtier.daemon.index.verbs.NodeCalls;
import io.kvtier.daemon.index.verbs.Refusals;
import io.kvtier.daemon.index.verbs.Registry;
import io.kvtier.daemon.index.verbs.Requests;
import io.kvtier.daemon.index.verbs.Verbs;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.ledger.Ledger;
import java.io.IOException;
import java.util.BitSet;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The index without its duty cycle: makes and connects the parts, and calls them each round.
 * Confined to the index's thread.
 */
final class Index implements BlockListener {
  private final Directory directory;
  private final Namespaces namespaces;
  private final Counters counters;
  private final SessionParts parts;
  private final BlockStore store;
  private final Registry registry;
  private final Devices devices;
  private final Verbs verbs;
  private final Requests requests;

  /**
   * An index without sessions and blocks.
   *
   * @param events hears of blocks that come to tiers and leave them; null when nobody listens
   */
  Index(IndexContext context, @Nullable BlockEvents events) {
    IndexCore core = context.core();
    directory = core.directory();
    counters = core.counters();
    namespaces = core.namespaces();
    WaiterTable waiters = new WaiterTable(core.limits().holdsMax());
    store =
        new BlockStore(
            new StoreParts(core, context.tiers(), events, context.requests(), waiters::hasWaiters),
            this);
    parts = sessionParts(context, waiters);
    context
        .requests()
        .connect(waiters, parts.operations().pool(), namespaces, store.places().storedTiers());
    devices = new Devices(context.gpus(), core, parts, store);
    registry = new Registry(core, store, events, this::noteNamespacesInUse);
    verbs = new Verbs(core, parts, store, devices, registry);
    requests = new Requests(core, parts, store, devices, verbs);
  }

  private SessionParts sessionParts(IndexContext context, WaiterTable waiters) {
    IndexCore core = context.core();
    Limits limits = core.limits();
    SessionTable sessions = new SessionTable(limits, namespaces.tenants(), counters);
    HoldTable holds = new HoldTable(limits.holdsMax());
    RequestWatch watch = context.requests();
    CompletionWriter writer = new CompletionWriter(directory, store.first(), namespaces, watch);
    Operations operations =
        new Operations(
            sessions,
            holds,
            writer,
            core.latencies(),
            watch,
            new OperationPool(limits.operationsMax()),
            limits.operationsPerSessionMax());
    SlotClaims claims = new SlotClaims(store.first().slots(), context.writers(), limits.holdsMax());
    return new SessionParts(sessions, operations, holds, claims, waiters, writer, watch);
  }

  private void noteNamespacesInUse(BitSet ids) {
    SessionTable sessions = parts.sessions();
    for (int place = 0; place < sessions.end(); place++) {
      Session session = sessions.at(place);
      if (session != null) {
        ids.or(session.namespaces);
      }
    }
    parts.operations().pool().noteInUse(ids);
    devices.noteInUse(ids);
  }

  // ---- parts

  SessionTable sessions() {
    return parts.sessions();
  }

  BlockStore store() {
    return store;
  }

  Devices devices() {
    return devices;
  }

  Admin admin() {
    return verbs.admin();
  }

  /** The part that carries out requests. */
  Requests requests() {
    return requests;
  }

  /** The part that writes the answers to requests. */
  CompletionWriter writer() {
    return parts.writer();
  }

  /** The part that other nodes ask. */
  NodeCalls nodeCalls() {
    return verbs.nodeCalls();
  }

  /** The counts of refused puts. */
  Refusals refusals() {
    return verbs.refusals();
  }

  /** Whether new blocks are refused. */
  boolean drains() {
    return verbs.drains();
  }

  /** Sets who hears that new blocks are taken again. */
  void whenDrainEnds(Runnable told) {
    verbs.whenDrainEnds(told);
  }

  /** A namespace's id, or -1. */
  int namespaceId(int tenant, String name) {
    Namespaces.Namespace namespace = namespaces.byName(tenant, name);
    return namespace == null ? -1 : namespace.id();
  }

  // ---- the beginning and the end

  /** Finds the blocks that an earlier start of the daemon left; called before the first request. */
  void recover(List<List<Ledger>> ledgers, long storesBegin) throws IOException {
    new Recovery(directory, registry, store, counters).run(ledgers, storesBegin);
    store.stack().all().forEach(ResidentTier::recovered);
  }

  /**
   * Ends a session: releases everything that the session holds, at once.
   *
   * @param hasHungUp whether the client has closed the socket, and so writes no more
   */
  void close(Session session, boolean hasHungUp) {
    if (!parts.sessions().has(session)) {
      return;
    }
    verbs.endAllOf(session, hasHungUp);
    store.first().slots().revoke(session.id());
    devices.close(session);
    parts.sessions().remove(session);
  }

  /** The daemon stops. */
  void stop() {
    verbs.admin().stop();
  }

  // ---- what becomes of blocks

  @Override
  public void onFirstSettled(int block, Status status) {
    verbs.onFirstSettled(block, status);
  }

  @Override
  public void onStoreSettled(int block, Status status) {
    verbs.onStoreSettled(block, status);
  }

  @Override
  public void onForgotten(int block) {
    verbs.onForgotten(block, directory.holds(block) > 0);
  }

  // ---- each round

  /** Does the work of each round, except the store's. */
  void maintain() {
    verbs.maintain();
    devices.advance();
  }

  /** Ends operations and leases whose time is over; called every few milliseconds. */
  void checkTime(long nowNs) {
    verbs.checkTime(nowNs);
    devices.checkTime(nowNs);
    store.records().trim(nowNs);
  }

  /** Whether a deadline may pass soon. */
  boolean hasDeadlines() {
    return parts.operations().active() > 0 || verbs.hasDeadlines() || devices.hasDeadlines();
  }

  /** Whether there is work for the next round although nothing arrives. */
  boolean hasBackgroundWork() {
    return verbs.hasBackgroundWork();
  }

  void publishGauges() {
    verbs.publishGauges();
    counters.set(Counter.GAUGE_OPERATIONS, parts.operations().active());
    counters.set(Counter.GAUGE_INDEX_BYTES, directory.metadataBytes() + store.policyBytes());
    store.publishGauges();
    devices.publishGauges();
  }

  /** Checks that the parts agree; for tests. */
  void checkInvariants() {
    store.checkInvariants();
    devices.checkInvariants();
    HoldTable holds = parts.holds();
    Operations operations = parts.operations();
    int operationsOfSessions = 0;
    int holdsOfSessions = 0;
    SessionTable sessions = parts.sessions();
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
