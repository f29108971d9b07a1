package io.kvtier.client.internal.local;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.client.Options;
import io.kvtier.client.internal.session.Call;
import io.kvtier.client.internal.session.Connector;
import io.kvtier.client.internal.session.Receiver;
import io.kvtier.client.internal.session.Request;
import io.kvtier.client.internal.session.Session;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Submits operations to the session of the moment, or answers them where there is none. The
 * receiver answers operations with a listener; {@link #await} answers the others.
 */
final class Submitter {
  private final long timeoutNs;
  private final Connector connector;
  private final Receiver receiver;

  /**
   * A submitter over a connector.
   *
   * @param timeoutNs the timeout of operations that bring none
   */
  Submitter(long timeoutNs, Connector connector, Receiver receiver) {
    this.timeoutNs = timeoutNs;
    this.connector = connector;
    this.receiver = receiver;
  }

  Connector connector() {
    return connector;
  }

  /** The deadline of an operation that begins now. */
  long deadlineNs(Options options) {
    return System.nanoTime() + (options.timeoutNs() == 0 ? timeoutNs : options.timeoutNs());
  }

  /** The session for an operation; null while there is none. With a listener, never waits. */
  @Nullable Session session(long deadlineNs, @Nullable Consumer<Operation> whenDone) {
    return whenDone == null ? connector.session(deadlineNs) : connector.current();
  }

  /** Runs an operation and hands its answer over through a future. */
  <T> OperationFuture<T> async(
      Function<Consumer<Operation>, Operation> start, Function<Operation, T> reader) {
    OperationFuture<T> future = new OperationFuture<>();
    Operation started =
        start.apply(operation -> {
          try {
            future.answer(operation.read(reader));
          } catch (RuntimeException | Error e) {
            future.completeExceptionally(e);
            throw e;
          }
        });
    future.onCancel(started::cancel);
    return future;
  }

  /** Waits for the answer and reads it. */
  <T> T await(Operation operation, Function<Operation, T> reader) {
    Session session = operation.session();
    if (session != null) {
      session.await(operation);
    }
    return operation.read(reader);
  }

  /** Submits an operation of one call. */
  Operation submitOne(Session session, Request request, @Nullable Consumer<Operation> whenDone) {
    Operation operation = new Operation(session, 0, whenDone);
    session.submit(request, operation, 0, true);
    wakeFor(operation);
    return operation;
  }

  /** Makes a text the body of a request. */
  static Request withText(Request request, String text) {
    byte[] bytes = text.getBytes(UTF_8);
    request.text = bytes;
    request.count = bytes.length;
    return request;
  }

  /** Has the receiver wait for an operation that was submitted, if it is asynchronous. */
  void wakeFor(Operation operation) {
    if (operation.isAsync()) {
      receiver.wake();
    }
  }

  /** An operation that the client answers by itself. */
  static Operation local(
      Verb verb, int count, Status status, String detail, @Nullable Consumer<Operation> whenDone) {
    return Operation.answered(Call.local(verb, count, status, detail), whenDone);
  }

  /** An operation with nothing to do. */
  static Operation nothing(Verb verb, @Nullable Consumer<Operation> whenDone) {
    return local(verb, 0, Status.OK, "", whenDone);
  }

  /** An operation without a session. */
  Operation noSession(Verb verb, int count, @Nullable Consumer<Operation> whenDone) {
    Connector.Problem problem = connector.problem();
    return local(verb, count, problem.status(), problem.text(), whenDone);
  }
}
