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
import org.jspecify.annotations.Nullable;

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
    Registered registered =
        register(session, request.argument, properties, isOfReader(session, request));
    Namespaces.Namespace namespace = registered.namespace;
    if (namespace == null) {
      writer.refuse(session, request, registered.status, registered.why);
    } else {
      writer.completeShort(session, request, Status.OK, namespace.number());
    }
  }

  /**
   * A registration.
   *
   * @param namespace null if it was refused
   * @param why the refusal in words
   */
  record Registered(Namespaces.@Nullable Namespace namespace, Status status, String why) {
    private static Registered refused(Status status, String why) {
      return new Registered(null, status, why);
    }
  }

  /**
   * Registers a namespace for a session, and adds it if there is none with its name.
   *
   * @param properties with a name
   * @param isReader whether the session's client only reads
   */
  Registered register(
      Session session, long blockBytes, Map<String, String> properties, boolean isReader) {
    String name = properties.getOrDefault("name", "");
    int tenant = session.tenant();
    Namespaces.Namespace known = namespaces.byName(tenant, name);
    String difference = known == null ? null : Namespaces.difference(known, blockBytes, properties);
    if (known != null && difference != null) {
      if (!registry.forgetFree(known)) {
        return Registered.refused(
            Status.NAMESPACE_MISMATCH,
            Registry.taken(
                known, difference, directory.recordsOf(known.id()), sessions.namesOf(known.id())));
      }
      known = null;
    }
    if (known == null) {
      String why = isReader ? registry.whyNoReader(tenant, blockBytes) : null;
      why = why == null ? registry.whyNot(tenant, blockBytes, properties) : why;
      if (why != null) {
        return Registered.refused(Status.INVALID_ARGUMENT, why);
      }
      known = registry.add(tenant, name, blockBytes, properties);
    }
    session.namespaces.set(known.id());
    return new Registered(known, Status.OK, "");
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
