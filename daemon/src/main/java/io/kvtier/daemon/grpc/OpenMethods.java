package io.kvtier.daemon.grpc;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import io.kvtier.protocol.Printable;
import io.vertx.grpc.common.GrpcStatus;
import io.vertx.grpc.health.v1.HealthCheckRequest;
import io.vertx.grpc.health.v1.HealthCheckResponse;
import io.vertx.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.vertx.grpc.health.v1.HealthListResponse;
import java.nio.ByteBuffer;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The methods that need no token, because a kubelet's probe has none. They say which services
 * serve, without reasons.
 */
final class OpenMethods {
  /** Maximum size of a message: the name of a service has a few words. */
  static final int MESSAGE_BYTES_MAX = 1 << 10;

  private static final String SERVICE = "/grpc.health.v1.Health/";

  /**
   * The answer to a call.
   *
   * @param message null for a refusal
   * @param why the reason of a refusal
   */
  record Answer(@Nullable MessageLite message, GrpcStatus status, String why) {
    private static Answer of(MessageLite message) {
      return new Answer(message, GrpcStatus.OK, "");
    }

    static Answer refusal(GrpcStatus status, String why) {
      return new Answer(null, status, why);
    }
  }

  /** One of the methods. */
  @FunctionalInterface
  interface Method {
    /** Answers a message without waiting. */
    Answer answer(ByteBuffer message) throws InvalidProtocolBufferException;
  }

  private final ServingStates states;
  private final Map<String, Method> methods =
      Map.of(SERVICE + "Check", this::check, SERVICE + "List", this::list);

  OpenMethods(ServingStates states) {
    this.states = states;
  }

  ServingStates states() {
    return states;
  }

  /** The open method of a path; null if the path has none. */
  @Nullable Method method(String path) {
    return methods.get(path);
  }

  private Answer check(ByteBuffer message) throws InvalidProtocolBufferException {
    String service = HealthCheckRequest.parseFrom(message).getService();
    ServingStatus status = states.of(service);
    return status == null
        ? Answer.refusal(
            GrpcStatus.NOT_FOUND,
            "no service '" + Printable.of(service) + "'; there are " + states.all().keySet())
        : Answer.of(response(status));
  }

  private Answer list(ByteBuffer message) {
    HealthListResponse.Builder all = HealthListResponse.newBuilder();
    states.all().forEach((service, status) -> all.putStatuses(service, response(status)));
    return Answer.of(all.build());
  }

  static HealthCheckResponse response(ServingStatus status) {
    return HealthCheckResponse.newBuilder().setStatus(status).build();
  }
}
