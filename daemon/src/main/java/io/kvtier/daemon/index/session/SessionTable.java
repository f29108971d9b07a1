package io.kvtier.daemon.index.session;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.core.Share;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The sessions that the index serves, each in a place. */
public final class SessionTable {
  private final @Nullable Session[] sessions;
  private final Counters counters;
  private final Share[] shares;
  private int clients;
  private int end;

  public SessionTable(Limits limits, Tenants tenants, Counters counters) {
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
  public boolean open(Session session) {
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
  public boolean has(Session session) {
    return session.index < sessions.length && sessions[session.index] == session;
  }

  public void remove(Session session) {
    sessions[session.index] = null;
    while (end > 0 && sessions[end - 1] == null) {
      end--;
    }
    clients -= isClient(session) ? 1 : 0;
    counters.set(Counter.GAUGE_SESSIONS, clients);
  }

  /** One past the last place in use. */
  public int end() {
    return end;
  }

  @Nullable
  public Session at(int place) {
    return sessions[place];
  }

  /** Who has a namespace registered, in words. */
  public List<String> namesOf(int namespaceId) {
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
  public Session owner(int place) {
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
  public void end(Session session, Status reason, String why) {
    if (!session.ended) {
      counters.add(Counter.SESSIONS_ENDED_BAD, 1);
      cutOff(session, reason, why);
    }
  }

  /** The same of one that has done nothing wrong. */
  public void cutOff(Session session, Status reason, String why) {
    session.markEnded(reason);
    session.owner().end(session, reason, why);
  }
}
