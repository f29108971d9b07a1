package io.kvtier.daemon.index;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The sessions that the index serves, each in a place. */
final class SessionTable {
  private final @Nullable Session[] sessions;
  private final Counters counters;
  private final Share[] shares;
  private int clients;
  private int end;

  SessionTable(IndexAgent.Limits limits, Tenants tenants, Counters counters) {
    this.sessions = new Session[limits.sessionsMax()];
    this.shares = new Share[tenants.count()];
    for (int i = 0; i < shares.length; i++) {
      shares[i] =
          new Share(
              tenants.shareOf(limits.operationsMax(), i), tenants.shareOf(limits.holdsMax(), i));
    }
    this.counters = counters;
  }

  /** Takes a session in; false when there are too many. */
  boolean open(Session session) {
    for (int i = 0; i < sessions.length; i++) {
      if (sessions[i] == null) {
        session.index = i;
        session.share = shares[session.tenant()];
        sessions[i] = session;
        clients += isClient(session) ? 1 : 0;
        end = Math.max(end, i + 1);
        counters.add(Counter.SESSIONS_OPENED, 1);
        counters.set(Counter.GAUGE_SESSIONS, clients);
        return true;
      }
    }
    return false;
  }

  /** The gRPC server's own sessions are none of a client's. */
  private static boolean isClient(Session session) {
    return session.id() != SlotAllocator.DAEMON;
  }

  /** Whether a session was taken in and not removed. */
  boolean has(Session session) {
    return session.index < sessions.length && sessions[session.index] == session;
  }

  void remove(Session session) {
    sessions[session.index] = null;
    while (end > 0 && sessions[end - 1] == null) {
      end--;
    }
    clients -= isClient(session) ? 1 : 0;
    counters.set(Counter.GAUGE_SESSIONS, clients);
  }

  /** One past the last place in use. */
  int end() {
    return end;
  }

  @Nullable Session at(int place) {
    return sessions[place];
  }

  /** Who has a namespace registered, in words. */
  List<String> namesOf(int namespaceId) {
    List<String> names = new ArrayList<>();
    for (int place = 0; place < end; place++) {
      Session session = sessions[place];
      if (session != null && session.namespaces.get(namespaceId)) {
        names.add(
            isClient(session)
                ? session.name() + ", pid " + session.peerProcess()
                : "gRPC, until a caller unregisters it");
      }
    }
    return names;
  }

  /** The session in a place that something still refers to. */
  Session owner(int place) {
    Session session = sessions[place];
    if (session == null) {
      throw new IllegalStateException("something of place " + place + " outlived its session");
    }
    return session;
  }

  /**
   * Cuts a session off for a reason; what it holds is released when its owner says that it is
   * closed.
   */
  void end(Session session, Status reason, String why) {
    if (!session.ended) {
      counters.add(Counter.SESSIONS_ENDED_BAD, 1);
      cutOff(session, reason, why);
    }
  }

  /** The same of one that has done nothing wrong. */
  void cutOff(Session session, Status reason, String why) {
    session.markEnded(reason);
    session.owner().end(session, reason, why);
  }
}
