package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionTable;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.Map;

/** REGISTER and UNREGISTER: which namespaces a session may name. */
public final class Registrations {
  private final Directory directory;
  private final Namespaces namespaces;
  private final Registry registry;
  private final SessionTable sessions;
  private final CompletionWriter writer;

  public Registrations(
      Directory directory,
      Namespaces namespaces,
      Registry registry,
      SessionTable sessions,
      CompletionWriter writer) {
    this.directory = directory;
    this.namespaces = namespaces;
    this.registry = registry;
    this.sessions = sessions;
    this.writer = writer;
  }

  /** Whether the session has the namespace that a request names; it may name anything. */
  static boolean isRegistered(Session session, Request request) {
    return request.namespaceId >= 0 && session.namespaces.get(request.namespaceId);
  }

  /**
   * REGISTER.
   *
   * @param text the body of the request
   */
  void register(Session session, Request request, String text) throws ProtocolViolation {
    Map<String, String> properties = Namespaces.parse(text);
    if (properties == null) {
      writer.refuse(
          session,
          request,
          Status.INVALID_ARGUMENT,
          "a registration is lines 'property=value', each property once, 'name' among them");
      return;
    }
    String name = properties.getOrDefault("name", "");
    long blockBytes = request.argument;
    int tenant = session.tenant();
    Namespaces.Namespace known = namespaces.byName(tenant, name);
    String difference = known == null ? null : Namespaces.difference(known, blockBytes, properties);
    if (known != null && difference != null) {
      if (!registry.forgetFree(known)) {
        String refusal =
            Registry.taken(
                known, difference, directory.recordsOf(known.id()), sessions.namesOf(known.id()));
        writer.refuse(session, request, Status.NAMESPACE_MISMATCH, refusal);
        return;
      }
      known = null;
    }
    if (known == null) {
      String why = isOfReader(session, request) ? registry.whyNoReader(tenant, blockBytes) : null;
      why = why == null ? registry.whyNot(tenant, blockBytes, properties) : why;
      if (why != null) {
        writer.refuse(session, request, Status.INVALID_ARGUMENT, why);
        return;
      }
      known = registry.add(tenant, name, blockBytes, properties);
    }
    session.namespaces.set(known.id());
    writer.completeShort(session, request, Status.OK, known.number());
  }

  private static boolean isOfReader(Session session, Request request) {
    return session.role() == Role.READ
        || (session.id() == SlotAllocator.DAEMON && request.group == Request.REGISTER_FOR_READER);
  }

  /** UNREGISTER. */
  void unregister(Session session, Request request) throws ProtocolViolation {
    boolean known = isRegistered(session, request);
    if (known) {
      session.namespaces.clear(request.namespaceId);
    }
    writer.completeShort(session, request, known ? Status.OK : Status.NAMESPACE_UNKNOWN, 0);
  }
}
