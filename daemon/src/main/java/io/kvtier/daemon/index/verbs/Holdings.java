package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.HoldTable;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.RequestWatch;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.daemon.index.session.SessionTable;
import io.kvtier.daemon.index.session.SlotClaims;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;

/**
 * The holds of sessions: PIN and UNPIN, RELEASE and ABORT, and holds that expire. Confined to the
 * index.
 */
public final class Holdings {
  private final BlockStore store;
  private final HoldTable holds;
  private final SlotClaims claims;
  private final SessionTable sessions;
  private final Puts puts;
  private final CompletionWriter writer;
  private final Counters counters;
  private final RequestWatch requests;
  private final int holdsPerSessionMax;

  Holdings(IndexCore core, SessionParts parts, BlockStore store, Puts puts) {
    counters = core.counters();
    holdsPerSessionMax = core.limits().holdsPerSessionMax();
    sessions = parts.sessions();
    holds = parts.holds();
    claims = parts.claims();
    writer = parts.writer();
    requests = parts.watch();
    this.store = store;
    this.puts = puts;
  }

  /** RELEASE and ABORT: ends leases and reservations by their ids. */
  void end(Session session, Request request) throws ProtocolViolation {
    byte kind = request.verb == Verb.ABORT ? HoldTable.RESERVATION : HoldTable.LEASE;
    boolean isCorrupt = request.has(RequestDescriptor.FLAG_CORRUPT);
    if (isCorrupt) {
      requests.foundCorrupt(request);
    }
    writer.begin(session, request);
    for (int i = 0; i < request.count; i++) {
      long id = Words.getLong(request.segment, request.body + 8L * i);
      int hold = holds.find(id, kind, session);
      if (hold == HoldTable.NONE) {
        if (kind == HoldTable.RESERVATION) {
          puts.endLate(id, session);
        }
        writer.add(Status.STALE, TierId.NONE);
        continue;
      }
      if (isCorrupt) {
        store.audits().doubt(holds.block(hold));
      }
      endHold(hold, session);
      writer.add(Status.OK, TierId.NONE);
    }
    writer.end(request, 0);
  }

  /**
   * Ends the lease of another node, unless it has ended.
   *
   * @param isDamaged whether the bytes that arrived did not match their checksum
   */
  void endLease(Session session, long id, boolean isDamaged) {
    int hold = holds.find(id, HoldTable.LEASE, session);
    if (hold != HoldTable.NONE) {
      if (isDamaged) {
        store.audits().doubt(holds.block(hold));
      }
      endHold(hold, session);
    }
  }

  /**
   * Takes a lease of a block for another node. It has no end in time, because a link may read the
   * slot.
   *
   * @return its hold; {@link HoldTable#NONE} if the node has too many
   */
  int leaseForNode(Session session, int block) {
    return session.mayHold(holdsPerSessionMax)
        ? holds.take(HoldTable.LEASE, block, session, 0)
        : HoldTable.NONE;
  }

  /** Ends the reservation of another node without a commit, unless it has ended. */
  void endReservation(Session session, long id) {
    int hold = holds.find(id, HoldTable.RESERVATION, session);
    if (hold != HoldTable.NONE) {
      endHold(hold, session);
    }
  }

  private void endHold(int hold, Session session) {
    int block = holds.block(hold);
    byte kind = holds.kind(hold);
    claims.end(hold);
    holds.free(hold, session);
    switch (kind) {
      case HoldTable.RESERVATION -> puts.abandon(block);
      case HoldTable.LATE -> {}
      default -> {
        store.release(block);
        puts.released(block);
      }
    }
  }

  /** Pins a block for a session, once more where the session has pinned it already. */
  Status pin(Session session, int block) {
    if (!store.isVisible(block)) {
      return Status.MISS;
    }
    int known = holds.pinOf(block, session);
    if (known != HoldTable.NONE) {
      return holds.pinAgain(known, session) ? Status.OK : Status.BUSY;
    }
    if (!session.mayHold(holdsPerSessionMax)
        || holds.take(HoldTable.PIN, block, session, 0) == HoldTable.NONE) {
      return Status.BUSY;
    }
    store.pin(block);
    return Status.OK;
  }

  /** Ends one pin of a session on a block. */
  Status unpin(Session session, int block) {
    int hold = holds.pinOf(block, session);
    if (hold == HoldTable.NONE) {
      return Status.MISS;
    }
    if (!holds.unpinOnce(hold, session)) {
      endHold(hold, session);
    }
    return Status.OK;
  }

  /**
   * Takes back the leases and reservations of an answered request that its client cancels. The
   * client does not use the answer, and may never look for answers again.
   */
  Status giveBackUnheard(Session session, long correlationId) {
    Status found = Status.MISS;
    int next;
    for (int hold = session.firstHold; hold != HoldTable.NONE && correlationId != 0; hold = next) {
      next = holds.nextOf(hold);
      byte kind = holds.kind(hold);
      if (holds.request(hold) == correlationId
          && (kind == HoldTable.RESERVATION || kind == HoldTable.LEASE)) {
        endHold(hold, session);
        found = Status.OK;
      }
    }
    return found;
  }

  /** A block has left the directory: the pins on it end. */
  public void endPinsOf(int block) {
    if (holds.count(HoldTable.PIN) > 0) {
      for (int hold = holds.anyPinOf(block); hold != HoldTable.NONE; hold = holds.anyPinOf(block)) {
        endHold(hold, sessions.owner(holds.sessionIndex(hold)));
      }
    }
  }

  /**
   * Ends all holds of a session.
   *
   * @param hasHungUp whether the client has closed the socket, and so writes no more
   */
  public void endAllOf(Session session, boolean hasHungUp) {
    while (session.firstHold != HoldTable.NONE) {
      if (!hasHungUp) {
        claims.leave(session.firstHold, session);
      }
      endHold(session.firstHold, session);
    }
  }

  /** Ends leases and reservations whose time is over; called every few milliseconds. */
  public void checkTime(long nowNs) {
    for (int hold = holds.expired(nowNs); hold != HoldTable.NONE; hold = holds.expired(nowNs)) {
      Session session = sessions.owner(holds.sessionIndex(hold));
      if (holds.kind(hold) == HoldTable.RESERVATION) {
        puts.expire(hold, session);
      } else {
        counters.add(Counter.LEASES_EXPIRED, 1);
        endHold(hold, session);
      }
    }
    claims.checkTime(nowNs);
  }

  /** Whether any lease or reservation can expire. */
  public boolean hasDeadlines() {
    return holds.count(HoldTable.LEASE) > 0 || holds.count(HoldTable.RESERVATION) > 0;
  }

  public void publishGauges() {
    counters.set(Counter.GAUGE_LEASES, holds.count(HoldTable.LEASE));
    counters.set(Counter.GAUGE_RESERVATIONS, holds.count(HoldTable.RESERVATION));
    counters.set(Counter.GAUGE_LATE_WRITES, claims.late());
  }
}
