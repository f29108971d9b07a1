package io.kvtier.client.internal.remote;

import io.kvtier.client.KvtierException;
import io.kvtier.client.Options;
import io.kvtier.client.internal.shared.NamespaceProperties;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.kvtier.protocol.v1.RegisterRequest;
import io.kvtier.protocol.v1.RegisterResponse;
import io.vertx.core.Future;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Registers a namespace at a daemon that is asked by gRPC, and knows its number. Thread-safe. */
final class RemoteRegistrar {
  /** The number that the daemon gave the namespace, until it is restarted. */
  record Registration(long number, int chunkBytes) {}

  private final RemoteChannel channel;
  private final NamespaceProperties properties;
  private volatile @Nullable Registration registration;
  private volatile Status status = Status.UNAVAILABLE;
  private volatile String detail = "";
  private volatile boolean isUnregistered;

  RemoteRegistrar(RemoteChannel channel, NamespaceProperties properties) {
    this.channel = channel;
    this.properties = properties;
  }

  /** OK, or why the daemon does not serve the namespace. */
  Status status() {
    return status;
  }

  /** The reason for {@link #status}, in words. */
  String detail() {
    return detail;
  }

  void registerOrThrow() {
    Status outcome =
        RemoteChannel.done(
                channel.begin(
                    () -> register(channel.deadlineNs(Options.DEFAULT)).map(known -> Status.OK)),
                RemoteChannel.Failure::status)
            .join();
    if (outcome == Status.NAMESPACE_MISMATCH
        || outcome == Status.INVALID_ARGUMENT
        || outcome == Status.TOO_LARGE
        || outcome == Status.DENIED) {
      throw new KvtierException(outcome, detail);
    }
  }

  private Future<Registration> register(long deadlineNs) {
    if (isUnregistered) {
      return Future.failedFuture(
          new RemoteChannel.Failure(Status.NAMESPACE_UNKNOWN, "the namespace was unregistered"));
    }
    RegisterRequest.Builder request =
        RegisterRequest.newBuilder()
            .setName(properties.name())
            .setBlockBytes(properties.blockBytes());
    properties
        .all()
        .forEach((property, value) -> {
          if (!property.equals("name")) {
            request.putProperties(property, value);
          }
        });
    return channel
        .call(KvtierGrpcClient.Register, request.build(), deadlineNs)
        .compose(this::registered)
        .onFailure(error -> {
          if (error instanceof RemoteChannel.Failure failure) {
            status = failure.status();
            detail = failure.why();
          }
        });
  }

  private Future<Registration> registered(RegisterResponse answer) {
    Status outcome = Status.of(answer.getOutcome().getStatusValue());
    if (outcome != Status.OK) {
      return Future.failedFuture(new RemoteChannel.Failure(outcome, answer.getOutcome().getText()));
    }
    Registration made =
        new Registration(
            answer.getNamespaceId(), Math.clamp(answer.getChunkBytesMax(), 1, 4 << 20));
    registration = made;
    status = Status.OK;
    detail = "";
    return Future.succeededFuture(made);
  }

  /**
   * Makes a call that names the namespace by its number. A restarted daemon has forgotten the
   * number: the call then did nothing, and is made once more with a new number.
   */
  <T> Future<T> withNumber(
      long deadlineNs, Function<Registration, Future<T>> call, Function<T, Status> outcome) {
    Registration known = registration;
    Future<Registration> ready =
        known == null ? register(deadlineNs) : Future.succeededFuture(known);
    return ready.compose(number ->
        call.apply(number)
            .compose(answer -> {
              if (outcome.apply(answer) != Status.NAMESPACE_UNKNOWN || known == null) {
                return Future.succeededFuture(answer);
              }
              registration = null;
              return register(deadlineNs).compose(call);
            }));
  }

  /**
   * Forgets the namespace.
   *
   * @return its last registration; null: there was none
   */
  @Nullable Registration forget() {
    Registration known = registration;
    isUnregistered = true;
    registration = null;
    status = Status.NAMESPACE_UNKNOWN;
    return known;
  }
}
