package io.kvtier.client.internal.local;

import io.kvtier.client.Keys;
import io.kvtier.client.Options;
import io.kvtier.client.ValueResult;
import io.kvtier.client.internal.session.Connector;
import io.kvtier.client.internal.session.Request;
import io.kvtier.client.internal.session.Session;
import io.kvtier.client.internal.shared.AnnotationBodies;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntPredicate;

/** ANNOTATE: bytes that the daemon keeps with blocks. */
final class Annotations {
  private final Submitter submitter;

  Annotations(Submitter submitter) {
    this.submitter = submitter;
  }

  /**
   * Submits annotations of blocks that are reserved in a session.
   *
   * @param isWanted says which keys are annotated
   * @return operations, each to be waited for
   */
  List<Operation> begin(
      Session session,
      Registrar namespace,
      Keys keys,
      List<byte[]> annotations,
      IntPredicate isWanted,
      Options options,
      long deadlineNs) {
    int id = namespace.in(session).id();
    List<Operation> begun = new ArrayList<>();
    for (byte[] body : AnnotationBodies.of(keys, annotations, isWanted)) {
      Request request = new Request(Verb.ANNOTATE, deadlineNs);
      request.namespaceId = id;
      request.group = options.group();
      request.text = body;
      request.count = body.length;
      begun.add(submitter.submitOne(session, request, null));
    }
    return begun;
  }

  /** Annotates blocks that are stored or reserved, and waits for that. */
  ValueResult annotate(Registrar namespace, Keys keys, List<byte[]> annotations, Options options) {
    AnnotationBodies.check(keys, annotations);
    long deadlineNs = submitter.deadlineNs(options);
    Session session = submitter.session(deadlineNs, null);
    if (session == null) {
      Connector.Problem problem = submitter.connector().problem();
      return new ValueResult(problem.status(), problem.text(), 0);
    }
    Registrar.Registration registration = namespace.in(session);
    if (registration.status() != Status.OK) {
      return new ValueResult(registration.status(), registration.detail(), 0);
    }
    ValueResult all = new ValueResult(Status.OK, "", 0);
    for (Operation one :
        begin(session, namespace, keys, annotations, i -> true, options, deadlineNs)) {
      ValueResult answer = submitter.await(one, Answers::value);
      all =
          answer.status() == Status.OK
              ? new ValueResult(all.status(), all.detail(), all.value() + answer.value())
              : new ValueResult(answer.status(), answer.detail(), all.value());
    }
    return all;
  }
}
