package io.kvtier.client.internal.local;

import io.kvtier.client.Options;
import io.kvtier.client.internal.session.Request;
import io.kvtier.client.internal.session.Session;
import io.kvtier.client.internal.shared.NamespaceProperties;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Registers a namespace in each session, and knows its number there. Thread-safe. */
final class Registrar implements Consumer<Session> {
  /** How a namespace stands in one session. */
  record Registration(Session session, Status status, String detail, int id) {}

  private final Submitter submitter;
  private final NamespaceProperties properties;
  private volatile @Nullable Registration registration;
  private volatile boolean unregistered;

  Registrar(Submitter submitter, NamespaceProperties properties) {
    this.submitter = submitter;
    this.properties = properties;
  }

  NamespaceProperties properties() {
    return properties;
  }

  /** The last registration; null before the first. */
  @Nullable Registration last() {
    return registration;
  }

  /** How the namespace stands in a session; registers it where that was not done. */
  Registration in(Session session) {
    Registration known = registration;
    return known != null && known.session() == session ? known : register(session);
  }

  @Override
  public void accept(Session begun) {
    var _ = register(begun);
  }

  /** Registers the namespace, and waits for the answer. */
  private synchronized Registration register(Session session) {
    Registration known = registration;
    if (known != null && known.session() == session) {
      return known;
    }
    if (unregistered) {
      return new Registration(
          session, Status.NAMESPACE_UNKNOWN, "the namespace was unregistered", -1);
    }
    Request request = new Request(Verb.REGISTER, submitter.deadlineNs(Options.DEFAULT));
    request.argument = properties.blockBytes();
    Registration made =
        submitter.await(
            submitter.submitOne(session, Submitter.withText(request, properties.text()), null),
            answer ->
                new Registration(session, answer.status(), answer.detail(), (int) answer.value()));
    // The next operation tries again what may succeed later.
    if (made.status() == Status.OK
        || made.status() == Status.NAMESPACE_MISMATCH
        || made.status() == Status.INVALID_ARGUMENT) {
      registration = made;
    }
    return made;
  }

  /** Registers the namespace in no further session. */
  void forget() {
    synchronized (this) {
      unregistered = true;
      registration = null;
    }
    submitter.connector().remove(this);
  }
}
