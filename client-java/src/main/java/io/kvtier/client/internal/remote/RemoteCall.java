package io.kvtier.client.internal.remote;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.MessageLite;
import io.kvtier.protocol.Status;
import io.netty.buffer.Unpooled;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientRequest;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.RequestOptions;
import io.vertx.core.internal.buffer.BufferInternal;
import io.vertx.core.net.SocketAddress;
import io.vertx.grpc.common.GrpcStatus;
import io.vertx.grpc.common.ServiceMethod;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import org.jspecify.annotations.Nullable;

/**
 * The client's end of a gRPC call on its HTTP/2 stream: framed messages out, bytes in, a status at
 * the end. Received bytes are handed on in the pieces in which they came. Vert.x's gRPC client
 * would put each message together first, and copy each message that it sends.
 *
 * <p>Confined to the event loop of the channel.
 */
final class RemoteCall {
  /** Maximum size of a received message. */
  static final int MESSAGE_BYTES_MAX = 8 << 20;

  /** The bytes before each message: whether it is compressed, and its length. */
  static final int PREFIX_BYTES = 5;

  private static final String CONTENT_TYPE = "application/grpc";
  private static final long TIMEOUT_MS_MAX = 99_999_999;
  private static final long CANCEL = 8;
  private static final int HTTP_OK = 200;

  /** Takes the bytes of an answer. What it throws fails the call. */
  interface Receiver {
    /** The next bytes of the answer; they stay unchanged. */
    void onBytes(ByteBuffer bytes);

    /** The answer has ended in good order. */
    void onEnd();
  }

  private final HttpClientRequest request;
  private final Promise<Void> done = Promise.promise();

  private RemoteCall(HttpClientRequest request) {
    this.request = request;
    request.exceptionHandler(done::tryFail);
  }

  /**
   * Opens a call, and connects before if there is no connection.
   *
   * @param bearer the token to show; null for none
   */
  static Future<RemoteCall> open(
      HttpClient http,
      SocketAddress server,
      ServiceMethod<?, ?> method,
      @Nullable String bearer,
      long timeoutMs) {
    RequestOptions options =
        new RequestOptions()
            .setMethod(HttpMethod.POST)
            .setServer(server)
            .setURI(method.serviceName().pathOf(method.methodName()))
            .putHeader("content-type", CONTENT_TYPE)
            .putHeader("te", "trailers")
            .putHeader("grpc-timeout", Math.min(timeoutMs, TIMEOUT_MS_MAX) + "m");
    if (bearer != null) {
      options.putHeader("authorization", "Bearer " + bearer);
    }
    return http.request(options).map(request -> new RemoteCall(request.setChunked(true)));
  }

  // ---- sending

  /** A message with its prefix. */
  static Buffer framed(MessageLite message) {
    int length = message.getSerializedSize();
    byte[] framed = new byte[PREFIX_BYTES + length];
    putPrefix(framed, length);
    try {
      message.writeTo(CodedOutputStream.newInstance(framed, PREFIX_BYTES, length));
    } catch (IOException e) {
      throw new IllegalStateException("a message did not fit its own size", e);
    }
    return view(framed, framed.length);
  }

  /** Writes the prefix of a message of that length to the begin of an array. */
  static void putPrefix(byte[] out, int length) {
    ByteBuffer.wrap(out).put((byte) 0).putInt(length);
  }

  /** The first bytes of an array, which are not copied. */
  static Buffer view(byte[] bytes, int length) {
    return BufferInternal.buffer(Unpooled.wrappedBuffer(bytes, 0, length));
  }

  /** Maximum size of what waits to be sent, before {@link #isFull}. */
  void limitUnsent(int bytes) {
    request.setWriteQueueMaxSize(bytes);
  }

  /** Whether a message should wait for {@link #onDrain}. */
  boolean isFull() {
    return request.writeQueueFull();
  }

  /** Runs something once, when the call is full no longer; never after the call's end. */
  void onDrain(Runnable then) {
    request.drainHandler(v -> {
      request.drainHandler(null);
      if (!done.future().isComplete()) {
        then.run();
      }
    });
  }

  /** Sends a message with its prefix. The bytes must stay unchanged until the future completes. */
  Future<Void> write(Buffer framed) {
    return request.write(framed);
  }

  /** Sends no more messages. */
  void end() {
    var _ = request.end();
  }

  /** Breaks the call off. */
  void cancel() {
    var _ = request.reset(CANCEL);
  }

  // ---- receiving

  /**
   * Receives the answer. The future completes when it has ended in good order, and fails with its
   * status or with what broke the call.
   */
  Future<Void> receive(Receiver receiver) {
    request.response().onComplete(response -> take(response, receiver), done::tryFail);
    return done.future();
  }

  /** Fails the call, and breaks it off, unless it has ended. */
  void fail(Throwable why) {
    if (done.tryFail(why)) {
      cancel();
    }
  }

  private void take(HttpClientResponse response, Receiver receiver) {
    String type = response.getHeader("content-type");
    if (response.statusCode() != HTTP_OK || type == null || !type.startsWith(CONTENT_TYPE)) {
      fail(
          RemoteChannel.failure(
              ofHttp(response.statusCode()),
              "the server answered HTTP "
                  + response.statusCode()
                  + " "
                  + type
                  + ", expected HTTP 200 "
                  + CONTENT_TYPE));
      return;
    }
    response.exceptionHandler(done::tryFail);
    response.handler(bytes -> {
      if (!done.future().isComplete()) {
        try {
          receiver.onBytes(((BufferInternal) bytes).getByteBuf().nioBuffer());
        } catch (RuntimeException e) {
          fail(e);
        }
      }
    });
    response.endHandler(v -> end(response, receiver));
  }

  private void end(HttpClientResponse response, Receiver receiver) {
    GrpcStatus status = status(field(response, "grpc-status"));
    if (status != GrpcStatus.OK) {
      done.tryFail(RemoteChannel.failure(status, text(field(response, "grpc-message"))));
      return;
    }
    if (!done.future().isComplete()) {
      try {
        receiver.onEnd();
        done.tryComplete();
      } catch (RuntimeException e) {
        done.tryFail(e);
      }
    }
  }

  /** A field after the messages; where there are none, it is in the header. */
  private static @Nullable String field(HttpClientResponse response, String name) {
    String trailer = response.getTrailer(name);
    return trailer == null ? response.getHeader(name) : trailer;
  }

  private static @Nullable GrpcStatus status(@Nullable String code) {
    try {
      return code == null ? null : GrpcStatus.valueOf(Integer.parseInt(code));
    } catch (NumberFormatException e) {
      return null;
    }
  }

  private static @Nullable String text(@Nullable String encoded) {
    try {
      return encoded == null ? null : URLDecoder.decode(encoded.replace("+", "%2B"), UTF_8);
    } catch (IllegalArgumentException e) {
      return encoded;
    }
  }

  /** What gRPC says of an HTTP status. */
  private static GrpcStatus ofHttp(int status) {
    return switch (status) {
      case 400 -> GrpcStatus.INTERNAL;
      case 401 -> GrpcStatus.UNAUTHENTICATED;
      case 403 -> GrpcStatus.PERMISSION_DENIED;
      case 404 -> GrpcStatus.UNIMPLEMENTED;
      default -> GrpcStatus.UNAVAILABLE;
    };
  }

  /** Takes an answer of one message. */
  static final class OneMessage implements Receiver {
    private final Buffer bytes = Buffer.buffer();

    @Override
    public void onBytes(ByteBuffer piece) {
      if (piece.remaining() > PREFIX_BYTES + MESSAGE_BYTES_MAX - bytes.length()) {
        throw new RemoteChannel.Failure(
            Status.UNAVAILABLE,
            "the daemon sent a message of more than " + MESSAGE_BYTES_MAX + " bytes");
      }
      var _ = bytes.appendBuffer(BufferInternal.buffer(Unpooled.wrappedBuffer(piece)));
    }

    @Override
    public void onEnd() {
      if (bytes.length() < PREFIX_BYTES
          || bytes.getByte(0) != 0
          || bytes.getInt(1) != bytes.length() - PREFIX_BYTES) {
        throw new RemoteChannel.Failure(
            Status.UNAVAILABLE,
            "the daemon sent "
                + bytes.length()
                + " bytes, expected one message that is not compressed");
      }
    }

    /** The message, once all has come. */
    Buffer message() {
      return bytes.getBuffer(PREFIX_BYTES, bytes.length());
    }
  }
}
