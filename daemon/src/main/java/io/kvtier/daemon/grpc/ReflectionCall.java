package io.kvtier.daemon.grpc;

import com.google.protobuf.InvalidProtocolBufferException;
import io.kvtier.protocol.Status;
import io.vertx.grpc.common.GrpcStatus;
import io.vertx.grpc.reflection.v1.ServerReflectionRequest;
import io.vertx.grpc.reflection.v1.ServerReflectionResponse;

/** A stream of questions about the server's services, each answered when it comes. */
final class ReflectionCall extends Call<ServerReflectionResponse> {
  /** Maximum answers that the client has not yet taken. */
  private static final int WAITING_MAX = 64;

  private final SchemaBook schema;
  private int waiting;

  ReflectionCall(
      Environment environment, RemoteConnection connection, GrpcStream stream, SchemaBook schema) {
    super(environment, connection, stream);
    this.schema = schema;
  }

  @Override
  void take(ReceivedMessage message) throws InvalidProtocolBufferException {
    if (waiting >= WAITING_MAX) {
      fail(GrpcStatus.RESOURCE_EXHAUSTED, "too many questions at once: take the answers first");
      return;
    }
    ServerReflectionRequest question = ServerReflectionRequest.parseFrom(message.whole());
    waiting++;
    pause();
    append(schema.answer(question));
    var _ =
        flushed()
            .onComplete(written -> {
              waiting--;
              progress();
              if (waiting == 0 && !isOver()) {
                resume();
              }
            });
  }

  @Override
  void onRequestsEnd() {
    respondEnd();
  }

  @Override
  void giveReason(Status status, String why) {
    fail(GrpcStatus.UNAVAILABLE, why);
  }

  @Override
  void cancelByClient() {
    cutOff();
  }

  @Override
  boolean waitsForClient() {
    return true;
  }

  @Override
  void release() {}
}
