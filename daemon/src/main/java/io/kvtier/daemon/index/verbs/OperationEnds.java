package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.device.Devices;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;

/**
 * How operations end before they are done: by CANCEL, by their deadline, with their session.
 * Confined to the index.
 */
public final class OperationEnds {
  private final Operations operations;
  private final Devices devices;
  private final Acquires acquires;
  private final Puts puts;
  private final Scans scans;
  private final Removals removals;
  private final Counters counters;

  OperationEnds(
      IndexCore core,
      Operations operations,
      Devices devices,
      Acquires acquires,
      Puts puts,
      Scans scans,
      Removals removals) {
    counters = core.counters();
    this.operations = operations;
    this.devices = devices;
    this.acquires = acquires;
    this.puts = puts;
    this.scans = scans;
    this.removals = removals;
  }

  /** Ends an operation of a session at the client's request; false when there is none. */
  boolean cancel(Session session, long correlationId) {
    for (int i = 0; i < operations.max(); i++) {
      Operation operation = operations.at(i);
      if (operation.active && operation.isOf(session) && operation.correlationId == correlationId) {
        cutShort(operation, Status.CANCELLED);
        counters.add(Counter.CANCELLED, 1);
        return true;
      }
    }
    return false;
  }

  /**
   * Decides every open place of an operation, and completes it. Transfers under way go on for the
   * cache's sake.
   */
  private void cutShort(Operation operation, Status status) {
    switch (operation.verb) {
      case OFFLOAD -> {
        devices.cutShort(operation, status, puts.cutShort(operation, status));
        return;
      }
      case ONBOARD -> {
        devices.cutShort(operation, status, acquires.endWaiting(operation, status));
        return;
      }
      case REGISTER_REGION, UNREGISTER_REGION -> devices.cutShort(operation, status);
      case ADVERTISE -> devices.forget(operation);
      case REVOKE -> {
        if (status != Status.SESSION_ENDED) {
          // A REVOKE is answered when the copies are over, not before.
          return;
        }
        devices.forget(operation);
      }
      case RESERVE -> {
        int ignored = puts.cutShort(operation, status);
      }
      case FLUSH, CLEAR -> {
        removals.cutShort(operation);
        scans.cutShort(operation, status);
      }
      case DELETE -> {
        removals.cutShort(operation);
        for (int i = 0; i < operation.count; i++) {
          Operations.decide(operation, i, status, TierId.NONE);
        }
      }
      default -> {
        int ignored = acquires.endWaiting(operation, status);
      }
    }
    operation.open = 0;
    operations.complete(operations.sessionOf(operation), operation);
  }

  /** Ends the operations of a session. */
  public void endAllOf(Session session) {
    for (int i = 0; i < operations.max(); i++) {
      Operation operation = operations.at(i);
      if (operation.active && operation.isOf(session)) {
        cutShort(operation, Status.SESSION_ENDED);
      }
    }
  }

  /** Ends operations whose deadlines have passed; called every few milliseconds. */
  public void checkTime(long nowNs) {
    for (int i = 0; i < operations.max() && operations.active() > 0; i++) {
      Operation operation = operations.at(i);
      if (operation.active && nowNs >= operation.deadlineNs) {
        counters.add(Counter.DEADLINES, Math.max(1, operation.open));
        cutShort(operation, Status.DEADLINE);
      }
    }
  }
}
