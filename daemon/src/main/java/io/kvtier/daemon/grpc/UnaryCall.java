package io.kvtier.daemon.grpc;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import com.google.protobuf.Parser;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.v1.Outcome;
import io.vertx.grpc.common.GrpcStatus;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** A call of one message each way, and at most one request to the index at a time. */
final class UnaryCall<Q, R extends MessageLite> extends Call<R> {
  /** What a method does. */
  interface Method<Q, R extends MessageLite> {
    /** Answers the call, now or later. */
    void handle(UnaryCall<Q, R> call, Q message) throws RefusedException;
  }

  private final Parser<Q> parser;
  private final Function<Outcome, R> refusal;
  private final Method<Q, R> method;
  private final Role role;

  /** As it came: parsed, it can take twenty times as much, and its client may never half-close. */
  private @Nullable ReceivedMessage message;

  private long correlationId;

  /**
   * A call.
   *
   * @param role of the caller
   */
  UnaryCall(
      Environment environment,
      RemoteConnection connection,
      GrpcStream stream,
      Role role,
      Parser<Q> parser,
      Function<Outcome, R> refusal,
      Method<Q, R> method) {
    super(environment, connection, stream);
    this.parser = parser;
    this.refusal = refusal;
    this.method = method;
    this.role = role;
  }

  /** What the caller may. */
  Role role() {
    return role;
  }

  @Override
  void take(ReceivedMessage received) {
    message = received;
  }

  @Override
  void onRequestsEnd() throws RefusedException {
    ReceivedMessage received = message;
    message = null;
    if (received == null) {
      fail(GrpcStatus.INVALID_ARGUMENT, "no message came");
      return;
    }
    Q parsed;
    try {
      parsed = parser.parseFrom(received.whole());
    } catch (InvalidProtocolBufferException e) {
      fail(GrpcStatus.INVALID_ARGUMENT, whyUnreadable(e));
      return;
    }
    method.handle(this, parsed);
  }

  /** Sends a request to the index; its answer is not told to a call that is over. */
  void ask(IndexRequest request, Consumer<IndexAnswer> then) {
    askAlways(
        request,
        answer -> {
          if (!isOver()) {
            then.accept(answer);
          }
        });
  }

  /** Sends a request whose answer matters even when the call is over. */
  void askAlways(IndexRequest request, Consumer<IndexAnswer> then) {
    correlationId = submit(request, then);
  }

  @Override
  void giveReason(Status status, String why) {
    respond(refusal.apply(Wire.outcome(status, why)));
  }

  @Override
  void cancelByClient() {
    environment.gateway().cancel(correlationId);
  }

  @Override
  boolean waitsForClient() {
    return !isHalfClosed();
  }

  @Override
  void release() {
    environment.gateway().cancel(correlationId);
  }
}
