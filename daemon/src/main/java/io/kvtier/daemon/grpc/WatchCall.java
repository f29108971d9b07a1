package io.kvtier.daemon.grpc;

import com.google.protobuf.InvalidProtocolBufferException;
import io.kvtier.protocol.Status;
import io.vertx.grpc.common.GrpcStatus;
import io.vertx.grpc.health.v1.HealthCheckRequest;
import io.vertx.grpc.health.v1.HealthCheckResponse;
import io.vertx.grpc.health.v1.HealthCheckResponse.ServingStatus;
import org.jspecify.annotations.Nullable;

/**
 * A call that tells the state of a service at once and after each change. Only the client ends it,
 * so the number of these calls is small.
 */
final class WatchCall extends Call<HealthCheckResponse> {
  /** The count of these calls, for one tenant on one event loop. */
  static final class Count {
    private static final int MAX = 32;

    private int open;
  }

  private final ServingStates states;
  private final Count count;
  private @Nullable String service;
  private @Nullable ServingStatus told;
  private boolean isCounted;
  private boolean isSending;

  WatchCall(
      Environment environment,
      RemoteConnection connection,
      GrpcStream stream,
      ServingStates states,
      Count count) {
    super(environment, connection, stream);
    this.states = states;
    this.count = count;
  }

  @Override
  void take(ReceivedMessage message) throws InvalidProtocolBufferException {
    if (service != null) {
      fail(GrpcStatus.INVALID_ARGUMENT, "more than one message came");
    } else if (count.open >= Count.MAX) {
      fail(GrpcStatus.RESOURCE_EXHAUSTED, "too many watch already: ask now and then instead");
    } else {
      count.open++;
      isCounted = true;
      service = HealthCheckRequest.parseFrom(message.whole()).getService();
    }
  }

  @Override
  void onRequestsEnd() {
    if (service == null) {
      fail(GrpcStatus.INVALID_ARGUMENT, "no message came");
    } else {
      tell();
    }
  }

  @Override
  void tick(long nowNs) {
    if (isHalfClosed() && !isOver()) {
      tell();
    }
  }

  private void tell() {
    String watched = service;
    if (watched == null || isSending) {
      return;
    }
    ServingStatus known = states.of(watched);
    ServingStatus now = known == null ? ServingStatus.SERVICE_UNKNOWN : known;
    if (now != told) {
      told = now;
      isSending = true;
      append(OpenMethods.response(now));
      var _ = flushed().onComplete(written -> isSending = false);
    }
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
    return !isHalfClosed();
  }

  @Override
  void release() {
    count.open -= isCounted ? 1 : 0;
  }
}
