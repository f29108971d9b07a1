package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.device.Devices;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.protocol.Status;

/**
 * The classes of the verbs: makes and connects them, and calls them each round. Confined to the
 * index.
 */
public final class Verbs {
  final Registrations registrations;
  final Lookups lookups;
  final Puts puts;
  final Acquires acquires;
  final Holdings holdings;
  private final NodeCalls nodeCalls;
  private final NodeFollowers followers;
  final Deletes deletes;
  final Scans scans;
  final Annotations annotations;
  final LoadReports loadReports;
  final Retentions retentions;
  final OperationEnds ends;
  final Admin admin;
  private final Removals removals;
  private final Shortages shortages;
  private final Upkeep upkeep;

  /** Verbs without a request. */
  public Verbs(
      IndexCore core, SessionParts parts, BlockStore store, Devices devices, Registry registry) {
    upkeep = new Upkeep(store, core);
    puts = new Puts(core, parts, store, devices, upkeep::drains);
    parts.operations().whenEndsUnheard(puts::endLate);
    acquires = new Acquires(core, parts, store, devices);
    devices.connect(acquires, puts);
    holdings = new Holdings(core, parts, store, puts);
    registrations =
        new Registrations(
            core.directory(), core.namespaces(), registry, parts.sessions(), parts.writer());
    followers = new NodeFollowers(core, parts, store, devices.partial(), holdings);
    devices.partial().connect(followers);
    nodeCalls =
        new NodeCalls(
            core,
            parts,
            store,
            holdings,
            new NodeIntake(core, parts, store, registrations, upkeep::drains),
            new NodeOutlet(core, parts, store, holdings),
            followers);
    removals = new Removals(store, parts.operations());
    scans =
        new Scans(core.directory(), store, parts.operations(), removals, core.limits().holdsMax());
    admin = new Admin(store, core.namespaces(), upkeep, parts.sessions());
    ends = new OperationEnds(core, parts.operations(), devices, acquires, puts, scans, removals);
    shortages = new Shortages(core, parts, store);
    lookups = new Lookups(core, parts.writer(), store, devices.peers(), admin);
    deletes =
        new Deletes(
            core.directory(),
            core.namespaces(),
            store,
            parts.operations(),
            removals,
            devices.peers());
    annotations = new Annotations(core.directory(), store, parts.writer(), core.counters());
    loadReports = new LoadReports(core.accounts(), parts.writer(), core.clock());
    retentions = new Retentions(core, store, parts.writer());
  }

  /** The commands of operators. */
  public Admin admin() {
    return admin;
  }

  /** What other nodes ask. */
  public NodeCalls nodeCalls() {
    return nodeCalls;
  }

  /** The counts of refused puts. */
  public Refusals refusals() {
    return puts.refusals();
  }

  /** Whether new blocks are refused. */
  public boolean drains() {
    return upkeep.drains();
  }

  /** Sets who hears that new blocks are taken again. */
  public void whenDrainEnds(Runnable told) {
    upkeep.whenDrainEnds(told);
  }

  // ---- what becomes of blocks

  /** A copy in the first tier became resident, or failed to. */
  public void onFirstSettled(int block, Status status) {
    acquires.onFirstSettled(block, status);
    followers.onFirstSettled(block, status);
  }

  /** A write to a lower tier ended, well or not. */
  public void onStoreSettled(int block, Status status) {
    scans.onStoreSettled(block, status);
  }

  /** A block has left the directory. */
  public void onForgotten(int block, boolean isHeld) {
    upkeep.forgotten(block);
    if (isHeld) {
      holdings.endPinsOf(block);
    }
  }

  // ---- each round

  /** Goes on with what waits for slots, with scans and with removals. */
  public void maintain() {
    puts.serveQueue();
    scans.advance();
    removals.advance();
  }

  /** Ends operations and holds whose time is over; called every few milliseconds. */
  public void checkTime(long nowNs) {
    ends.checkTime(nowNs);
    shortages.check(nowNs);
    holdings.checkTime(nowNs);
    retentions.checkTime(nowNs);
    followers.checkTime(nowNs);
  }

  /** Whether any lease or reservation can expire, or retentions are over. */
  public boolean hasDeadlines() {
    return holdings.hasDeadlines() || retentions.isBusy() || followers.size() > 0;
  }

  /** Whether there is work for the next round although nothing arrives. */
  public boolean hasBackgroundWork() {
    return scans.isBusy();
  }

  /** The counts of holds, for the counters. */
  public void publishGauges() {
    holdings.publishGauges();
    nodeCalls.publishGauges();
    retentions.publishGauges();
  }

  /**
   * Ends all operations and holds of a session.
   *
   * @param hasHungUp whether the client has closed the socket, and so writes no more
   */
  public void endAllOf(Session session, boolean hasHungUp) {
    ends.endAllOf(session);
    followers.endAllOf(session);
    holdings.endAllOf(session, hasHungUp);
  }
}
