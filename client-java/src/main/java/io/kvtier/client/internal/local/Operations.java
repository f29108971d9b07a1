package io.kvtier.client.internal.local;

import io.kvtier.client.Keys;
import io.kvtier.client.Options;
import io.kvtier.client.RequestContext;
import io.kvtier.client.internal.session.Request;
import io.kvtier.client.internal.session.Session;
import io.kvtier.client.internal.shared.Lifetimes;
import io.kvtier.client.internal.shared.LoadReports;
import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import java.time.Duration;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Makes requests of operations on keys, on holds and on namespaces: splits batches, submits. */
final class Operations {
  private final Submitter submitter;

  Operations(Submitter submitter) {
    this.submitter = submitter;
  }

  Submitter submitter() {
    return submitter;
  }

  /** An operation on keys of a namespace. */
  Operation keys(
      Verb verb,
      Registrar namespace,
      Keys keys,
      Options options,
      long deadlineNs,
      @Nullable Consumer<Operation> whenDone) {
    int flags =
        switch (verb) {
          case ACQUIRE -> acquireFlags(options) | RequestDescriptor.FLAG_ENCODED;
          case RESERVE -> Records.importanceFlags(options.importance());
          default -> 0;
        };
    long argument = verb == Verb.ACQUIRE ? options.leaseNs() : 0;
    return keys(verb, flags, argument, namespace, keys, options, deadlineNs, whenDone);
  }

  /**
   * RESERVE of slots that are filled by copies, whose checksums the commit brings.
   *
   * @param encoded whether the slots are for encoded blocks, where the namespace and the daemon
   *     have them
   */
  Operation reserveForCopies(
      Registrar namespace, Keys keys, boolean encoded, Options options, long deadlineNs) {
    int flags =
        RequestDescriptor.FLAG_CHECKSUMS
            | (encoded ? RequestDescriptor.FLAG_ENCODED : 0)
            | Records.importanceFlags(options.importance());
    return keys(Verb.RESERVE, flags, 0, namespace, keys, options, deadlineNs, null);
  }

  /** RETAIN. */
  Operation retain(
      Registrar namespace,
      Keys keys,
      Duration lifetime,
      Options options,
      @Nullable Consumer<Operation> whenDone) {
    long lifetimeNs = Lifetimes.nanoseconds(lifetime);
    long deadlineNs = submitter.deadlineNs(options);
    return keys(Verb.RETAIN, 0, lifetimeNs, namespace, keys, options, deadlineNs, whenDone);
  }

  private Operation keys(
      Verb verb,
      int flags,
      long argument,
      Registrar namespace,
      Keys keys,
      Options options,
      long deadlineNs,
      @Nullable Consumer<Operation> whenDone) {
    int count = Objects.requireNonNull(keys, "keys is null").count();
    Session session = submitter.session(deadlineNs, whenDone);
    if (session == null) {
      return submitter.noSession(verb, count, whenDone);
    }
    if (count == 0) {
      return Submitter.nothing(verb, whenDone);
    }
    Registrar.Registration registration = namespace.in(session);
    if (registration.status() != Status.OK) {
      return Submitter.local(verb, count, registration.status(), registration.detail(), whenDone);
    }
    Keys parent = options.parent();
    if (parent != null && parent.keyBytes() != keys.keyBytes()) {
      throw new IllegalArgumentException(
          "the parent has " + parent.keyBytes() + " bytes, the keys have " + keys.keyBytes());
    }
    Request request = new Request(verb, deadlineNs);
    boolean encodes = namespace.properties().encoding() != null && session.wires().encodes();
    request.flags = encodes ? flags : flags & ~RequestDescriptor.FLAG_ENCODED;
    request.priority = options.priority().code();
    request.namespaceId = registration.id();
    request.group = options.group();
    request.argument = argument;
    request.keys = keys;
    if (verb == Verb.ACQUIRE) {
      request.expectFrom(options.expectedFrom());
    }
    return submitKeys(session, request, keys, options, whenDone);
  }

  /** Submits an operation on keys, in as many calls as it takes, each with the key before it. */
  Operation submitKeys(
      Session session,
      Request request,
      Keys keys,
      Options options,
      @Nullable Consumer<Operation> whenDone) {
    Operation operation = new Operation(session, keys.count(), whenDone);
    int flags = request.flags;
    int last = operation.calls() - 1;
    for (int c = 0; c <= last; c++) {
      request.from = c * operation.chunk();
      request.count = operation.chunkCount(c);
      request.depth = options.depth() + request.from;
      request.parent = c == 0 ? options.parent() : keys;
      request.parentIndex = c == 0 ? 0 : request.from - 1;
      request.flags = flags | (request.parent == null ? 0 : RequestDescriptor.FLAG_PARENT);
      session.submit(request, operation, c, c == last);
    }
    submitter.wakeFor(operation);
    return operation;
  }

  /** An operation on holds of a session. */
  Operation ids(
      Verb verb,
      int flags,
      Session session,
      long[] ids,
      int count,
      long deadlineNs,
      @Nullable Consumer<Operation> whenDone) {
    if (count == 0) {
      return Submitter.nothing(verb, whenDone);
    }
    Operation operation = new Operation(session, count, whenDone);
    Request request = new Request(verb, deadlineNs);
    request.flags = flags;
    request.ids = ids;
    int last = operation.calls() - 1;
    for (int c = 0; c <= last; c++) {
      request.from = c * operation.chunk();
      request.count = operation.chunkCount(c);
      session.submit(request, operation, c, c == last);
    }
    submitter.wakeFor(operation);
    return operation;
  }

  /** An operation without keys, on a namespace or on none. */
  Operation plain(
      Verb verb,
      @Nullable Registrar namespace,
      Options options,
      @Nullable Consumer<Operation> whenDone) {
    long deadlineNs = submitter.deadlineNs(options);
    Session session = submitter.session(deadlineNs, whenDone);
    if (session == null) {
      return submitter.noSession(verb, 0, whenDone);
    }
    int id = Request.NO_NAMESPACE;
    if (namespace != null) {
      Registrar.Registration registration = namespace.in(session);
      if (registration.status() != Status.OK) {
        return Submitter.local(verb, 0, registration.status(), registration.detail(), whenDone);
      }
      id = registration.id();
    }
    return submitter.submitOne(session, plainRequest(verb, id, options, deadlineNs), whenDone);
  }

  /** REPORT_LOADS. */
  Operation reportLoads(
      Registrar namespace,
      LoadReport report,
      Options options,
      @Nullable Consumer<Operation> whenDone) {
    LoadReports.check(report);
    long deadlineNs = submitter.deadlineNs(options);
    Session session = submitter.session(deadlineNs, whenDone);
    if (session == null) {
      return submitter.noSession(Verb.REPORT_LOADS, 0, whenDone);
    }
    Registrar.Registration registration = namespace.in(session);
    if (registration.status() != Status.OK) {
      return Submitter.local(
          Verb.REPORT_LOADS, 0, registration.status(), registration.detail(), whenDone);
    }
    Request request = plainRequest(Verb.REPORT_LOADS, registration.id(), options, deadlineNs);
    byte[] bytes = report.bytes();
    request.text = bytes;
    request.count = bytes.length;
    return submitter.submitOne(session, request, whenDone);
  }

  /** FLUSH of all namespaces, those of tenants among them. */
  Operation flushAll(Options options) {
    long deadlineNs = submitter.deadlineNs(options);
    Session session = submitter.session(deadlineNs, null);
    int all = RequestDescriptor.NAMESPACE_ALL;
    return session == null
        ? submitter.noSession(Verb.FLUSH, 0, null)
        : submitter.submitOne(session, plainRequest(Verb.FLUSH, all, options, deadlineNs), null);
  }

  private static Request plainRequest(
      Verb verb, int namespaceId, Options options, long deadlineNs) {
    Request request = new Request(verb, deadlineNs);
    request.priority = options.priority().code();
    request.namespaceId = namespaceId;
    return request;
  }

  /** An operation whose body is a text. */
  Operation text(Verb verb, String text) {
    long deadlineNs = submitter.deadlineNs(Options.DEFAULT);
    Session session = submitter.session(deadlineNs, null);
    return session == null
        ? submitter.noSession(verb, 0, null)
        : submitter.submitOne(
            session, Submitter.withText(new Request(verb, deadlineNs), text), null);
  }

  /** Makes a request to lease one block. */
  void fillAcquire(Request request, int namespaceId, Keys keys, int index, Options options) {
    request.flags = acquireFlags(options);
    request.context = RequestContext.current();
    request.priority = options.priority().code();
    request.deadlineNs = submitter.deadlineNs(options);
    request.namespaceId = namespaceId;
    request.group = options.group();
    request.depth = options.depth() + index;
    request.argument = options.leaseNs();
    request.keys = keys;
    request.from = index;
    request.count = 1;
    request.expectFrom(options.expectedFrom());
  }

  /** Refuses an index that no key has. */
  static void checkIndex(Keys keys, int index) {
    if (index < 0 || index >= keys.count()) {
      throw new IndexOutOfBoundsException("key " + index + " of " + keys.count());
    }
  }

  /** Runs a part of an operation in the trace context of the operation; null: it has none. */
  static <T extends @Nullable Object> T in(@Nullable TraceContext context, Supplier<T> what) {
    return context == null ? what.get() : RequestContext.call(context, what::get);
  }

  private static int acquireFlags(Options options) {
    return (options.leadingRun() ? RequestDescriptor.FLAG_LEADING_RUN : 0)
        | (options.noWait() ? RequestDescriptor.FLAG_NO_WAIT : 0);
  }
}
