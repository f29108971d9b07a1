package io.kvtier.daemon.grpc;

import com.google.protobuf.InvalidProtocolBufferException;
import io.kvtier.protocol.Status;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.grpc.common.GrpcMessage;
import io.vertx.grpc.common.GrpcStatus;
import io.vertx.grpc.server.GrpcServerRequest;
import io.vertx.grpc.server.GrpcServerResponse;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * One call from its first byte to its end, for whatever reason it ends; then what it holds is
 * released, once. An answer is held back until the client has half-closed: the other end would
 * reset its stream, and the server take many resets for an attack.
 *
 * @param <Q> the request message
 * @param <R> the response message
 */
abstract class Call<Q, R> {
  private static final long DEADLINE_GRACE_NS = 250_000_000L;

  /** A grpc-timeout may be thousands of years: more than a deadline in ns can hold. */
  private static final long TIMEOUT_NS_MAX = TimeUnit.DAYS.toNanos(1000);

  /** What calls need of the server. */
  record Environment(
      IndexGateway gateway,
      NamespaceSizes namespaces,
      IntFunction<MemorySegment> slabs,
      int chunkBytes,
      long stallNs,
      Consumer<Call<?, ?>> onEnd) {}

  final Environment environment;
  final RemoteConnection connection;
  private final HttpServerRequest http;
  private final GrpcServerRequest<Q, R> request;
  private final GrpcServerResponse<Q, R> response;
  private final long deadlineNs;
  private long progressNs = System.nanoTime();
  private long operationId;
  private boolean halfClosed;
  private boolean over;
  private @Nullable Runnable answer;

  /** A call as the server hands it over: the same request as HTTP and as gRPC. */
  record Arrival<Q, R>(
      RemoteConnection connection, HttpServerRequest http, GrpcServerRequest<Q, R> request) {}

  Call(Environment environment, Arrival<Q, R> arrival) {
    this.environment = environment;
    this.connection = arrival.connection;
    this.http = arrival.http;
    this.request = arrival.request;
    this.response = request.response();
    this.deadlineNs =
        request.timeout() > 0
            ? System.nanoTime()
                + Math.min(TimeUnit.MILLISECONDS.toNanos(request.timeout()), TIMEOUT_NS_MAX)
            : 0;
  }

  /** Begins to receive. */
  final void start() {
    connection.opened(this);
    response.exceptionHandler(e -> breakOff());
    request.exceptionHandler(e -> breakOff());
    request.errorHandler(e -> breakOff());
    request.invalidMessageHandler(e -> fail(GrpcStatus.RESOURCE_EXHAUSTED, "message too large"));
    request.endHandler(v -> onHalfClose());
    String encoding = request.encoding();
    if (encoding != null && !encoding.equals("identity")) {
      fail(GrpcStatus.UNIMPLEMENTED, "messages must not be compressed");
    }
    request.messageHandler(this::onRawMessage);
  }

  private void onRawMessage(GrpcMessage message) {
    progressNs = System.nanoTime();
    if (over || answer != null) {
      return;
    }
    try {
      onMessage(parse(message.payload().getBytes()));
    } catch (InvalidProtocolBufferException e) {
      fail(GrpcStatus.INVALID_ARGUMENT, "not a message of this method");
    } catch (RefusedException e) {
      refuse(e.status(), e.why());
    }
  }

  private void onHalfClose() {
    halfClosed = true;
    Runnable held = answer;
    if (held != null) {
      held.run();
    } else if (!over) {
      try {
        onRequestsEnd();
      } catch (RefusedException e) {
        refuse(e.status(), e.why());
      }
    }
  }

  abstract Q parse(byte[] message) throws InvalidProtocolBufferException;

  abstract void onMessage(Q message) throws RefusedException;

  /** The client has sent its last message. */
  abstract void onRequestsEnd() throws RefusedException;

  /** Answers with a reason instead of a result. */
  abstract void refuse(Status status, String why);

  /** The client of this call asks for its cancellation, in another call. */
  abstract void cancelByClient();

  /** Whether nothing goes on before the client sends or takes more. */
  abstract boolean waitsForClient();

  /** The call is over: everything that it holds is given back. Called once. */
  abstract void release();

  /** Makes the call known to {@link #cancelByClient}'s caller. */
  final void named(long id) {
    operationId = id;
    connection.began(id, this);
  }

  final boolean isOver() {
    return over;
  }

  /** {@code CLOCK_MONOTONIC}; 0 without one. */
  final long deadlineNs() {
    return deadlineNs;
  }

  /**
   * Takes no more bytes off the wire. It is the HTTP request that is paused, because Vert.x 5.0.7
   * can't pause a gRPC request whose last byte has come already.
   */
  final void pause() {
    if (!http.isEnded()) {
      http.pause();
    }
  }

  final void resume() {
    if (!http.isEnded()) {
      http.resume();
    }
  }

  final boolean isHalfClosed() {
    return halfClosed;
  }

  final void progress() {
    progressNs = System.nanoTime();
  }

  // ---- answering
  // ------------------------------------------------------------------------------------------------

  /** Answers with one message, the last. */
  final void respond(R message) {
    finish(() -> response.end(message));
  }

  /** Ends a stream of messages, all of which are written. */
  final void respondEnd() {
    finish(response::end);
  }

  /** Ends the call without an answer of kvtier's. */
  final void fail(GrpcStatus status, String why) {
    finish(() -> response.status(status).statusMessage(why).end());
  }

  private void finish(Runnable how) {
    if (over || answer != null) {
      return;
    }
    end();
    if (halfClosed) {
      how.run();
    } else {
      answer = how;
      resume();
    }
  }

  final boolean isFull() {
    return response.writeQueueFull();
  }

  final void onDrain(Runnable then) {
    response.drainHandler(v -> {
      response.drainHandler(null);
      progress();
      then.run();
    });
  }

  /** Writes a message that is already encoded. */
  final void write(Buffer message) {
    response.writeMessage(GrpcMessage.message("identity", message));
  }

  /** The client is gone, and nothing can be answered. */
  final void breakOff() {
    answer = null;
    end();
  }

  private void end() {
    if (!over) {
      over = true;
      connection.finished(operationId, this);
      release();
      environment.onEnd.accept(this);
    }
  }

  /** Ends the call when its time is over, or nothing moved for too long. */
  final void checkTime(long nowNs) {
    if (!over
        && ((deadlineNs != 0 && nowNs - deadlineNs > DEADLINE_GRACE_NS)
            || (waitsForClient() && nowNs - progressNs > environment.stallNs))) {
      end();
      response.cancel();
    }
  }
}
