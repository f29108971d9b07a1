package io.kvtier.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.RequestBody;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Makes requests of operations: splits batches, fills in defaults, submits. With a listener the
 * receiver answers, without one {@link #await} does.
 */
final class Operations {
  /** The first region of a GPU takes a while. */
  static final long REGION_NS = 60_000_000_000L;

  private final Config config;
  private final Connector connector;
  private final Receiver receiver;

  Operations(Config config, Connector connector, Receiver receiver) {
    this.config = config;
    this.connector = connector;
    this.receiver = receiver;
  }

  Connector connector() {
    return connector;
  }

  long deadlineNs(Options options) {
    return System.nanoTime()
        + (options.timeoutNs() == 0 ? config.timeoutNs() : options.timeoutNs());
  }

  /**
   * The session for an operation; null while there is none. Who hands over a listener is not held
   * up.
   */
  private @Nullable Session sessionFor(long deadlineNs, @Nullable Consumer<Batch> whenDone) {
    return whenDone == null ? connector.session(deadlineNs) : connector.current();
  }

  /** Runs an operation and hands its answer over through a future. */
  <T> OperationFuture<T> async(Function<Consumer<Batch>, Batch> start, Function<Batch, T> reader) {
    OperationFuture<T> future = new OperationFuture<>();
    Batch started =
        start.apply(batch -> {
          try {
            future.answer(batch.read(reader));
          } catch (RuntimeException | Error e) {
            future.completeExceptionally(e);
            throw e;
          }
        });
    future.onCancel(started::cancel);
    return future;
  }

  /** Waits for the answer and reads it. */
  <T> T await(Batch batch, Function<Batch, T> reader) {
    Session session = batch.session;
    if (session != null) {
      session.await(batch);
    }
    return batch.read(reader);
  }

  /** An operation on keys of a namespace. */
  Batch keys(
      Verb verb,
      Namespace namespace,
      Keys keys,
      Options options,
      long deadlineNs,
      @Nullable Consumer<Batch> whenDone) {
    return keys(verb, false, namespace, keys, options, deadlineNs, whenDone);
  }

  /** RESERVE of slots that are filled by copies, whose checksums the commit brings. */
  Batch reserveForCopies(Namespace namespace, Keys keys, Options options, long deadlineNs) {
    return keys(Verb.RESERVE, true, namespace, keys, options, deadlineNs, null);
  }

  private Batch keys(
      Verb verb,
      boolean isForCopies,
      Namespace namespace,
      Keys keys,
      Options options,
      long deadlineNs,
      @Nullable Consumer<Batch> whenDone) {
    Objects.requireNonNull(namespace, "the namespace is null");
    int count = Objects.requireNonNull(keys, "keys is null").count();
    Session session = sessionFor(deadlineNs, whenDone);
    if (session == null) {
      Connector.Problem problem = connector.problem();
      return local(verb, count, problem.status(), problem.text(), whenDone);
    }
    if (count == 0) {
      return local(verb, 0, Status.OK, "", whenDone);
    }
    Namespace.Registration registration = namespace.registration(session);
    if (registration.status() != Status.OK) {
      return local(verb, count, registration.status(), registration.detail(), whenDone);
    }
    Keys parent = options.parent();
    if (parent != null && parent.keyBytes() != keys.keyBytes()) {
      throw new IllegalArgumentException(
          "the parent has " + parent.keyBytes() + " bytes, the keys have " + keys.keyBytes());
    }
    int flags = 0;
    if (verb == Verb.ACQUIRE) {
      flags |= options.leadingRun() ? RequestDescriptor.FLAG_LEADING_RUN : 0;
      flags |= options.noWait() ? RequestDescriptor.FLAG_NO_WAIT : 0;
    }
    if (isForCopies) {
      flags |= RequestDescriptor.FLAG_CHECKSUMS;
    }
    Batch batch = new Batch(session, count, Protocol.KEYS_MAX, whenDone);
    Request request = new Request(verb, deadlineNs);
    request.priority = options.priority().code();
    request.namespaceId = registration.id();
    request.group = options.group();
    request.argument = verb == Verb.ACQUIRE ? options.leaseNs() : 0;
    request.keys = keys;
    int last = batch.calls.length - 1;
    for (int c = 0; c <= last; c++) {
      request.from = c * batch.chunk;
      request.count = batch.chunkCount(c);
      request.depth = options.depth() + request.from;
      request.parent = c == 0 ? parent : keys;
      request.parentIndex = c == 0 ? 0 : request.from - 1;
      request.flags = flags | (request.parent == null ? 0 : RequestDescriptor.FLAG_PARENT);
      session.submit(request, batch, c, c == last);
    }
    wakeFor(batch);
    return batch;
  }

  /** Has a region opened, and waits for that. */
  DeviceRegion.Result region(Namespace namespace, RegionSpec spec) {
    Session session = connector.session(deadlineNs(Options.DEFAULT));
    if (session == null) {
      Connector.Problem problem = connector.problem();
      return new DeviceRegion.Result(problem.status(), problem.text(), null);
    }
    Namespace.Registration registration = namespace.registration(session);
    if (registration.status() != Status.OK) {
      return new DeviceRegion.Result(registration.status(), registration.detail(), null);
    }
    List<RegionSpec.Piece> pieces = spec.pieces();
    int firstPassed = session.wires().nextPassed(pieces.size());
    byte[] text = spec.text(firstPassed);
    DeviceRegion.Result refused = pass(session.wires(), pieces, firstPassed);
    if (refused != null) {
      return refused;
    }
    Request request = new Request(Verb.REGISTER_REGION, System.nanoTime() + REGION_NS);
    request.namespaceId = registration.id();
    request.text = text;
    request.count = text == null ? 0 : text.length;
    Batch batch = new Batch(session, 0, Protocol.KEYS_MAX, null);
    session.submit(request, batch, 0, true);
    return session
        .await(batch)
        .read(answer ->
            new DeviceRegion.Result(
                answer.status(),
                answer.detail(),
                answer.status() == Status.OK
                    ? new DeviceRegion(this, namespace, session, (int) answer.value(), spec)
                    : null));
  }

  /** Gives the daemon what it opens memory by; null when it has all. */
  private static DeviceRegion.@Nullable Result pass(
      Wires wires, List<RegionSpec.Piece> pieces, int first) {
    try {
      for (int i = 0; i < pieces.size(); i++) {
        Status status = wires.pass(first + i, pieces.get(i).descriptor());
        if (status != Status.OK) {
          String why = "piece " + i + " of the memory was not taken: " + status.meaning();
          return new DeviceRegion.Result(status, why, null);
        }
      }
      return null;
    } catch (IOException e) {
      String why = "the memory was not passed: " + e.getMessage();
      return new DeviceRegion.Result(Status.UNAVAILABLE, why, null);
    }
  }

  /** An operation on blocks of a region. */
  Batch blocks(
      Verb verb,
      Namespace namespace,
      DeviceRegion region,
      Keys keys,
      DeviceRegion.Selection blocks,
      Options options,
      Consumer<Batch> whenDone) {
    Session session = region.session();
    int count = keys.count();
    if (session != connector.current()) {
      String detail = "the session ended; register the region again";
      return local(verb, count, Status.UNAVAILABLE, detail, whenDone);
    }
    if (count == 0) {
      return local(verb, 0, Status.OK, "", whenDone);
    }
    Batch batch = new Batch(session, count, Protocol.KEYS_MAX, whenDone);
    Request request = new Request(verb, deadlineNs(options));
    request.priority = options.priority().code();
    request.namespaceId = namespace.registration(session).id();
    request.group = options.group();
    request.keys = keys;
    request.region = region.id();
    request.firstLayer = blocks.firstLayer;
    request.endLayer = blocks.endLayer;
    request.event = blocks.event;
    if (verb.body() == RequestBody.KEYS_AND_BLOCKS) {
      request.blocks = blocks.numbers;
    } else {
      request.argument = region.id();
    }
    if (verb == Verb.ADVERTISE) {
      request.argument = blocks.rank;
    }
    int last = batch.calls.length - 1;
    for (int c = 0; c <= last; c++) {
      request.from = c * batch.chunk;
      request.count = batch.chunkCount(c);
      request.depth = options.depth() + request.from;
      request.parent = c == 0 ? options.parent() : keys;
      request.parentIndex = c == 0 ? 0 : request.from - 1;
      request.flags = request.parent == null ? 0 : RequestDescriptor.FLAG_PARENT;
      session.submit(request, batch, c, c == last);
    }
    wakeFor(batch);
    return batch;
  }

  /** An operation on holds of a session. */
  Batch ids(
      Verb verb,
      int flags,
      Session session,
      long[] ids,
      int count,
      long deadlineNs,
      @Nullable Consumer<Batch> whenDone) {
    if (count == 0) {
      return local(verb, 0, Status.OK, "", whenDone);
    }
    Batch batch = new Batch(session, count, Protocol.KEYS_MAX, whenDone);
    Request request = new Request(verb, deadlineNs);
    request.flags = flags;
    request.ids = ids;
    int last = batch.calls.length - 1;
    for (int c = 0; c <= last; c++) {
      request.from = c * batch.chunk;
      request.count = batch.chunkCount(c);
      session.submit(request, batch, c, c == last);
    }
    wakeFor(batch);
    return batch;
  }

  /** An operation without keys, on a namespace or on none. */
  Batch plain(
      Verb verb,
      @Nullable Namespace namespace,
      Options options,
      @Nullable Consumer<Batch> whenDone) {
    long deadlineNs = deadlineNs(options);
    Session session = sessionFor(deadlineNs, whenDone);
    if (session == null) {
      return noSession(verb, whenDone);
    }
    int id = 0;
    if (namespace != null) {
      Namespace.Registration registration = namespace.registration(session);
      if (registration.status() != Status.OK) {
        return local(verb, 0, registration.status(), registration.detail(), whenDone);
      }
      id = registration.id();
    }
    return plain(session, verb, id, null, options, deadlineNs, whenDone);
  }

  /** REPORT_LOADS. */
  Batch reportLoads(
      Namespace namespace, LoadReport report, Options options, @Nullable Consumer<Batch> whenDone) {
    check(report);
    long deadlineNs = deadlineNs(options);
    Session session = sessionFor(deadlineNs, whenDone);
    if (session == null) {
      return noSession(Verb.REPORT_LOADS, whenDone);
    }
    Namespace.Registration registration = namespace.registration(session);
    return registration.status() != Status.OK
        ? local(Verb.REPORT_LOADS, 0, registration.status(), registration.detail(), whenDone)
        : plain(
            session,
            Verb.REPORT_LOADS,
            registration.id(),
            report.bytes(),
            options,
            deadlineNs,
            whenDone);
  }

  /** Refuses what no engine can have measured. */
  static void check(LoadReport report) {
    String why = report.whyNot();
    if (why != null) {
      throw new IllegalArgumentException(why);
    }
  }

  /** FLUSH of all namespaces, those of tenants among them. */
  Batch flushAll(Options options, @Nullable Consumer<Batch> whenDone) {
    long deadlineNs = deadlineNs(options);
    Session session = sessionFor(deadlineNs, whenDone);
    int all = RequestDescriptor.NAMESPACE_ALL;
    return session == null
        ? noSession(Verb.FLUSH, whenDone)
        : plain(session, Verb.FLUSH, all, null, options, deadlineNs, whenDone);
  }

  private Batch noSession(Verb verb, @Nullable Consumer<Batch> whenDone) {
    Connector.Problem problem = connector.problem();
    return local(verb, 0, problem.status(), problem.text(), whenDone);
  }

  private Batch plain(
      Session session,
      Verb verb,
      int namespaceId,
      byte @Nullable [] text,
      Options options,
      long deadlineNs,
      @Nullable Consumer<Batch> whenDone) {
    Request request = new Request(verb, deadlineNs);
    request.priority = options.priority().code();
    request.namespaceId = namespaceId;
    request.text = text;
    request.count = text == null ? 0 : text.length;
    Batch batch = new Batch(session, 0, Protocol.KEYS_MAX, whenDone);
    session.submit(request, batch, 0, true);
    wakeFor(batch);
    return batch;
  }

  /** An operation whose body is a text. */
  Batch text(Verb verb, String text) {
    long deadlineNs = deadlineNs(Options.DEFAULT);
    Session session = connector.session(deadlineNs);
    if (session == null) {
      Connector.Problem problem = connector.problem();
      return local(verb, 0, problem.status(), problem.text(), null);
    }
    Request request = new Request(verb, deadlineNs);
    byte[] bytes = text.getBytes(UTF_8);
    request.text = bytes;
    request.count = bytes.length;
    Batch batch = new Batch(session, 0, Protocol.KEYS_MAX, null);
    session.submit(request, batch, 0, true);
    return batch;
  }

  /** Registers a namespace in a session, and waits for the answer. */
  Batch register(Session session, String text, long blockBytes) {
    Request request = new Request(Verb.REGISTER, deadlineNs(Options.DEFAULT));
    byte[] bytes = text.getBytes(UTF_8);
    request.text = bytes;
    request.count = bytes.length;
    request.argument = blockBytes;
    Batch batch = new Batch(session, 0, Protocol.KEYS_MAX, null);
    session.submit(request, batch, 0, true);
    return session.await(batch);
  }

  /**
   * Has bytes kept with blocks.
   *
   * @param bodies as {@link AnnotationBodies} makes them
   * @return to be waited for, each
   */
  List<Batch> annotate(
      Session session, int namespaceId, List<byte[]> bodies, Options options, long deadlineNs) {
    List<Batch> batches = new ArrayList<>();
    for (byte[] body : bodies) {
      Request request = new Request(Verb.ANNOTATE, deadlineNs);
      request.namespaceId = namespaceId;
      request.group = options.group();
      request.text = body;
      request.count = body.length;
      Batch batch = new Batch(session, 0, Protocol.KEYS_MAX, null);
      session.submit(request, batch, 0, true);
      batches.add(batch);
    }
    return batches;
  }

  /** The same, of blocks that are here or on their way; waits for it. */
  ValueResult annotate(Namespace namespace, Keys keys, List<byte[]> annotations, Options options) {
    AnnotationBodies.check(keys, annotations);
    long deadlineNs = deadlineNs(options);
    Session session = connector.session(deadlineNs);
    if (session == null) {
      Connector.Problem problem = connector.problem();
      return new ValueResult(problem.status(), problem.text(), 0);
    }
    Namespace.Registration registration = namespace.registration(session);
    if (registration.status() != Status.OK) {
      return new ValueResult(registration.status(), registration.detail(), 0);
    }
    List<byte[]> bodies = AnnotationBodies.of(keys, annotations, i -> true);
    ValueResult all = new ValueResult(Status.OK, "", 0);
    for (Batch batch : annotate(session, registration.id(), bodies, options, deadlineNs)) {
      ValueResult one = await(batch, Operations::valueResult);
      all =
          one.status() == Status.OK
              ? new ValueResult(all.status(), all.detail(), all.value() + one.value())
              : new ValueResult(one.status(), one.detail(), all.value());
    }
    return all;
  }

  /** Makes a request to lease one block. */
  void fillAcquire(Request request, int namespaceId, Keys keys, int index, Options options) {
    int flags = options.leadingRun() ? RequestDescriptor.FLAG_LEADING_RUN : 0;
    flags |= options.noWait() ? RequestDescriptor.FLAG_NO_WAIT : 0;
    request.flags = flags;
    request.context = RequestContext.current();
    request.priority = options.priority().code();
    request.deadlineNs = deadlineNs(options);
    request.namespaceId = namespaceId;
    request.group = options.group();
    request.depth = options.depth() + index;
    request.argument = options.leaseNs();
    request.keys = keys;
    request.from = index;
    request.count = 1;
  }

  /** An operation with nothing to do. */
  Batch nothing(Verb verb, @Nullable Consumer<Batch> whenDone) {
    return local(verb, 0, Status.OK, "", whenDone);
  }

  private void wakeFor(Batch batch) {
    if (batch.isAsync()) {
      receiver.wake();
    }
  }

  private static Batch local(
      Verb verb, int count, Status status, String detail, @Nullable Consumer<Batch> whenDone) {
    Batch batch = new Batch(null, count, Math.max(1, count), whenDone);
    batch.calls[0] = Call.local(verb, count, status, detail);
    batch.tellDone();
    return batch;
  }

  static BatchResult batchResult(Batch batch) {
    return new BatchResult(batch.status(), batch.detail(), batch.blocks());
  }

  static LookupResult lookupResult(Batch batch) {
    Blocks blocks = batch.blocks();
    long loadTimeNs = 0;
    LookupResult.Holder holder = null;
    for (int c = 0; c < batch.calls.length; c++) {
      LookupResult.Holder found = batch.calls[c].holder();
      if (c == 0) {
        holder = found;
      } else if (found != null
          && holder != null
          && holder.run() == c * batch.chunk
          && holder.region() == found.region()) {
        holder =
            new LookupResult.Holder(
                holder.run() + found.run(), found.region(), found.gpu(), found.rank());
      }
    }
    for (Call call : batch.calls) {
      if (call.status == Status.OK) {
        loadTimeNs += call.value;
        if (call.run < call.expected) {
          break;
        }
      }
    }
    return new LookupResult(
        batch.status(), batch.detail(), blocks, blocks.run(), loadTimeNs, holder);
  }

  static ValueResult valueResult(Batch batch) {
    return new ValueResult(batch.status(), batch.detail(), batch.value());
  }

  PingResult pingResult(Batch batch, long startNs) {
    long roundTripNs = System.nanoTime() - startNs;
    Session session = batch.session;
    String detail =
        batch.status() == Status.OK && session != null
            ? session.wires().info().version()
            : batch.detail();
    return new PingResult(batch.status(), detail, roundTripNs);
  }

  static TextResult textResult(Batch batch) {
    return new TextResult(batch.status(), batch.calls[0].detail());
  }
}
